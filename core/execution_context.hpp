#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <utility>

namespace troupe {

class step_host; // core/step_host.hpp

namespace detail {
/// How many types `context_local` may be used with in one program, and `context_kept`.
inline constexpr std::size_t context_places_max = 8;
inline constexpr std::size_t context_kept_places_max = 2;
/// The next free place; the program ends when none is left.
std::size_t new_context_place();
std::size_t new_context_kept_place();
} // namespace detail

/// Ambient state of the running thread: its step, strategy, scopes. Kept behind one pointer because
/// in simulation many threads (fibers) share an OS thread and switch in the middle of a call. What
/// only one room knows is in `places` and `kept`, by its type: see `context_local` and
/// `context_kept`.
struct execution_context {
  step_host* step = nullptr; ///< the running step's host, null outside a step
  int destructors = 0;       ///< that wait, on the stack: see `destructor_waits`
  std::array<void*, detail::context_places_max> places{};
  std::array<std::shared_ptr<void>, detail::context_kept_places_max> kept{};
};

/// The running thread's context. The only thread_local of the library.
execution_context& current_context();

// --- ambient state by type: T is the key, and should be of the room that uses it

namespace detail {
template <class T>
std::size_t context_place() {
  static const auto mine = new_context_place();
  return mine;
}
template <class T>
std::size_t context_kept_place() {
  static const auto mine = new_context_kept_place();
  return mine;
}
} // namespace detail

/// The T that the running thread is in, which stands on its stack; null: none.
template <class T>
T* context_local() {
  return static_cast<T*>(current_context().places[detail::context_place<T>()]);
}
/// Makes `to` the T that the running thread is in (null: none) and returns the one before. @pre
/// `to` outlives its time there
template <class T>
T* exchange_context_local(T* to) {
  return static_cast<T*>(std::exchange(current_context().places[detail::context_place<T>()], to));
}

/// A T that the running thread is in for the length of a block.
template <class T>
class context_local_scope {
public:
  explicit context_local_scope(T& it) : before_{exchange_context_local(&it)} {}
  ~context_local_scope() { (void)exchange_context_local(before_); }
  context_local_scope(const context_local_scope&) = delete;
  context_local_scope& operator=(const context_local_scope&) = delete;

private:
  T* const before_;
};

/// The T that the running thread keeps for itself; null: none.
template <class T>
std::shared_ptr<T> context_kept() {
  return std::static_pointer_cast<T>(current_context().kept[detail::context_kept_place<T>()]);
}
/// Has the running thread keep `what` until it keeps another, or ends.
template <class T>
void keep_in_context(std::shared_ptr<T> what) {
  current_context().kept[detail::context_kept_place<T>()] = std::move(what);
}

/// Stands in a destructor that waits. A simulator ends a thread by an exception from its wait,
/// which must not leave a destructor: there the wait returns instead.
class destructor_waits {
public:
  destructor_waits() { ++current_context().destructors; }
  ~destructor_waits() { --current_context().destructors; }
  destructor_waits(const destructor_waits&) = delete;
  destructor_waits& operator=(const destructor_waits&) = delete;
};

/// Whether a thread port has given the running thread a context of its own, as a simulator does
/// with its fibers. False on OS threads.
bool has_lent_context();

/// Makes `to` the running thread's context (null: the OS thread's own) and returns the one before.
/// For thread ports.
execution_context* exchange_context(execution_context* to);

} // namespace troupe
