#include <troupe/actors/support/supervised_threads.hpp>

#include <utility>

namespace troupe {

supervised_threads::supervised_threads(thread_port& threads, std::uint32_t places,
                                       std::uint32_t replaced_max)
  : threads_{threads}, replaced_max_{replaced_max}, all_(places) {
  for (auto& each : all_)
    each.number = next_number_++;
}

supervised_threads::~supervised_threads() {
  for (auto& each : all_)
    if (each.thread) { // the last one that was given up may be what ends us
      if (each.thread->ended())
        each.thread->join();
      else
        each.thread->abandon();
    }
}

void supervised_threads::start(std::uint32_t place, std::string name, body run) {
  auto& at = all_[place];
  at.thread = threads_.start(std::move(name),
                             [run = std::move(run), mine = post{place, at.number}] { run(mine); });
}

std::uint32_t supervised_threads::running() const {
  std::uint32_t out = 0;
  for (const auto& each : all_)
    out += each.thread ? 1 : 0;
  return out;
}

void supervised_threads::give_up(std::uint32_t place) {
  auto& at = all_[place];
  if (at.thread)
    at.thread->abandon();
  at.thread = nullptr;
  at.number = next_number_++;
  ++given_up_;
}

bool supervised_threads::join(std::unique_lock<std::mutex>& lock, const clock_port& clock,
                              time_point deadline, const std::function<void()>& pause) {
  bool all = true;
  for (auto& each : all_) {
    while (each.thread && !each.thread->ended() && clock.now() < deadline)
      pause();
    auto thread = std::exchange(each.thread, nullptr);
    if (!thread) // none, or given up meanwhile
      continue;
    if (thread->ended()) {
      lock.unlock();
      thread->join();
      lock.lock();
    } else {
      thread->abandon();
      all = false;
    }
  }
  return all && given_up_ == 0;
}

} // namespace troupe
