#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <troupe/actors/coordinator/blocked_closures.hpp>
#include <troupe/actors/coordinator/closure.hpp>
#include <troupe/actors/coordinator/closure_priority_queues.hpp>
#include <troupe/core/environment.hpp>
#include <troupe/core/planted.hpp>
#include <troupe/core/result.hpp>

/// The coordinator's queue of closures and its error state (`docs/protocol.md`). No CAF.
namespace troupe {

struct closure_queue_options {
  /// Closures that are queued or wait for inputs; `put` waits at it. What is in flight or put back
  /// doesn't count.
  std::size_t queue_len_max = 1024;
  /// Workers that a closure may take with it before it fails as `poisoned`; 0: any number.
  std::uint32_t max_failed_attempts = 5;
  /// Blocking calls raise `unavailable` after this long without any live worker.
  std::int64_t no_worker_ms_max = 600'000;
  /// Errors that `errors()` keeps, the latest ones.
  std::size_t errors_len_max = 256;
};

/// Functions that the queue calls, always outside its lock. They must not block; any thread may be
/// the caller.
struct closure_queue_hooks {
  /// Tells that there is something to take. Not called again before the next `take`. Then call
  /// `take` for every worker with credit left; `on_work` comes again when something new arrives
  /// after a `take` that returned less than asked, or in an empty queue.
  std::function<void()> on_work{};
  /// Asks for the cancellation of what is in flight: a raise or a stop began. The number is the
  /// generation those closures were taken under (`cancel_generation()` until all have ended).
  std::function<void(std::uint64_t generation)> on_cancel{};
  /// The name of a function, for messages.
  std::function<std::string(function_index)> name_of{};
};

/// Why a closure comes back without an end.
enum class put_back_reason : std::uint8_t {
  recalled = 0,            ///< not started there; wanted elsewhere
  worker_lost_running = 1, ///< its worker died while running it: a failed attempt
  worker_lost_waiting = 2, ///< its worker died, left or was fenced before running it
  transient = 3            ///< an error that passes: of the way to a server, or a deadline
};

/// Facts on the attempt that a closure comes back from.
struct attempt_loss {
  attempt_loss(task_id lost = {}) : worker{lost} {} // NOLINT: a worker alone says enough
  task_id worker{};                                 ///< that was lost, or gave it up
  std::string how{};                                ///< as `taken_worker::how`
  std::string reason{};                             ///< what was said of the worker's loss
  bool doubted = false;        ///< it may have been running there: it runs alone from now on
  bool unacknowledged = false; ///< its operations may still be on their way to servers
};

/// An end as reported by a worker. `status`: ready (`value`), failed or cancelled (`why`). A
/// failure with the code `cancelled` is a cancellation.
struct closure_end {
  closure_ptr which{};
  remote_status status = remote_status::ready;
  payload value{};
  failure why{};
};

/// Totals since the start, without tagged closures: scheduled = finished + failed + cancelled +
/// queued + in flight.
struct closure_counts {
  std::uint64_t scheduled = 0;
  std::uint64_t finished = 0;
  std::uint64_t failed = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t put_back = 0; ///< comings back, each counted
};

/// Counts at one moment.
struct closure_levels {
  std::size_t queued = 0; ///< takeable by some worker, or waiting for inputs
  std::size_t waiting_for_inputs = 0;
  std::size_t in_flight = 0;
  std::size_t tagged_queued = 0;
  std::size_t tagged_in_flight = 0;
  bool has_error = false;
};

/// The ids that servers need to prune their ledgers: an id up to `highest` that is not in `open`
/// has ended. `open` also lists what was never dispatched but has a lower id than something that
/// was (priorities, affinity and inputs reorder): a server that took such an id as settled would
/// drop its updates.
struct completion_watermark {
  term_no term{};
  std::uint64_t highest = 0;         ///< seq of the highest id ever dispatched; 0: none
  std::vector<std::uint64_t> open{}; ///< seqs up to `highest` that have not ended, sorted
};

/// Whether a closure must be the only one on its worker: from its second failed attempt on, or once
/// a worker died that may have been running it.
inline bool runs_alone(const closure& c) { return c.failed_attempts >= 2 || c.doubted; }

/// The failure of whatever takes `input`, which failed or was cancelled: `input_failed` with the
/// innermost error's text. An `input_failed` is passed on as it is, so that it never nests.
failure input_failure(const remote_state& input);

/// A monitor between user threads, which wait in it, and the coordinator actor, which never does.
/// Any thread.
///
/// Order: the highest priority class first; inside a class in closure order, also for what comes
/// back. A closure with `options.worker` is taken by that worker only. A closure that takes values
/// waits outside its class until all are `ready` (an `aborted` one will be rebuilt and is
/// waited for); when one failed or was cancelled, the closure fails with `input_failed`. That is an
/// error like any other: the first one recorded is raised, so in the batch of the original error
/// nothing is raised twice, and a closure scheduled later with a value that has failed is not
/// silent.
///
/// Raise, by exactly one of the threads in `put`, `wait` or `done`: `on_cancel`, nothing is taken
/// any more, wait until nothing is in flight, the queued ones become `cancelled`, next generation,
/// the error is cleared and returned. A raise whose caller ran out of time stays begun and is
/// completed by the next call.
///
/// A closure that is `unacknowledged` is never failed or cancelled by the queue itself, `stop`
/// aside: it stays in flight, or goes back there, until the coordinator, who gets it from
/// `take_unconfirmed`, ends it once no server can apply anything of it any more.
///
/// Invariants: each closure is in one place; classes are in closure order; `put` never exceeds the
/// bound; `wait` returns with nothing queued or in flight; an error is raised once. Cost: constant
/// a closure, without inputs and put-backs; no allocation but the closure itself and the lines'
/// blocks.
class closure_queue {
public:
  closure_queue(const environment& env, completion_board& board, term_no term,
                closure_queue_options options, closure_queue_hooks hooks);
  closure_queue(const closure_queue&) = delete;
  closure_queue& operator=(const closure_queue&) = delete;
  /// @pre nobody waits in it. Ends what is left as `stop` does.
  ~closure_queue();

  // -- user threads: these wait --

  /// Queues `c` and gives it the next id. Makes `c.result` when it is null; returns it. Waits while
  /// the queue is full, another thread is inside `wait` or a raise is going on. Every failure
  /// leaves the result `cancelled`: the first recorded error of earlier closures, `deadline`,
  /// `unavailable` (stopped, or no worker for too long), `invalid_argument` (priority).
  result<std::shared_ptr<remote_state>> put(closure c, time_point deadline);
  /// Waits until nothing is queued, waiting for inputs or in flight; raises the first error.
  /// `deadline`, `unavailable`.
  result<void> wait(time_point deadline);
  /// Whether nothing is queued or in flight; at once, except that it raises as `wait` does.
  result<bool> done(time_point deadline = never);

  // -- any thread, never waits --

  /// The latest errors, oldest first, also of tagged closures and discarded ones; `error_count`
  /// counts all.
  std::vector<failure> errors() const;
  std::uint64_t error_count() const;
  /// Adds an error to `errors()` only: it is never raised.
  void note_error(const failure& why);
  closure_counts counts() const;
  closure_levels levels() const;
  /// The time at which blocking calls give up for want of workers; `never` while one lives. For
  /// `fetch`.
  time_point no_worker_deadline() const;
  /// The failure of blocking calls that gave up for want of workers.
  failure no_worker_failure() const;
  /// Ends the queue: everything that has not ended becomes `cancelled`, in flight or not; everybody
  /// in `put`, `wait` or `done`, now or later, gets `why`; `on_cancel` when something was in
  /// flight. Later calls of the actor's side do nothing. `why` without a code: `unavailable`, it
  /// was stopped.
  void stop(failure why = {});

  // -- the coordinator actor: never waits --

  /// Queues a closure that builds a per-worker resource: run by `worker` only, before all others,
  /// outside the bound, and invisible to `put`, `wait`, `done` and raises. Its failure stands in
  /// `errors()` only. `c.result` may be a value that was `aborted`.
  std::shared_ptr<remote_state> put_tagged(closure c, std::uint32_t worker);
  /// Takes the tagged closures of a lost worker out of the queue, without an end.
  std::vector<closure_ptr> drop_tagged(std::uint32_t worker);

  /// Takes at most `n` closures for `worker`, each with its attempt one higher, now in flight. A
  /// closure that runs alone comes alone: only when `worker_idle` (nothing else is there), and
  /// nothing comes after it before it has ended. Others don't overtake it on the way to a busy
  /// worker. Empty during a raise (tagged ones excepted) and after `stop`.
  std::vector<closure_ptr> take(std::uint32_t worker, std::size_t n, bool worker_idle);

  /// Ends a closure. @pre (asserted) for the `mark_` calls and `put_back`: the closure came from
  /// `take` and is in flight.
  void mark_finished(const closure_ptr& c, payload value);
  void mark_failed(const closure_ptr& c, failure why);
  void mark_cancelled(const closure_ptr& c, failure why);
  /// Makes many ends under one lock, in order. Moves out of them.
  void mark_ended(std::span<closure_end> ends);
  /// Puts a closure back into the queue, in closure order, exempt from the bound. With
  /// `worker_lost_running`, `from.worker` counts as a failed attempt; the one that reaches the
  /// limit ends the closure as `poisoned`. Once an error is recorded the closure is cancelled
  /// instead. False when the closure will not run again.
  bool put_back(const closure_ptr& c, put_back_reason reason, attempt_loss from = {});
  void put_back(std::span<const closure_ptr> cs, put_back_reason reason, attempt_loss from = {});
  /// Ends that the queue has decided and not made, because earlier attempts of theirs are
  /// `unacknowledged`: in flight, for the caller to `mark_`. Each is given once; `on_work` or
  /// `on_cancel` says that there are some, unless the caller's own call made them.
  std::vector<closure_end> take_unconfirmed();
  /// Failed attempts that end `c` as `poisoned`; 0: any number.
  std::uint32_t failed_attempts_max(const closure& c) const {
    return c.options.retries > 0 ? c.options.retries : options_.max_failed_attempts;
  }
  /// "closure 3:17 of train_step"; without the id before it has one.
  std::string describe(const closure& c) const;
  /// Tells that a value that this queue did not end itself (a rebuilt resource) has changed its
  /// status.
  void input_changed(const remote_state& input);
  /// Starts and ends the clock of `no_worker_ms_max`. 0 at the start.
  void set_live_workers(std::size_t n);

  bool in_flight(const closure& c) const;
  bool in_flight(const closure_id& id) const;
  /// The highest priority that `worker` could take from now.
  std::optional<int> top_priority(std::uint32_t worker) const;
  std::uint64_t cancel_generation() const;
  completion_watermark settled() const;
  std::uint64_t highest_dispatched() const;
  std::vector<std::uint64_t> unsettled() const;
  term_no term() const { return term_; }

private:
  using unique_lock = std::unique_lock<std::mutex>;
  /// The work of a call once it has let go of the lock.
  struct after_unlock {
    bool work = false;
    bool publish = false;
    std::optional<std::uint64_t> cancel{};
    std::vector<std::shared_ptr<remote_state>>
      arrived{}; ///< ended, and somebody takes it; empty at unlock
  };

  // -- waits --
  template <class Pred>
  result<void> await(unique_lock& lock, wait_point& at, std::size_t& waiting, time_point deadline,
                     const char* call, Pred pred);
  void wake_waiters();
  void run(unique_lock& lock, after_unlock& then);
  bool may_put() const;
  bool all_ended() const {
    return queued() == 0 && (in_flight_ == 0 || planted(planted_bug::join_too_early));
  }
  std::size_t queued() const { return queues_.size() + blocked_.size(); }
  result<void> wait_for_room(unique_lock& lock, time_point deadline, after_unlock& then);
  failure raise(unique_lock& lock, time_point deadline, after_unlock& then);
  void end_everything(after_unlock& then);

  // -- failures --
  failure stopped_failure() const;
  failure no_worker_failure_locked() const;
  failure poison(const closure& c) const;
  void record(const failure& why, bool of_batch);

  // -- places --
  void admit(queued_closure_ptr c, after_unlock& then);
  void make_takeable(queued_closure_ptr c, after_unlock& then);
  void on_ready(const remote_state& input, after_unlock& then);
  void on_arrived(after_unlock& then);
  void hand_out(queued_closure_ptr c, std::uint32_t worker, std::vector<closure_ptr>& to);
  void enter_flight(queued_closure_ptr c);
  queued_closure_ptr leave_flight(const closure_ptr& c);
  void end(queued_closure& c, remote_status status, payload&& value, failure&& why,
           after_unlock& then);
  void end_when_confirmed(queued_closure_ptr c, remote_status status, failure&& why,
                          after_unlock& then);
  failure cancellation(const closure& c, const char* because) const;
  void cancel(queued_closure& c, const char* because, after_unlock& then);
  void cancel_queued(const char* because, after_unlock& then);
  void cancel_unacknowledged(const char* because, after_unlock& then);
  bool return_one(const closure_ptr& c, put_back_reason reason, const attempt_loss& from,
                  after_unlock& then);

  const environment env_;
  completion_board& board_;
  const term_no term_;
  const closure_queue_options options_;
  const closure_queue_hooks hooks_;

  mutable std::mutex mutex_;
  std::unique_ptr<wait_point> space_; ///< putters
  std::unique_ptr<wait_point> ended_; ///< joiners and the raiser
  std::size_t putters_ = 0;           ///< asleep at space_
  std::size_t watchers_ = 0;          ///< asleep at ended_
  std::size_t joiners_ = 0;           ///< inside wait()

  closure_priority_queues queues_{};
  blocked_closures blocked_{};
  std::vector<queued_closure_ptr> flying_{}; ///< in flight, tagged ones too, in no order
  std::vector<closure_end> unconfirmed_{};   ///< in flight, and not taken by the coordinator
  std::atomic<bool> any_unconfirmed_{false};
  std::map<std::uint32_t, std::uint64_t> alone_{}; ///< worker -> seq of what runs alone there
  std::size_t in_flight_ = 0;                      ///< without tagged ones

  std::uint64_t next_seq_ = 1;
  std::uint64_t highest_ = 0;
  std::uint64_t generation_ = 1;
  closure_counts counts_{};

  std::optional<failure> error_{};
  std::deque<failure> errors_{};
  std::uint64_t error_count_ = 0;
  bool raising_ = false; ///< begun and not completed
  bool raiser_ = false;  ///< a thread is completing it
  bool stopped_ = false;
  failure stopped_why_{};  ///< what the caller of `stop` said
  bool signalled_ = false; ///< on_work was called and no take came since
  bool hungry_ = true;     ///< a take returned less than asked since the last on_work
  std::size_t live_workers_ = 0;
  time_point no_worker_deadline_;
};

} // namespace troupe
