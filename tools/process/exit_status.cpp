#include "exit_status.hpp"

#include <sys/wait.h>

namespace tool {

exit_status exit_status::of_wait(int status) {
  if (WIFEXITED(status))
    return {.code = WEXITSTATUS(status)};
  return {.signal = WTERMSIG(status)};
}

std::string to_string(const exit_status& s) {
  if (s.signal != 0)
    return "ended by signal " + std::to_string(s.signal);
  return "ended with code " + std::to_string(s.code);
}

} // namespace tool
