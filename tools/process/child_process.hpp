#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>
#include <unistd.h>

#include "descriptor.hpp"
#include "exit_status.hpp"
#include "line_buffer.hpp"

namespace tool {

/// What a new process sets before it runs.
struct child_options {
  bool own_group = false; ///< a process group of its own: the terminal's signals don't reach it
  int output_to = -1;     ///< descriptor that becomes its standard output; -1: as here
  int errors_to = -1;     ///< descriptor that becomes its standard error; -1: as here
  std::uint64_t address_space_bytes_max = 0; ///< 0: no limit but this process's
  bool core_file = true;                     ///< a crash may leave one
};

/// Which of its outputs a `child_process` reads.
enum class captured_output : std::uint8_t { none, output, output_and_errors };

/// A program to start.
struct child_command {
  std::string program{}; ///< a path; a name without a slash is looked for in PATH
  std::vector<std::string> arguments{};
  std::string name{};                               ///< argv[0]; empty: `program`
  std::map<std::string, std::string> environment{}; ///< set beside this process's variables
  /// With a value the process has its three standard files and these descriptors, which it finds
  /// at `handed_down(0)`, `handed_down(1)` and so on, and no other. Without one it has every
  /// descriptor that is not close-on-exec, at its number.
  std::optional<std::vector<int>> descriptors{};
  captured_output capture = captured_output::none; ///< instead of `options.output_to`
  child_options options{};
};

/// Where a started program finds the `i`th of `child_command::descriptors`, counted from 0.
constexpr int handed_down(int i) { return STDERR_FILENO + 1 + i; }

/// The path of this program, for children that run it again under its name.
std::string own_program();

/// A child process. It is killed when the object goes, when the thread that started it ends, and
/// so when this process does. One thread at a time uses an object. Linux.
class child_process {
public:
  /// No process.
  child_process() = default;
  /// Starts a program, with no signal blocked. Any thread. Throws `std::system_error` with the
  /// system's reason where it can't be started, also when there is no such program, and
  /// `std::runtime_error` for a descriptor that is not open.
  explicit child_process(const child_command& command);
  /// Runs `body` in a fork of this process and ends it with what that returns, or with 99 when it
  /// throws. No destructor and no atexit handler runs there. @pre this is the only thread. Throws
  /// `std::system_error`.
  explicit child_process(const std::function<int()>& body, const child_options& options = {});
  child_process(child_process&& other) noexcept;
  /// Kills the process that was here.
  child_process& operator=(child_process&& other) noexcept;
  ~child_process();

  /// 0: there is none, or it has been seen to have ended.
  pid_t pid() const { return pid_; }
  /// Sends a signal; none once the process has been seen to have ended.
  void signal(int number) const;
  /// Looks whether the process has ended. False where there is none.
  bool running();
  /// Waits until it has ended. @pre a process was started.
  exit_status wait();
  /// Waits for `limit` at most; false while it still runs.
  bool wait_ended(std::chrono::nanoseconds limit);
  /// Waits for `limit` at most, then kills it.
  exit_status wait_or_kill(std::chrono::nanoseconds limit);
  /// How it ended, once a call above has seen it.
  const std::optional<exit_status>& status() const { return status_; }
  /// Of a process that has ended: its exit code, or minus the signal.
  int code() const;

  /// The next line of the captured output, without its '\n'; the last one may have none. Nothing at
  /// the end of the output and when no line has come within `limit`.
  std::optional<std::string> read_line(std::chrono::nanoseconds limit);
  /// All captured output that is still to come, up to its end.
  std::string read_rest();

private:
  void ended(int wait_status);
  void kill_and_wait() noexcept;
  bool read_some();
  pid_t pid_ = 0;
  std::optional<exit_status> status_{};
  descriptor output_{};
  line_buffer lines_{};
};

} // namespace tool
