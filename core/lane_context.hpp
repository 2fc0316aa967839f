#pragma once

#include <utility>

namespace troupe {

/// Ambient state of the running lane: current strategy, scopes, step. Kept behind one pointer
/// because in simulation many lanes share a thread and switch in the middle of a call.
struct execution_context {
  void* strategy = nullptr; ///< the innermost `scope`'s strategy, null outside
  void* step = nullptr;     ///< the running step's host, null outside a step
};

/// The running lane's context. The only thread_local of the library.
execution_context& current_context();

/// Makes `to` the running lane's context (null: the thread's own) and returns the one before. For
/// lane ports.
execution_context* exchange_context(execution_context* to);

} // namespace troupe
