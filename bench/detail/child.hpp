#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../../tools/free_ports.hpp"

extern char** environ; // NOLINT: POSIX

/// Processes of the same program, for benches that need more than one.
namespace bench {

/// A port of this machine's loopback that nobody listens on, and that no listener on port 0 gets.
inline std::uint16_t free_port() { return tool::free_loopback_ports(1).front(); }

/// A process that ends by SIGKILL when this object goes before the process has.
///
/// Of the open files it has the three standard ones and those that are handed down to it, nothing
/// else: a socket that it kept open would never end for whoever is at its other end.
class child {
public:
  /// Where a process finds the file that was `i`th in `handed_down`, counted from 0.
  static constexpr int handed(int i) { return STDERR_FILENO + 1 + i; }

  /// This program again, with other arguments.
  explicit child(std::vector<std::string> args, const std::vector<int>& handed_down = {})
    : child("/proc/self/exe", std::move(args), handed_down) {}
  /// Another program. `handed_down`: files open here, which stay open here as well.
  child(std::string program, std::vector<std::string> args, const std::vector<int>& handed_down) {
    args.insert(args.begin(), std::move(program));
    std::vector<char*> argv;
    for (auto& a : args)
      argv.push_back(a.data());
    argv.push_back(nullptr);
    const copies above{handed_down};
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    for (std::size_t i = 0; i < above.files.size(); ++i)
      ::posix_spawn_file_actions_adddup2(&actions, above.files[i], handed(static_cast<int>(i)));
    ::posix_spawn_file_actions_addclosefrom_np(&actions,
                                               handed(static_cast<int>(above.files.size())));
    const int error = ::posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    if (error != 0)
      throw std::runtime_error("cannot start a process");
  }
  child(child&& other) noexcept : pid_{std::exchange(other.pid_, 0)} {}
  child& operator=(child&&) = delete;
  ~child() {
    if (pid_ <= 0)
      return;
    ::kill(pid_, SIGKILL);
    wait();
  }
  /// The exit code; -1 for a signal. A child that does not end by itself within the time is killed.
  int wait(std::chrono::seconds at_most = std::chrono::seconds{30}) {
    const pid_t pid = std::exchange(pid_, 0);
    const auto until = std::chrono::steady_clock::now() + at_most;
    int status = 0;
    while (::waitpid(pid, &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > until) {
        ::kill(pid, SIGKILL);
        ::waitpid(pid, &status, 0);
        break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds{2});
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

private:
  /// The files once more, above all numbers that a process finds them at: so none is overwritten
  /// before it has been copied there.
  struct copies {
    explicit copies(const std::vector<int>& from) {
      for (const int fd : from) {
        const int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, handed(static_cast<int>(from.size())));
        if (copy < 0) {
          close();
          throw std::runtime_error("cannot hand file " + std::to_string(fd) + " down");
        }
        files.push_back(copy);
      }
    }
    ~copies() { close(); }
    copies(const copies&) = delete;
    copies& operator=(const copies&) = delete;
    void close() {
      for (const int fd : files)
        ::close(fd);
      files.clear();
    }
    std::vector<int> files{};
  };

  pid_t pid_ = 0;
};

} // namespace bench
