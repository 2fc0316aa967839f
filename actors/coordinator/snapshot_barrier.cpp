#include <troupe/actors/coordinator/snapshot_barrier.hpp>

#include <troupe/core/planted.hpp>

#include <string>
#include <utility>

namespace troupe {

void snapshot_barrier::begin(time_point now) {
  TROUPE_ASSERT(!quiescing_, "one snapshot is taken at a time");
  quiescing_ = true;
  watch_.begin(now);
  ++timer_;
}

auto snapshot_barrier::next_step(std::size_t running, std::size_t held) -> step {
  if (planted(planted_bug::cut_while_running))
    running = 0;
  if (!quiescing_ || current_ || running > 0 || held > 0)
    return step::wait;
  return has_partial() ? step::run_partial : step::take;
}

snapshot_id snapshot_barrier::take(term_no term, std::set<std::uint32_t> servers) {
  TROUPE_ASSERT(quiescing_ && !current_, "a snapshot is taken once, after quiescing");
  current_ = static_cast<snapshot_id>((std::uint64_t{value_of(term)} << 32) | ++snapshots_);
  owing_ = std::move(servers);
  ++timer_; // the servers' time begins now
  return *current_;
}

auto snapshot_barrier::answered(snapshot_id snapshot, std::uint32_t server, bool taken) -> answer {
  if (current_ != snapshot)
    return answer::late;
  owing_.erase(server);
  if (!taken)
    return answer::failed;
  return owing_.empty() ? answer::complete : answer::more;
}

std::optional<snapshot_id> snapshot_barrier::end() {
  quiescing_ = false;
  ++timer_;
  return std::exchange(current_, {});
}

bool snapshot_barrier::holds_back() { return quiescing_ && (current_ || !has_partial()); }

void snapshot_barrier::note_partial(const closure_ptr& c) {
  constexpr std::size_t look_at = 256;
  if (partial_.size() >= look_at && partial_.size() % look_at == 0)
    (void)has_partial(); // keeps it to those that are still open
  partial_.push_back(c);
}

bool snapshot_barrier::has_partial() {
  std::erase_if(partial_, [](const closure_ptr& c) {
    return c->result->status.load() != remote_status::not_ready;
  });
  return !partial_.empty();
}

failure snapshot_barrier::no_progress(std::span<const running_closure> overdue,
                                      std::size_t held) const {
  std::string who;
  for (const auto& c : overdue)
    who += (who.empty() ? "closures " : ", ") + std::to_string(c.seq)
           + " on worker:" + std::to_string(c.worker);
  if (who.empty())
    who = "the servers have not confirmed that " + std::to_string(held)
          + " closures ended, or closures that may have reached a server wait for a worker";
  return make_failure(errc::deadline,
                      "save: no progress for " + std::to_string(quiet_ms_max_) + " ms of " + who);
}

failure snapshot_barrier::no_answer() const {
  std::string who;
  for (auto index : owing_)
    who += (who.empty() ? "ps:" : ", ps:") + std::to_string(index);
  return make_failure(errc::deadline, "save: waiting for the snapshots of " + who + " after "
                                        + std::to_string(quiet_ms_max_) + " ms");
}

} // namespace troupe
