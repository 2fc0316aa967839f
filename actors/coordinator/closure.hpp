#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <troupe/core/environment.hpp>
#include <troupe/core/ids.hpp>
#include <troupe/core/payload.hpp>

/// Closures and the values they leave behind. Plain data; no CAF.
namespace troupe {

/// How a closure is to be run. All members are optional.
struct closure_options {
  /// Closures of higher priority go first; 0 is the default. Values from -3 to 3.
  int priority = 0;
  /// Only this worker may run it (`worker:N`). `schedule` throws `out_of_range` when the cluster
  /// has none of that number.
  std::optional<std::uint32_t> worker{};
  /// An attempt that runs longer is given up and the closure put back; 0: no deadline.
  duration deadline{0};
  /// The closure fails as `poisoned` when that many workers have died while running it, so 1 means
  /// never again; 0: the coordinator's `max_failed_attempts`. A worker that died before it was
  /// known to have begun there does not count.
  std::uint32_t retries = 0;
};

/// The state of a result: `not_ready` until the closure ends; then one of the others, finally,
/// except that a per-worker resource goes from `ready` to `aborted` with its worker and back when
/// it is rebuilt.
enum class remote_status : std::uint8_t {
  not_ready = 0,
  ready = 1,
  failed = 2,
  cancelled = 3,
  aborted = 4
};

/// The result of a closure at the coordinator. Written once by the coordinator actor through its
/// `completion_board`, read by any thread once `status` is not `not_ready`.
struct remote_state {
  closure_id id{};
  std::atomic<remote_status> status{remote_status::not_ready};
  payload value{}; ///< valid in `ready`
  failure why{};   ///< valid in `failed`, `cancelled`, `aborted`
};

/// The place where user threads wait for results: one for all values of a coordinator, so that a
/// value costs no wait point of its own. Any thread.
class completion_board {
public:
  explicit completion_board(const environment& env);
  void set_ready(remote_state& to, payload value);
  /// `status` is failed, cancelled or aborted.
  void set_ended(remote_state& to, remote_status status, failure why);
  /// Wakes whoever waits; called once after a batch of `set_` calls.
  void publish();
  /// Waits until the value has ended. False when `deadline` passed first.
  bool wait(const remote_state& on, time_point deadline);

private:
  std::mutex mutex_;
  std::unique_ptr<wait_point> changed_;
  std::atomic<int> waiting_{0};
};

/// A worker that was lost while it ran a closure, or that gave it up.
struct taken_worker {
  task_id worker{};
  std::string how{}; ///< why, where that is not its death: "past its deadline of 500 ms"
};

/// A scheduled call. Owned by the queue, then by the coordinator while in flight.
struct closure {
  closure_id id{};
  function_index function{};
  std::shared_ptr<const payload> arguments{};
  closure_options options{};
  /// The place of the result. When nobody else holds it at the end, no result is sent.
  std::shared_ptr<remote_state> result{};
  /// Values that must have arrived before it is dispatched.
  std::vector<std::shared_ptr<remote_state>> inputs{};
  /// Objects that must live until the closure ends: leases of the per-worker resources that it
  /// takes.
  std::vector<std::shared_ptr<const void>> keeps{};
  attempt_no attempt{};              ///< of the current or last dispatch; 0: never dispatched
  std::uint32_t failed_attempts = 0; ///< workers that died while it was running there
  std::vector<taken_worker> took{};  ///< those workers
  /// A worker died while the closure may have been running there, which is not known. The closure
  /// runs alone from now on, so that the next time it is known.
  bool doubted = false;
  /// Operations of an attempt that is over may still be on their way to servers. Stays: what a
  /// later attempt has acknowledged says nothing of an earlier one's, and no update may be applied
  /// after the closure's end was told.
  bool unacknowledged = false;
};

using closure_ptr = std::shared_ptr<closure>;

/// The arguments of a closure whose inputs have arrived, as a step's `invoke` takes them: 1, the
/// number of inputs (u32), the closure's own bytes, then of each input its bytes and where its
/// tensors begin. Without inputs `arguments` stands for itself (its first byte says of what form).
payload bind_inputs(const closure& c);

} // namespace troupe
