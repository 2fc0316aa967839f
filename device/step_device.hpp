#pragma once

#include <troupe/core/step_host.hpp>
#include <troupe/device/context.hpp>

namespace troupe {

/// A running step's device: implemented beside `step_host` where steps have one. The step's thread
/// only.
class step_device {
public:
  virtual ~step_device() = default;
  /// The thread's device; throws `device_unavailable` where its process gives it none.
  virtual device_context& device() = 0;
};

/// The device of a running step; throws `device_unavailable` where it has none. The step's thread
/// only.
inline device_context& device_of(step_host& step) {
  auto* with_device = dynamic_cast<step_device*>(&step);
  if (!with_device)
    throw_failure(errc::device_unavailable, "this step has no device");
  return with_device->device();
}

} // namespace troupe
