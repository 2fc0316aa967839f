#pragma once

#include <cerrno>

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <troupe/transport/detail/owned_fd.hpp>

namespace troupe::detail {

/// A descriptor that is kept for the time when none is left. Who calls then would be reported to
/// the poller again and again: his call is taken with this one and ended, so that he hears of it.
class spare_descriptor {
public:
  /// @param listening whose `accept` has failed, with errno
  void turn_away_if_none(int listening) {
    if ((errno != EMFILE && errno != ENFILE) || !spare_)
      return;
    spare_.reset();
    owned_fd{::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC)}.reset();
    spare_ = make();
  }

private:
  static owned_fd make() { return owned_fd{::eventfd(0, EFD_CLOEXEC)}; }
  owned_fd spare_ = make();
};

} // namespace troupe::detail
