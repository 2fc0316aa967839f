#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include <troupe/strategies/checkpoint/preemption_core.hpp>
#include <troupe/strategies/checkpoint/sync_checkpoint.hpp>

/// Saving because a worker is about to be taken away.
namespace troupe {

/// How a `preemption_checkpoint` hears of the end, saves and leaves.
struct preemption_checkpoint_options {
  preemption_options termination{};
  /// SIGTERM is a notice: its handler only sets a flag. Off: the program's own business.
  bool handle_sigterm = false;
  /// Whether the platform has announced the end; asked once a second at most, between calls.
  std::function<bool()> watcher{};
  /// Saves in place of the checkpoint; every worker calls it. No checkpoint is then written by the
  /// library.
  std::function<void()> save{};
  /// Leaves the process with this code; does not return. None: ends it at once, without
  /// destructors.
  std::function<void(int code)> exit{};
};

/// Counts the calls of a training program and saves all workers at the same one when any of them is
/// to be taken away. Every worker makes one and makes the same calls; each call costs one small
/// collective. Program threads, one at a time, in cross-replica context.
///
///   preemption_checkpoint guard{checkpoint, {.handle_sigterm = true}};   // restores the newest
///   while (guard.total_run_calls() < steps)
///     guard.run([&] { strategy.run(step); });
///
/// Who leaves is started again with the others, or alone (the others make their strategy anew), and
/// the program goes on behind the last saved call.
class preemption_checkpoint {
public:
  /// Restores the newest checkpoint, if there is one, with the number of calls. Outlived by
  /// `checkpoint`, which gets a counter "preemption/calls", up to date between calls and kept when
  /// this goes. Throws as `restore`; `invalid_argument` while another one counts on the same
  /// checkpoint.
  preemption_checkpoint(sync_checkpoint& checkpoint, preemption_checkpoint_options options = {});
  ~preemption_checkpoint();
  preemption_checkpoint(const preemption_checkpoint&) = delete;
  preemption_checkpoint& operator=(const preemption_checkpoint&) = delete;

  /// Saves, and leaves, if it is time; else calls `f` and counts it. What `f` throws on one worker
  /// is thrown on all: there with its type, elsewhere as an `error` with its code (`user_code` for
  /// an exception that is none) and a text that names the worker. The call that failed is not
  /// counted there; the others may have counted theirs: make this anew, from the checkpoint.
  template <class F>
  std::invoke_result_t<F&> run(F f) {
    begin();
    try {
      if constexpr (std::is_void_v<std::invoke_result_t<F&>>) {
        f();
        finish();
      } else {
        auto out = f();
        finish();
        return out;
      }
    } catch (...) {
      failed();
    }
  }
  /// The check of `run` by itself, at the head of a step: saves, and leaves, if it is time. The
  /// step ends at the next check.
  void save_if_preempted();

  /// Calls that have ended, over all restarts.
  std::uint64_t total_run_calls() const;
  /// Tells, as a signal does, that this worker is to be taken away. Any thread.
  void notice();
  /// "worker 1, 5 calls, ...".
  std::string status() const;

private:
  struct state;
  void begin();
  void finish();
  [[noreturn]] void failed();
  std::unique_ptr<state> state_;
};

} // namespace troupe
