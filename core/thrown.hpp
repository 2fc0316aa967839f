#pragma once

#include <optional>
#include <string>

#include <troupe/core/error.hpp>

/// Exceptions of the program's own code, as failures. To be called in a handler.
namespace troupe {

/// "std::runtime_error"; "an exception that is not C++'s" for a foreign one.
std::string current_exception_name();

/// The base of an exception by which a thread port ends a thread from inside its wait, as a
/// simulator does. It is no error: whoever catches everything lets it pass.
struct thread_unwind {};

/// Whether the current exception is a `thread_unwind` and must pass. False outside a handler.
bool ends_the_thread();

/// The current exception as a failure: a `troupe::error` is its own failure, `std::bad_alloc` is
/// `out_of_memory`; any other exception is `user_code`, "TYPE: what()". @pre in a `catch`.
failure current_failure();

/// Calls `f`; what it threw, or nothing.
template <class F>
std::optional<failure> failure_in(F f) {
  try {
    f();
    return std::nullopt;
  } catch (...) {
    if (ends_the_thread())
      throw;
    return current_failure();
  }
}

} // namespace troupe
