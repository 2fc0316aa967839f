#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <troupe/actors/replicas/collective_order_checker.hpp>
#include <troupe/actors/replicas/merge_rendezvous.hpp>
#include <troupe/actors/support/adaptive_spin.hpp>
#include <troupe/actors/support/supervised_threads.hpp>
#include <troupe/core/environment.hpp>

namespace troupe {

struct replica_executor_options {
  std::string name = "replica";
  std::uint32_t first_id = 0; ///< of the first replica here, in the whole group
  std::uint32_t replicas = 1;
  /// Once one replica has failed, the others' functions may go on for so long. Then their threads
  /// are given up and replaced.
  std::uint64_t grace_ms = 10'000;
  /// How long a merge call waits for replicas that do not come.
  duration call_timeout = limits::replica_call;
  std::uint32_t threads_lost_max = 4; ///< that are replaced; one more and every run is refused
  /// How long a thread that waits looks again and again before it sleeps: between the runs of a
  /// training loop, and in merge calls. 0: it sleeps at once.
  duration spin{};
  /// Called once a run, before any thread begins: chooses the group's epoch. True: all threads are
  /// in it already, and none need wait for the others to join.
  std::function<bool()> prepare{};
  /// Called on each replica's thread: joins the group, if need be. Throws. Functions begin once all
  /// have.
  std::function<void(std::uint32_t local)> before{};
  /// A thread was left behind, and another will take its place: must not wait.
  std::function<void(std::uint32_t local)> replaced{};
  /// Called without a lock, on any replica's thread or the one that called `run`, once a run
  /// failed: ends what others wait for, in other processes too, which are told `why`.
  std::function<void(std::uint32_t local, const failure& why)> interrupt{};
};

namespace detail {
struct replica_run;
} // namespace detail

/// The threads of a process's replicas, one each. Runs a function on all of them at once, stops
/// them for merge calls, and sees to it that all make the same calls. Thread-safe; `run` on threads
/// of the program, the rest on the replicas' threads.
class replica_executor : public std::enable_shared_from_this<replica_executor> {
public:
  /// @pre owned by a shared_ptr.
  replica_executor(const environment& env, replica_executor_options options);
  ~replica_executor();
  replica_executor(const replica_executor&) = delete;
  replica_executor& operator=(const replica_executor&) = delete;

  /// Calls `body(local)` once for each replica, on its thread, and waits for all. Runs that several
  /// threads of the program ask for follow one another. One that a merge function calls is part of
  /// the run that waits there: `inside`, from `merging`. Rethrows the error of the lowest replica
  /// that failed by itself; `mismatch` quotes the calls that differ.
  void run(std::function<void(std::uint32_t local)> body,
           const std::shared_ptr<detail::replica_run>& inside = {});
  /// Waits until all replicas of the run have called it; then `merge` runs once, on the thread that
  /// called `run`, and each gets its own part of what it returned. The replicas' `merge` do the
  /// same; that of the first is called.
  std::shared_ptr<void> merge(std::uint32_t local, replica_call call,
                              std::shared_ptr<void> arguments, const merge_body& merge);
  /// A collective call: compared with the other replicas' before and marked as made after. Throws
  /// `mismatch`; `cancelled` when the run has failed.
  void begin_call(std::uint32_t local, replica_call call);
  void end_call(std::uint32_t local);
  /// The call that a replica that stands in, without a function of its own, has to make next since
  /// another replica makes it; none once all but those of `empty_replicas` have ended.
  std::optional<replica_call> await_call(std::uint32_t local,
                                         const std::vector<bool>& empty_replicas);
  /// Fails the run because a collective call of the replica failed with `why`, unless the run has
  /// failed before. Returns the failure that the call shall throw, naming replica and call.
  failure call_failed(std::uint32_t local, failure why);

  /// Number of the replica's thread: another one once it is left behind and another takes its
  /// place.
  std::uint64_t generation(std::uint32_t local) const;
  /// The failure for a thread that was left behind, `cancelled`: what it changes from then on would
  /// be another run's. None on other threads, and on threads that run no replica. Takes no lock.
  std::optional<failure> why_not_in_place(std::uint32_t local) const;

  /// The run whose merge function runs on this thread right now, for `inside`.
  static std::shared_ptr<detail::replica_run> merging();

  /// Has every run from now on fail with `why`: a device is gone. Does not wait.
  void fail(std::uint32_t local, failure why);
  /// "op 12 all_reduce sum f32[2] waits for {1}"; empty when nobody waits.
  std::string status() const;
  std::uint32_t threads_lost() const;
  /// Ends the threads. A function that does not end by `deadline` is left behind: false.
  bool close(time_point deadline);

private:
  std::string name_of(std::uint32_t local) const;
  using post = supervised_threads::post;
  struct slot {
    std::deque<std::shared_ptr<detail::replica_run>> queue{};
    std::shared_ptr<detail::replica_run> current{}; ///< the innermost that runs here
  };
  void tell();
  void look_for_news(std::uint64_t seen, time_point deadline);
  void await_news(std::unique_lock<std::mutex>& lock, time_point deadline);
  void start_thread(std::uint32_t local);
  void serve(const post& mine);
  void execute(const std::shared_ptr<detail::replica_run>& run, const post& mine);
  void note_end(std::uint32_t local, detail::replica_run& run, std::exception_ptr why,
                std::shared_ptr<detail::replica_run> around);
  bool note_failure(detail::replica_run& run, failure why);
  void interrupt_all(detail::replica_run& run, std::unique_lock<std::mutex>& lock);
  void abort(detail::replica_run& run, failure why, std::unique_lock<std::mutex>& lock);
  std::shared_ptr<merge_meeting> ready_merge(const detail::replica_run& run);
  void run_merge(const std::shared_ptr<detail::replica_run>& run, merge_meeting& at,
                 std::unique_lock<std::mutex>& lock);
  void give_up(detail::replica_run& run);
  void give_up_thread(std::uint32_t local, detail::replica_run& run);
  bool try_start_thread(std::uint32_t local);
  void drive(const std::shared_ptr<detail::replica_run>& run, std::unique_lock<std::mutex>& lock);
  bool all_ready(std::uint32_t local, detail::replica_run& run);
  std::shared_ptr<detail::replica_run> nested(std::uint32_t local,
                                              const detail::replica_run& outer);

  const environment& env_;
  const replica_executor_options options_;
  mutable std::mutex mutex_{};
  const std::unique_ptr<wait_point> changed_;
  std::atomic<std::uint64_t> news_{
    0}; ///< how often `changed_` was notified: written under the lock
  adaptive_spin spin_{};
  supervised_threads threads_;
  std::vector<slot> slots_; ///< by replica
  std::optional<failure> failed_{};
  std::uint64_t tickets_ = 0; ///< of runs, in the order in which they were asked for
  std::uint64_t serving_ = 0;
};

} // namespace troupe
