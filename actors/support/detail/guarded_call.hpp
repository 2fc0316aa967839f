#pragma once

#include <exception>

#include <troupe/core/thrown.hpp>

/// Calls of user code whose exceptions go on elsewhere.
namespace troupe::detail {

/// The exception that `f` threw; null when it returned.
template <class F>
std::exception_ptr guarded_call(F f) {
  try {
    f();
    return nullptr;
  } catch (...) {
    if (ends_the_thread())
      throw;
    return std::current_exception();
  }
}

} // namespace troupe::detail
