#include <string_view>

#include <troupe/actors/detail/lane_step.hpp>
#include <troupe/core/thrown.hpp>

namespace troupe {

std::optional<failure> guarded(const environment& env, const std::function<void()>& body) {
  try {
    body();
    return {};
  } catch (const error& e) {
    return e.details();
  } catch (const std::exception& e) {
    trace(env, "worker.step_threw",
          {{"type", current_exception_name()}, {"what", std::string_view{e.what()}}});
    return current_failure();
  } catch (...) {
    if (ends_the_lane())
      throw;
    return current_failure();
  }
}

} // namespace troupe
