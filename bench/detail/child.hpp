#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
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

extern char** environ; // NOLINT: POSIX

/// Processes of the same program, for benches that need more than one.
namespace bench {

/// A port of this machine's loopback that nobody listened on a moment ago.
inline std::uint16_t free_port() {
  const int s = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  const bool ok = s >= 0 && ::bind(s, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0
                  && ::getsockname(s, reinterpret_cast<sockaddr*>(&at), &size) == 0;
  if (s >= 0)
    ::close(s);
  if (!ok)
    throw std::runtime_error("no free port on 127.0.0.1");
  return ntohs(at.sin_port);
}

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
