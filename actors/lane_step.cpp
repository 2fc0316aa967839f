#include <cxxabi.h>
#include <string_view>

#include <troupe/actors/detail/guarded_call.hpp>
#include <troupe/actors/detail/lane_step.hpp>

namespace troupe {

namespace {

std::string current_exception_name() {
  auto* type = abi::__cxa_current_exception_type();
  if (!type)
    return "an exception that is not C++'s";
  return readable_name(*type);
}

} // namespace

std::optional<failure> guarded(const environment& env, const std::function<void()>& body) {
  try {
    body();
    return {};
  } catch (const error& e) {
    return e.details();
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
