#pragma once

#include <string>

namespace tool {

/// How a process ended: with an exit code, or by a signal.
struct exit_status {
  int code = -1;  ///< exit code; -1: a signal ended it
  int signal = 0; ///< that ended it; 0: none

  /// Of the status that waitpid stored for a process that has ended.
  static exit_status of_wait(int status);
  /// Exit code 0.
  bool ok() const { return code == 0; }
  friend bool operator==(const exit_status&, const exit_status&) = default;
};

/// "ended with code 3", "ended by signal 9".
std::string to_string(const exit_status& s);

} // namespace tool
