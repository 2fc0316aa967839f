#include <cxxabi.h>
#include <cstdlib>
#include <new>
#include <string_view>

#include <troupe/actors/detail/guarded_call.hpp>
#include <troupe/actors/detail/lane_step.hpp>

namespace troupe {

namespace {

std::string current_exception_name() {
  auto* type = abi::__cxa_current_exception_type();
  if (!type)
    return "an exception that is not C++'s";
  int status = 0;
  std::unique_ptr<char, void (*)(void*)> text{
    abi::__cxa_demangle(type->name(), nullptr, nullptr, &status), std::free};
  return text ? text.get() : type->name();
}

} // namespace

std::optional<failure> guarded(const environment& env, const std::function<void()>& body) {
  try {
    body();
    return {};
  } catch (const error& e) {
    return e.details();
  } catch (const std::bad_alloc&) {
    return make_failure(errc::out_of_memory,
                        "the step ran out of memory (" + current_exception_name() + ")");
  } catch (const std::exception& e) {
    trace(env, "worker.step_threw",
          {{"type", current_exception_name()}, {"what", std::string_view{e.what()}}});
    return make_failure(errc::user_code, current_exception_name() + ": " + e.what());
  } catch (...) {
    if (detail::ends_the_lane())
      throw;
    return make_failure(errc::user_code, current_exception_name());
  }
}

bool detail::ends_the_lane() {
  return current_exception_name().find("forced_unwind") != std::string::npos;
}

} // namespace troupe
