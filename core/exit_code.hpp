#pragma once

#include <functional>

#include <troupe/core/error.hpp>

namespace troupe {

/// Exit codes of the processes of a cluster, for whoever starts them again. The manual has the
/// table: docs/exit_codes.md.
enum class exit_code : int {
  ended = 0,          ///< the cluster ended as its program meant, or a signal asked for the end
  failed = 1,         ///< an error of the program, its data or a device
  usage = 64,         ///< arguments or a cluster description that can't be used
  unavailable = 69,   ///< a peer, a server, the coordinator or its port was lost or never there
  step_deadline = 75, ///< a step did not end at its deadline, and the process left with it
  refused = 77,       ///< by token, version, term or fence, or the task has another process
};

/// The code that tells of `why`.
exit_code exit_code_of(const failure& why);

/// Runs a program's `main`: an exception that leaves `body` is told on stderr in one line and
/// becomes the exit code.
int run_main(const std::function<int()>& body);

} // namespace troupe
