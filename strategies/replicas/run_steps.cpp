#include <troupe/strategies/replicas/run_steps.hpp>

namespace troupe {

void step_context::no_output(const std::string& name, const char* why) {
  throw_failure(errc::unknown_name, "step output '" + name + "' " + why);
}

void step_context::set_last_step_output(const std::string& name, const tensor& value,
                                        std::optional<reduction> op) {
  if (in_cross_replica_context()) {
    if (op)
      last_[name] = get_strategy().reduce(*op, value);
    else
      last_[name] = value;
    return;
  }
  if (!op)
    throw_failure(errc::invalid_argument,
                  "step output '" + name + "': inside a replica a reduction is required");
  get_replica_context()->merge_call(
    [this, name, op](strategy& in, const per_replica<tensor>& all) {
      last_[name] = in.reduce(*op, all);
    },
    value);
}

void step_context::set_last_step_output(const std::string& name, const per_replica<tensor>& value,
                                        std::optional<reduction> op) {
  if (!in_cross_replica_context())
    throw_failure(
      errc::wrong_state,
      "step output '" + name + "': a replica must set its own value, not a distributed one");
  if (op)
    last_[name] = get_strategy().reduce(*op, value);
  else
    last_[name] = value;
}

const step_context::output& step_context::last_step_output(const std::string& name) const {
  auto at = last_.find(name);
  if (at == last_.end())
    no_output(name, "was not set by any step");
  return at->second;
}

const tensor& step_context::last_step_tensor(const std::string& name) const {
  const auto* out = std::get_if<tensor>(&last_step_output(name));
  if (!out)
    no_output(name, "is a distributed value, set without a reduction");
  return *out;
}

namespace detail {

void steps_ended(std::uint64_t done, std::uint64_t wanted) {
  throw_failure(errc::end_of_data, "run_steps_on_iterator: the input ended after "
                                     + std::to_string(done) + " of " + std::to_string(wanted)
                                     + " steps");
}

} // namespace detail
} // namespace troupe
