#include <troupe/core/file_size_limit.hpp>

#include <cerrno>
#include <ctime>

#include <pthread.h>

namespace troupe {

namespace {

sigset_t the_signal() {
  sigset_t out;
  sigemptyset(&out);
  sigaddset(&out, SIGXFSZ);
  return out;
}

} // namespace

file_size_limit_fails::file_size_limit_fails() {
  const auto only = the_signal();
  sigset_t pending;
  sigemptyset(&pending);
  ::sigpending(&pending);
  was_pending_ = sigismember(&pending, SIGXFSZ) == 1;
  ::pthread_sigmask(SIG_BLOCK, &only, &before_);
}

file_size_limit_fails::~file_size_limit_fails() {
  const int error_number = errno;
  const auto only = the_signal();
  const timespec at_once{};
  if (!was_pending_) // else it is somebody else's, who blocks it too
    while (::sigtimedwait(&only, nullptr, &at_once) < 0 && errno == EINTR) {
    }
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  errno = error_number;
}

} // namespace troupe
