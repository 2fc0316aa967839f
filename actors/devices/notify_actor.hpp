#pragma once

#include <cstdint>

#include <troupe/core/caf_compat.hpp>
#include <troupe/device/device.hpp>
#include <troupe/messages/devices.hpp>

namespace troupe {

/// Has `device_event{number}` sent to an actor when `event` passed or never will. The actor is not
/// kept alive by it.
template <class Handle>
result<void> notify_actor(device& on, const stream_event& event, const Handle& to,
                          std::uint64_t number) {
  auto weak = caf::actor_cast<caf::weak_actor_ptr>(to);
  return on.notify(event, [weak, number](const result<void>& out) {
    if (auto strong = weak.lock())
      tell_from_outside(caf::actor_cast<Handle>(strong),
                        device_event{.number = number, .why = out ? failure{} : out.error()});
  });
}

} // namespace troupe
