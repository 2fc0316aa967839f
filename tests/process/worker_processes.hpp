#pragma once

#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <dirent.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <troupe/troupe.hpp>

/// Workers of one synchronous program as processes, for tests that kill them.
namespace worker_test {

using namespace troupe;
using namespace std::chrono_literals;

inline std::int64_t now_ns() {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t); // the same in all processes
  return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
}

/// Looks until `holds`, for `limit` at most.
template <class F>
bool look_until(F holds, duration limit) {
  const std::int64_t end = now_ns() + limit.count();
  while (!holds()) {
    if (now_ns() > end)
      return false;
    ::poll(nullptr, 0, 1);
  }
  return true;
}

inline void spin_for(std::int64_t ns) {
  const std::int64_t end = now_ns() + ns;
  while (now_ns() < end) {
  }
}

inline std::uint64_t next_random(std::uint64_t& random) {
  random = random * 6364136223846793005ULL + 1442695040888963407ULL;
  return random >> 33;
}

/// Addresses nobody listens at.
inline std::vector<std::string> free_addresses(std::size_t n) {
  auto ports = make_production_ports();
  auto transport = make_asio_transport(ports->clock());
  std::vector<std::unique_ptr<channel_listener>> held;
  std::vector<std::string> out;
  for (std::size_t i = 0; i < n; ++i) {
    held.push_back(transport->listen("127.0.0.1:0").value_or_throw());
    out.push_back(held.back()->address());
  }
  return out;
}

inline std::set<std::string> shared_segments() {
  std::set<std::string> out;
  if (DIR* directory = ::opendir("/dev/shm")) {
    while (const dirent* entry = ::readdir(directory))
      out.insert(entry->d_name);
    ::closedir(directory);
  }
  return out;
}

/// Memory of a test and its processes.
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

private:
  Page* page_ = nullptr;
};

/// A process that runs `body` and ends with what it returns; killed when the object goes. The test
/// has no threads of its own when it starts one.
class process {
public:
  explicit process(const std::function<int()>& body) : pid_{::fork()} {
    if (pid_ != 0)
      return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    int code = 99;
    try {
      code = body();
    } catch (const std::exception& e) {
      std::fprintf(stderr, "worker: %s\n", e.what());
    }
    ::_exit(code);
  }
  ~process() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      (void)wait();
    }
  }
  process(const process&) = delete;
  process& operator=(const process&) = delete;

  void signal(int number) const { ::kill(pid_, number); }
  bool wait_ended(duration limit) {
    return look_until(
      [&] {
        int status = 0;
        if (pid_ > 0 && ::waitpid(pid_, &status, WNOHANG) == pid_) {
          status_ = status;
          pid_ = 0;
        }
        return pid_ <= 0;
      },
      limit);
  }
  /// Exit code, or minus the signal that ended it.
  int code() const { return WIFEXITED(status_) ? WEXITSTATUS(status_) : -WTERMSIG(status_); }

private:
  int wait() {
    while (::waitpid(pid_, &status_, 0) < 0 && errno == EINTR) {
    }
    pid_ = 0;
    return status_;
  }
  pid_t pid_ = 0;
  int status_ = 0;
};

} // namespace worker_test
