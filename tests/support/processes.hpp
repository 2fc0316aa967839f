#pragma once

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <functional>
#include <new>
#include <set>
#include <string>

#include <dirent.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "waiting.hpp"

/// Processes of a test, and what they share.
namespace troupe::testing {

/// A process that runs `body` and ends with what it returns; killed when the object goes. The test
/// has no threads of its own when it starts one, or `body` does nothing but start a program.
class child_process {
public:
  explicit child_process(const std::function<int()>& body) : pid_{::fork()} {
    if (pid_ != 0) {
      REQUIRE(pid_ > 0);
      return;
    }
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    int code = 99;
    try {
      code = body();
    } catch (const std::exception& e) {
      std::fprintf(stderr, "child process: %s\n", e.what());
    }
    ::_exit(code);
  }
  ~child_process() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      wait();
    }
  }
  child_process(const child_process&) = delete;
  child_process& operator=(const child_process&) = delete;

  void signal(int number) const { ::kill(pid_, number); }
  /// 0 once it has ended and `poll` or a wait has seen it.
  pid_t pid() const { return pid_; }
  /// Its status as waitpid gives it, once it has ended; -1 while it runs.
  int poll() {
    int status = 0;
    if (pid_ > 0 && ::waitpid(pid_, &status, WNOHANG) == pid_)
      ended(status);
    return pid_ > 0 ? -1 : status_;
  }
  /// Waits until it has ended; its status.
  int wait() {
    int status = 0;
    if (pid_ > 0) {
      while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
      }
      ended(status);
    }
    return status_;
  }
  /// Waits for `limit` at most; false while it still runs.
  bool wait_ended(std::chrono::nanoseconds limit) {
    return eventually([this] { return poll() != -1; }, limit);
  }
  /// Of one that has ended: its exit code, or minus the signal that ended it.
  int code() const { return WIFEXITED(status_) ? WEXITSTATUS(status_) : -WTERMSIG(status_); }

private:
  void ended(int status) {
    status_ = status;
    pid_ = 0;
  }
  pid_t pid_ = 0;
  int status_ = 0;
};

/// Memory of a test and the processes that it starts.
template <class Page>
class shared_memory {
public:
  shared_memory() {
    void* at =
      ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(at != MAP_FAILED);
    page_ = new (at) Page{};
  }
  ~shared_memory() { ::munmap(page_, sizeof(Page)); }
  shared_memory(const shared_memory&) = delete;
  shared_memory& operator=(const shared_memory&) = delete;
  Page& operator*() { return *page_; }
  Page* operator->() { return page_; }
  const Page* operator->() const { return page_; }

private:
  Page* page_ = nullptr;
};

/// The named segments of shared memory on this machine.
inline std::set<std::string> shared_segments() {
  std::set<std::string> out;
  if (DIR* directory = ::opendir("/dev/shm")) {
    while (const dirent* entry = ::readdir(directory))
      out.insert(entry->d_name);
    ::closedir(directory);
  }
  return out;
}

} // namespace troupe::testing
