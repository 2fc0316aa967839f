#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <troupe/core/environment.hpp>

namespace troupe {

/// When a piece of work counts as hung: at its own deadline, or a grace period after it was asked
/// to end, whichever comes first. Plain; its owner locks and gives the time.
class hang_limit {
public:
  /// No limit.
  hang_limit() = default;
  /// `deadline` after `started`; 0: no limit.
  hang_limit(time_point started, duration deadline)
    : at_{deadline > duration{} ? after(started, deadline) : never}, deadline_{at_} {}

  /// The work was asked to end at `now`, and has `grace` for it.
  void ask_to_end(time_point now, duration grace) { at_ = std::min(at_, after(now, grace)); }
  /// Whether the limit has passed. `excused`: time of the work that does not count.
  bool passed(time_point now, duration excused = {}) const { return now >= after(at_, excused); }
  /// `never`: no limit.
  time_point at() const { return at_; }
  /// Whether the limit is the work's own deadline, and no grace period's end before it.
  bool is_deadline() const { return deadline_ != never && at_ >= deadline_; }

private:
  time_point at_ = never;
  time_point deadline_ = never;
};

/// Threads that run user code, one a place. User code may hang: the owner, who knows when work
/// counts as hung (`hang_limit`), gives the thread up and starts another in its place. The thread
/// that was given up finds out at its next look for work, and leaves.
///
/// Not thread-safe but for `number`: everything else with the owner's lock held. What runs on the
/// threads must own what it uses, since a thread that was given up runs on.
class supervised_threads {
public:
  /// What a thread knows of itself.
  struct post {
    std::uint32_t place = 0;  ///< 0 to `places`
    std::uint64_t number = 0; ///< of the thread: no two that stood in a place have the same
  };
  using body = std::function<void(const post& mine)>;

  /// `replaced_max`: threads that may be given up and replaced; one more and `may_replace` is
  /// false.
  supervised_threads(thread_port& threads, std::uint32_t places, std::uint32_t replaced_max);
  /// Gives up the threads that have not ended.
  ~supervised_threads();
  supervised_threads(const supervised_threads&) = delete;
  supervised_threads& operator=(const supervised_threads&) = delete;

  std::uint32_t places() const { return static_cast<std::uint32_t>(all_.size()); }
  /// Starts a thread in a place that has none. Throws what the port throws when the system has
  /// none; the place stays free.
  void start(std::uint32_t place, std::string name, body run);
  bool has_thread(std::uint32_t place) const { return all_[place].thread != nullptr; }
  /// How many places have a thread.
  std::uint32_t running() const;
  /// The number of the place's thread; of the next one while it has none. Any thread, without a
  /// lock.
  std::uint64_t number(std::uint32_t place) const { return all_[place].number; }
  /// Whether the thread still has its place, or was given up.
  bool is_in_place(const post& who) const { return number(who.place) == who.number; }

  /// For a thread's loop: waits for the next work and takes it. None: the thread has to leave,
  /// since it was given up, or the pool was closed and no work is left. `take`: gives work, or none
  /// (something that converts to false); `wait`: lets go of the lock until there may be news.
  template <class Take, class Wait>
  auto next_work(const post& mine, Take take, Wait wait) -> decltype(take()) {
    while (is_in_place(mine)) {
      if (auto work = take())
        return work;
      if (closed_)
        break;
      wait();
    }
    return {};
  }

  /// Gives up the thread of a place: nobody waits for it. The place is free for another.
  void give_up(std::uint32_t place);
  /// Whether what was given up may be replaced.
  bool may_replace() const { return given_up_ <= replaced_max_; }
  /// How many threads were given up, in all.
  std::uint32_t given_up() const { return given_up_; }

  /// Threads leave once no work is left for them.
  void close() { closed_ = true; }
  bool closed() const { return closed_; }
  /// Waits, place by place, until all threads have ended or `deadline` has passed; gives up those
  /// that have not. `pause`: lets go of the lock for a moment. False: some thread was given up, now
  /// or before, and may still come back. @pre closed
  bool join(std::unique_lock<std::mutex>& lock, const clock_port& clock, time_point deadline,
            const std::function<void()>& pause);

private:
  struct place_state {
    std::unique_ptr<thread_handle> thread{};
    std::atomic<std::uint64_t> number{0}; ///< written under the lock
  };
  thread_port& threads_;
  const std::uint32_t replaced_max_;
  std::vector<place_state> all_;
  std::uint64_t next_number_ = 0;
  std::uint32_t given_up_ = 0;
  bool closed_ = false;
};

} // namespace troupe
