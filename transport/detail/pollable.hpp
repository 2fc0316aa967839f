#pragma once

#include <memory>
#include <vector>

#include <poll.h>

/// Things that the poller of the socket transports can watch.
namespace troupe::detail {

/// The descriptor of an open channel or listener, -1 once it is closed. A poller holds it weakly,
/// so that what is destroyed while watched is forgotten and never mistaken for another file with
/// the same number. One thread.
struct descriptor {
  int fd = -1;

  virtual ~descriptor() = default;
  /// The events to ask the system for.
  virtual short events(bool want_send) const {
    return static_cast<short>(want_send ? POLLIN | POLLOUT : POLLIN);
  }
  /// Whether there is something to do that the system knows nothing of.
  virtual bool is_ready(bool want_send) {
    (void)want_send;
    return false;
  }
  /// Before its thread sleeps: from now on the system hears of what `is_ready` tells. True when
  /// that is so already.
  virtual bool ready_or_told(bool want_send) {
    (void)want_send;
    return false;
  }
};

/// Something with descriptors, always the same ones.
class pollable {
public:
  virtual ~pollable() = default;
  virtual std::vector<std::weak_ptr<descriptor>> watched() const = 0;
};

} // namespace troupe::detail
