#include "launch_signals.hpp"

#include <cerrno>
#include <cstring>
#include <string>

#include <sys/signalfd.h>

#include <troupe/troupe.hpp>

namespace tool {

void system_failed(const char* what) {
  troupe::throw_failure(troupe::errc::io_failed,
                        std::string{"launcher: "} + what + ": " + std::strerror(errno));
}

blocked_signals::blocked_signals() {
  ::sigemptyset(&mine_);
  for (const int s : {SIGCHLD, SIGINT, SIGTERM, SIGHUP})
    ::sigaddset(&mine_, s);
  ::sigprocmask(SIG_BLOCK, &mine_, &before_);
}

blocked_signals::~blocked_signals() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }

descriptor blocked_signals::open() const {
  descriptor fd{::signalfd(-1, &mine_, SFD_CLOEXEC | SFD_NONBLOCK)};
  if (!fd.is_open())
    system_failed("signalfd");
  return fd;
}

} // namespace tool
