#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <troupe/actors/support/supervised_threads.hpp>
#include <troupe/actors/worker/detail/worker_session.hpp>
#include <troupe/actors/worker/parameter_client.hpp>
#include <troupe/actors/worker/worker_job.hpp>
#include <troupe/core/readable_name.hpp>
#include <troupe/device/context.hpp>

namespace troupe {

/// A job on its compute thread, and what others have to say to it. Shared by the thread, which runs
/// it, and the owner of the threads, who supervises it under its own lock.
struct running_step {
  /// @param limit_ms after which it counts as hung; 0: never
  running_step(const environment& env, const worker_job& what, parameter_client* through,
               std::uint64_t limit_ms)
    : of{what.of},
      closure{what.order.id},
      attempt{what.order.attempt},
      function{what.is_resource ? what.make.function : what.order.function},
      limit{std::chrono::milliseconds{limit_ms}},
      client{through},
      started{env.clock.now()},
      may_begin{what.is_resource || !what.order.announce},
      hung{started, limit},
      entered_ns{started.time_since_epoch().count()} {
    if (what.is_resource)
      builds = what.make.id;
  }
  /// The step that hung and the limit that it passed, in words. @pre the owner's lock is held.
  std::string what_hung() const {
    return words()
           + (hung.is_deadline()
                ? " exceeded its deadline of " + std::to_string(to_ms(limit)) + " ms"
                : std::string{" did not end within the grace period after its cancellation"});
  }
  time_point last_entry() const {
    return time_point{duration{entered_ns.load(std::memory_order_relaxed)}};
  }
  bool interrupted() const { return cancelled || of->dead; }
  /// How long it has waited for what other steps hold: no limit of its own counts that.
  duration waited(time_point now) const {
    const auto since = waits_since_ns.load();
    const auto running = since == 0 ? 0 : now.time_since_epoch().count() - since;
    return duration{waited_ns.load() + running};
  }
  /// "step 'train_step', closure 1:17, attempt 2", "the function 'make_data' of resource 4": whose
  /// error it is.
  std::string words() const {
    const auto* entry = function_table::global().at(function);
    const auto name = entry ? "'" + readable_function(entry->name) + "'"
                            : "number " + std::to_string(value_of(function));
    if (builds)
      return "the function " + name + " of resource " + std::to_string(value_of(*builds));
    return "step " + name + ", closure " + std::to_string(value_of(closure.term)) + ":"
           + std::to_string(closure.seq) + ", attempt " + std::to_string(value_of(attempt));
  }
  /// @pre the owner's lock is held, so that the client is there.
  void interrupt() {
    cancelled = true;
    if (client)
      client->wake();
    of->freed->notify_all();
  }
  /// `interrupt`, with `grace` to end. @pre the owner's lock is held.
  void ask_to_end(time_point now, duration grace) {
    hung.ask_to_end(now, grace);
    interrupt();
  }

  const std::shared_ptr<worker_session> of;
  const closure_id closure;
  const attempt_no attempt;
  const function_index function;
  const duration limit;                ///< 0: none
  std::optional<resource_id> builds{}; ///< it is a resource's function, not a closure's
  parameter_client* client;            ///< under the owner's lock; null once the step ended
  const time_point started;
  bool may_begin;                       ///< under the owner's lock; false: announced first
  hang_limit hung;                      ///< under the owner's lock
  std::atomic<std::int64_t> entered_ns; ///< when the step last called Troupe
  std::atomic<bool> cancelled{false};
  std::atomic<bool> abandoned{false}; ///< its thread was given up
  std::atomic<std::int64_t> waited_ns{0};
  std::atomic<std::int64_t> waits_since_ns{0}; ///< 0: it does not wait
  bool told = false; ///< the step has heard of its cancellation; its thread only
  std::shared_ptr<device_context>* device = nullptr; ///< the thread's; its thread only
  supervised_threads::post thread{};                 ///< where it runs
};

} // namespace troupe
