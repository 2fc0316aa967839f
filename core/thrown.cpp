#include <troupe/core/thrown.hpp>

#include <cstdlib>
#include <exception>
#include <memory>

#include <cxxabi.h>

namespace troupe {

std::string current_exception_name() {
  auto* type = abi::__cxa_current_exception_type();
  if (!type)
    return "an exception that is not C++'s";
  int status = 0;
  std::unique_ptr<char, void (*)(void*)> text{
    abi::__cxa_demangle(type->name(), nullptr, nullptr, &status), std::free};
  return text ? text.get() : type->name();
}

bool ends_the_lane() { return current_exception_name().find("forced_unwind") != std::string::npos; }

failure current_failure() {
  try {
    throw;
  } catch (const error& e) {
    return e.details();
  } catch (const std::exception& e) {
    return make_failure(errc::user_code, current_exception_name() + ": " + e.what());
  } catch (...) {
    return make_failure(errc::user_code, current_exception_name());
  }
}

} // namespace troupe
