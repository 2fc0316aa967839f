#pragma once

#include <cstdint>
#include <memory>

#include <troupe/core/data_port.hpp>
#include <troupe/core/environment.hpp>

namespace troupe::detail {

/// A poller over native descriptors and an eventfd. `spin`: how long `wait` yields before it
/// sleeps.
std::unique_ptr<channel_poller> make_asio_poller(clock_port& clock, duration spin);

/// Time that ppoll may sleep until `deadline`: nothing when it passed.
duration time_left(const clock_port& clock, time_point deadline);

/// ppoll on one descriptor. True when it is ready or the call was interrupted.
bool poll_one(int fd, short events, duration at_most);

} // namespace troupe::detail
