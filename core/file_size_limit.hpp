#pragma once

#include <csignal>

namespace troupe {

/// While it lives, a write past the limit on file sizes (`ulimit -f`) fails on this thread with
/// EFBIG and no signal: SIGXFSZ would end the process. The program's own disposition of that signal
/// stays as it is. Keeps errno.
class file_size_limit_fails {
public:
  file_size_limit_fails();
  ~file_size_limit_fails();
  file_size_limit_fails(const file_size_limit_fails&) = delete;
  file_size_limit_fails& operator=(const file_size_limit_fails&) = delete;

private:
  sigset_t before_{};
  bool was_pending_ = false;
};

} // namespace troupe
