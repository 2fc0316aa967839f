#pragma once

#include <exception>

/// Calls of user code whose exceptions go on elsewhere.
namespace troupe::detail {

/// @pre an exception is being handled. It ends the lane itself (a simulator unwinds it), and must
/// pass.
bool ends_the_lane();

/// What `f` threw; null when it returned.
template <class F>
std::exception_ptr guarded_call(F f) {
  try {
    f();
    return nullptr;
  } catch (...) {
    if (ends_the_lane())
      throw;
    return std::current_exception();
  }
}

} // namespace troupe::detail
