#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <troupe/actors/worker/worker_routes.hpp>
#include <troupe/core/environment.hpp>
#include <troupe/core/function_registry.hpp>

namespace troupe {

struct running_step;

/// The state of a worker under one incarnation: routes to others, variables, resources. Shared by
/// its owner and the steps that run in it, which may outlive it. Thread-safe where it says so.
struct worker_session {
  struct built {
    resource made{};
    failure why{}; ///< code none: it was made
  };
  worker_session(const environment& env, const origin& who, term_no in, worker_routes through)
    : self{who}, term{in}, routes{std::move(through)}, freed{env.waits.make_point()} {}

  const origin self;
  const term_no term;
  const worker_routes routes;
  std::atomic<bool> dead{false};           ///< it has ended: nothing of it is reported any more
  const std::unique_ptr<wait_point> freed; ///< a step let go of what it held, or was interrupted
  std::mutex mutex{};                      ///< of what follows
  std::map<variable_id, std::shared_ptr<const variable_spec>> variables{};
  std::map<resource_id, built> resources{};
  std::map<resource_id, const running_step*> held{}; ///< who has a resource for itself

  /// The specification of a variable; null: unknown. Any thread.
  std::shared_ptr<const variable_spec> find(variable_id id) {
    std::lock_guard lock{mutex};
    auto at = variables.find(id);
    return at == variables.end() ? nullptr : at->second;
  }
  /// Null: nobody. @pre the lock is held
  const running_step* holder_of(resource_id id) const {
    auto at = held.find(id);
    return at == held.end() ? nullptr : at->second;
  }
  /// A failure of Troupe itself, marked so that it is not taken for the step's own exception.
  failure from_here(failure why) const {
    if (why.where.task.job == job_kind::chief)
      why.where = self;
    return why;
  }
  failure failure_here(errc code, std::string text) const {
    auto why = make_failure(code, std::move(text));
    why.where = self;
    return why;
  }
};

} // namespace troupe
