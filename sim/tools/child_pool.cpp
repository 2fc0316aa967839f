#include <troupe/sim/tools/child_pool.hpp>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>

#include <troupe/core/error.hpp>

// g++ says it by macros, clang by features
#if defined(__SANITIZE_ADDRESS__)
#define TROUPE_UNDER_ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define TROUPE_UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TROUPE_UNDER_ASAN 1
#elif __has_feature(thread_sanitizer)
#define TROUPE_UNDER_TSAN 1
#endif
#endif
#if defined(TROUPE_UNDER_ASAN)
#include <sanitizer/lsan_interface.h>
#endif

namespace troupe::sim {

namespace {

constexpr std::size_t errors_bytes_max = 8'192;

#if defined(TROUPE_UNDER_ASAN) || defined(TROUPE_UNDER_TSAN)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

/// A child ends without the check that a program makes at its end.
bool leaks() {
#if defined(TROUPE_UNDER_ASAN)
  return __lsan_do_recoverable_leak_check() != 0;
#else
  return false;
#endif
}

[[noreturn]] void give_up(const char* what) {
  throw_failure(errc::io_failed, std::string{what} + ": " + std::strerror(errno));
}

bool write_all(int to, const std::string& bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    auto n = ::write(to, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno != EINTR)
      return false;
    done += n > 0 ? static_cast<std::size_t>(n) : 0;
  }
  return true;
}

std::string tail_of(int file) {
  auto size = static_cast<std::size_t>(std::max<off_t>(::lseek(file, 0, SEEK_END), 0));
  std::string out(std::min(size, errors_bytes_max), '\0');
  auto n = ::pread(file, out.data(), out.size(), static_cast<off_t>(size - out.size()));
  out.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return out;
}

/// What ends an answer that is whole.
constexpr char whole = '\n';

} // namespace

child_pool::child_pool(unsigned jobs, child_limits limits)
  : jobs_{std::max(jobs, 1u)}, limits_{limits} {}

child_pool::~child_pool() {
  for (auto& c : running_)
    ::kill(c.pid, SIGKILL);
  while (!running_.empty())
    finish(0);
  for (int file : error_files_)
    ::close(file);
}

int child_pool::take_error_file() {
  if (error_files_.empty()) {
    int made = ::memfd_create("child-errors", MFD_CLOEXEC);
    if (made < 0)
      give_up("memfd_create");
    return made;
  }
  int out = error_files_.back();
  error_files_.pop_back();
  if (::ftruncate(out, 0) != 0 || ::lseek(out, 0, SEEK_SET) != 0)
    give_up("truncate");
  return out;
}

void child_pool::start(std::uint64_t key, const std::function<std::string()>& body) {
  std::fflush(nullptr); // or the child would write it again
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    give_up("pipe");
  int errors = take_error_file();
  auto pid = ::fork();
  if (pid < 0)
    give_up("fork");
  if (pid == 0) {
    ::close(ends[0]);
    run_in_child(ends[1], errors, body);
  }
  ::close(ends[1]);
  running_.push_back({.key = key,
                      .pid = pid,
                      .pipe = ends[0],
                      .errors = errors,
                      .deadline = steady::now() + limits_.wall});
}

void child_pool::run_in_child(int pipe, int errors, const std::function<std::string()>& body) {
  ::dup2(errors, STDERR_FILENO);
  for (int signal : {SIGABRT, SIGFPE, SIGILL, SIGINT, SIGTERM}) // whatever the parent does then
    ::signal(signal, SIG_DFL);
  if (!sanitized)
    for (int signal : {SIGSEGV, SIGBUS})
      ::signal(signal, SIG_DFL);
  if (!sanitized && limits_.memory_bytes > 0) {
    rlimit most{.rlim_cur = limits_.memory_bytes, .rlim_max = limits_.memory_bytes};
    ::setrlimit(RLIMIT_AS, &most);
  }
  rlimit no_core{.rlim_cur = 0, .rlim_max = 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  int code = 1;
  try {
    auto answer = body();
    code = leaks() || !write_all(pipe, answer + whole) ? 1 : 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "troupe-sim: %s\n", e.what());
  }
  std::fflush(nullptr);
  ::_exit(code);
}

bool child_pool::read_some(child& from) {
  std::array<char, 65'536> bytes;
  auto n = ::read(from.pipe, bytes.data(), bytes.size());
  if (n < 0)
    return errno == EINTR || errno == EAGAIN;
  from.answer.append(bytes.data(), static_cast<std::size_t>(n));
  return n > 0;
}

void child_pool::kill_late(steady::time_point now) {
  for (auto& c : running_)
    if (!c.killed && now >= c.deadline) {
      c.killed = true;
      ::kill(c.pid, SIGKILL);
    }
}

child_end child_pool::wait() {
  for (;;) {
    auto now = steady::now();
    kill_late(now);
    auto next = now + std::chrono::seconds{10};
    std::vector<pollfd> all;
    for (const auto& c : running_) {
      all.push_back({.fd = c.pipe, .events = POLLIN, .revents = 0});
      if (!c.killed)
        next = std::min(next, c.deadline);
    }
    auto ms = std::chrono::ceil<std::chrono::milliseconds>(next - now).count();
    if (::poll(all.data(), all.size(), static_cast<int>(ms)) < 0 && errno != EINTR)
      give_up("poll");
    for (std::size_t i = 0; i < all.size(); ++i)
      if (all[i].revents != 0 && !read_some(running_[i]))
        return finish(i);
  }
}

child_end child_pool::finish(std::size_t at) {
  auto c = std::move(running_[at]);
  running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(at));
  int status = 0;
  while (::waitpid(c.pid, &status, 0) < 0 && errno == EINTR) {
  }
  ::close(c.pipe);
  child_end out{.key = c.key, .answer = std::move(c.answer), .errors = tail_of(c.errors)};
  error_files_.push_back(c.errors);
  out.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  out.code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  bool good = out.signal == 0 && out.code == 0 && out.answer.ends_with(whole);
  out.how = good ? child_end::answered : c.killed ? child_end::too_long : child_end::died;
  if (good)
    out.answer.pop_back();
  return out;
}

} // namespace troupe::sim
