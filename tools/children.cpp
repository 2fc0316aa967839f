#include "children.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tool {

namespace {

namespace tr = troupe;

/// Path of this program, so that its children bear its name; the link itself when the file is gone.
std::string own_path() {
  std::array<char, 4096> path{};
  const auto size = ::readlink("/proc/self/exe", path.data(), path.size() - 1);
  if (size > 0 && ::access(path.data(), X_OK) == 0)
    return {path.data(), static_cast<std::size_t>(size)};
  return "/proc/self/exe";
}

/// The child's half of a start: only what is allowed between fork and exec.
[[noreturn]] void become(pid_t parent, char* const* arguments, int keep_fd) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) // it died before the line above
    ::_exit(127);
  ::setpgid(0, 0); // the terminal's signals go to the launcher alone, which passes them on
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (keep_fd >= 0)
    ::fcntl(keep_fd, F_SETFD, 0);
  ::execv(arguments[0], arguments);
  ::_exit(127);
}

} // namespace

std::int64_t steady_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

children::children() : self_{::getpid()} {}

children::~children() {
  for (const auto& c : all_)
    signal(c, SIGKILL);
  for (auto& c : all_)
    if (c.lives())
      while (::waitpid(c.pid, nullptr, 0) < 0 && errno == EINTR) {
      }
}

child& children::add(tr::task_id task) {
  all_.push_back({.task = task});
  return all_.back();
}

child& children::at(tr::task_id task) {
  const auto found = std::ranges::find(all_, task, &child::task);
  if (found == all_.end())
    tr::throw_failure(tr::errc::unknown_name, "launcher: unknown task " + to_string(task));
  return *found;
}

void children::start(child& c, const std::vector<std::string>& arguments, int keep_fd) {
  std::vector<std::string> owned{own_path()};
  owned.insert(owned.end(), arguments.begin(), arguments.end());
  std::vector<char*> raw;
  for (auto& a : owned)
    raw.push_back(a.data());
  raw.push_back(nullptr);
  const auto pid = ::fork();
  if (pid < 0)
    tr::throw_failure(tr::errc::unavailable,
                      "launcher: cannot start " + to_string(c.task) + ": " + std::strerror(errno));
  if (pid == 0)
    become(self_, raw.data(), keep_fd);
  c.pid = pid;
  ++c.starts;
  c.started_ms = steady_ns() / 1'000'000;
  c.start_at_ms.reset();
  c.status.reset();
  c.hit = false;
}

void children::signal(const child& c, int number) const {
  if (c.lives())
    ::kill(c.pid, number);
}

std::vector<child*> children::reap() {
  std::vector<child*> out;
  for (auto& c : all_) {
    int status = 0;
    if (!c.lives() || ::waitpid(c.pid, &status, WNOHANG) != c.pid)
      continue;
    c.pid = -1;
    c.status = status;
    out.push_back(&c);
  }
  return out;
}

bool children::any_lives() const { return std::ranges::any_of(all_, &child::lives); }

} // namespace tool
