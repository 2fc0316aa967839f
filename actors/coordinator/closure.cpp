#include <troupe/actors/coordinator/closure.hpp>

#include <cereal/types/string.hpp>

namespace troupe {

payload bind_inputs(const closure& c) {
  plain_writer out;
  out.out.tensors = c.arguments->tensors;
  out(std::uint8_t{1}, static_cast<std::uint32_t>(c.inputs.size()), c.arguments->bytes);
  for (const auto& input : c.inputs) {
    out(input->value.bytes, static_cast<std::uint32_t>(out.out.tensors.size()));
    out.out.tensors.insert(out.out.tensors.end(), input->value.tensors.begin(),
                           input->value.tensors.end());
  }
  return std::move(out.out);
}

completion_board::completion_board(const environment& env) : changed_{env.waits.make_point()} {}

void completion_board::set_ready(remote_state& to, payload value) {
  to.value = std::move(value);
  to.status.store(remote_status::ready); // seq_cst: pairs with `waiting_` in wait()
}

void completion_board::set_ended(remote_state& to, remote_status status, failure why) {
  to.why = std::move(why);
  to.status.store(status);
}

void completion_board::publish() {
  if (waiting_.load() == 0)
    return;
  std::lock_guard lock{mutex_}; // a waiter is either before its check or in wait_until
  changed_->notify_all();
}

bool completion_board::wait(const remote_state& on, time_point deadline) {
  auto arrived = [&] { return on.status.load() != remote_status::not_ready; };
  if (arrived())
    return true;
  std::unique_lock lock{mutex_};
  ++waiting_;
  bool ok = wait_for(*changed_, lock, deadline, arrived);
  --waiting_;
  return ok;
}

} // namespace troupe
