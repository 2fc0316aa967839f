#include <troupe/core/thrown.hpp>

#include <exception>
#include <new>

#include <cxxabi.h>

#include <troupe/core/readable_name.hpp>

namespace troupe {

std::string current_exception_name() {
  auto* type = abi::__cxa_current_exception_type();
  if (!type)
    return "a foreign exception";
  return readable_name(*type);
}

bool ends_the_thread() {
  if (!std::current_exception())
    return false;
  try {
    throw;
  } catch (const thread_unwind&) {
    return true;
  } catch (...) {
    return false;
  }
}

failure current_failure() {
  try {
    throw;
  } catch (const error& e) {
    return e.details();
  } catch (const std::bad_alloc&) {
    return make_failure(errc::out_of_memory, "out of memory (" + current_exception_name() + ")");
  } catch (const std::exception& e) {
    return make_failure(errc::user_code, current_exception_name() + ": " + e.what());
  } catch (...) {
    return make_failure(errc::user_code, current_exception_name());
  }
}

} // namespace troupe
