#pragma once

#include <memory>
#include <utility>

namespace troupe {

/// Ambient state of the running lane: current strategy, scopes, step. Kept behind one pointer
/// because in simulation many lanes share a thread and switch in the middle of a call.
struct execution_context {
  void* step = nullptr;           ///< the running step's host, null outside a step
  void* modes = nullptr;          ///< innermost frame of the strategies' stack of contexts
  void* replica = nullptr;        ///< the replica's run on this lane, null outside one
  void* merging = nullptr;        ///< the run whose merge function runs here
  std::shared_ptr<void> chosen{}; ///< the strategy for the rest of the lane, null: the default one
  int destructors = 0;            ///< that wait, on the stack: see `destructor_waits`
};

/// The running lane's context. The only thread_local of the library.
execution_context& current_context();

/// Stands in a destructor that waits. A simulator ends a lane by an exception from its wait, which
/// must not leave a destructor: there the wait returns instead.
class destructor_waits {
public:
  destructor_waits() { ++current_context().destructors; }
  ~destructor_waits() { --current_context().destructors; }
  destructor_waits(const destructor_waits&) = delete;
  destructor_waits& operator=(const destructor_waits&) = delete;
};

/// Whether a lane port has given the running lane a context of its own, as a simulator does with
/// its fibers. False on threads.
bool has_lent_context();

/// Makes `to` the running lane's context (null: the thread's own) and returns the one before. For
/// lane ports.
execution_context* exchange_context(execution_context* to);

} // namespace troupe
