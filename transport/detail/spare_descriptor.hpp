#pragma once

#include <troupe/transport/detail/owned_fd.hpp>

namespace troupe::detail {

/// A descriptor that is kept for the time when none is left. Who calls then would be reported to
/// the poller again and again: his call is taken with this one and ended, so that he hears of it.
class spare_descriptor {
public:
  spare_descriptor();
  /// @param listening whose `accept` has just failed, with errno
  void turn_away_if_none(int listening);

private:
  owned_fd spare_;
};

} // namespace troupe::detail
