#include <troupe/strategies/runtime/remote_value.hpp>

#include <algorithm>

#include <troupe/strategies/runtime/detail/coordinator_client.hpp>

namespace troupe {

const payload& remote_handle::wait() const { return *wait_until(never); }

const payload* remote_handle::wait_until(time_point deadline) const {
  if (!state_)
    throw_failure(errc::wrong_state, "fetch: this remote_value is empty");
  auto& shared = cluster_->shared();
  for (;;) {
    if (ended())
      break;
    cluster_->check_open("fetch");
    auto no_worker = shared.queue->no_worker_deadline();
    if (shared.board.wait(*state_, std::min(deadline, no_worker)))
      break;
    auto now = cluster_->env().clock.now();
    if (now >= deadline)
      return nullptr; // no error: it may end right now, and then the caller would see both
    if (now >= shared.queue->no_worker_deadline())
      throw_failure(shared.queue->no_worker_failure());
  }
  if (state_->status.load() != remote_status::ready)
    throw_failure(state_->why);
  return &state_->value;
}

bool remote_handle::ended() const {
  return state_ && state_->status.load() != remote_status::not_ready;
}

time_point remote_handle::deadline_in(duration d) const {
  if (!cluster_)
    throw_failure(errc::wrong_state, "fetch: this remote_value is empty");
  if (cluster_->closed())
    return never; // the value has ended; or fetching it says that the runtime has
  return after(cluster_->env().clock.now(), d);
}

} // namespace troupe
