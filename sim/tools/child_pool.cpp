#include <troupe/sim/tools/child_pool.hpp>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <system_error>
#include <utility>

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

/// In the child: runs `body` and writes its answer; the exit code.
int answer_of(const std::function<std::string()>& body, int pipe) {
  for (int signal : {SIGABRT, SIGFPE, SIGILL, SIGINT, SIGTERM}) // whatever the parent does then
    ::signal(signal, SIG_DFL);
  if (!sanitized)
    for (int signal : {SIGSEGV, SIGBUS})
      ::signal(signal, SIG_DFL);
  int code = 1;
  try {
    auto answer = body();
    code = leaks() || !write_all(pipe, answer + whole) ? 1 : 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "troupe-sim: %s\n", e.what());
  }
  std::fflush(nullptr);
  return code;
}

} // namespace

child_pool::child_pool(unsigned jobs, child_limits limits)
  : jobs_{std::max(jobs, 1u)}, limits_{limits} {}

child_pool::~child_pool() {
  for (auto& c : running_) // all at once; each is waited for when it goes
    c.process.signal(SIGKILL);
}

tool::descriptor child_pool::take_error_file() {
  if (error_files_.empty()) {
    tool::descriptor made{::memfd_create("child-errors", MFD_CLOEXEC)};
    if (!made.is_open())
      give_up("memfd_create");
    return made;
  }
  auto out = std::move(error_files_.back());
  error_files_.pop_back();
  if (::ftruncate(out.get(), 0) != 0 || ::lseek(out.get(), 0, SEEK_SET) != 0)
    give_up("truncate");
  return out;
}

void child_pool::start(std::uint64_t key, const std::function<std::string()>& body) {
  std::fflush(nullptr); // or the child would write it again
  std::array<int, 2> both{};
  if (::pipe2(both.data(), O_CLOEXEC) != 0)
    give_up("pipe");
  child c{.key = key, .pipe = tool::descriptor{both[0]}};
  const tool::descriptor theirs{both[1]};
  c.errors = take_error_file();
  try {
    c.process =
      tool::child_process{[&] {
                            c.pipe.close();
                            return answer_of(body, theirs.get());
                          },
                          {.errors_to = c.errors.get(),
                           .address_space_bytes_max = sanitized ? 0 : limits_.memory_bytes,
                           .core_file = false}};
  } catch (const std::system_error& e) { // callers know one kind of error
    throw_failure(errc::io_failed, "fork: " + e.code().message());
  }
  c.deadline = steady::now() + limits_.wall;
  running_.push_back(std::move(c));
}

bool child_pool::read_some(child& from) {
  std::array<char, 65'536> bytes;
  auto n = ::read(from.pipe.get(), bytes.data(), bytes.size());
  if (n < 0)
    return errno == EINTR || errno == EAGAIN;
  from.answer.append(bytes.data(), static_cast<std::size_t>(n));
  return n > 0;
}

void child_pool::kill_late(steady::time_point now) {
  for (auto& c : running_)
    if (!c.killed && now >= c.deadline) {
      c.killed = true;
      c.process.signal(SIGKILL);
    }
}

child_end child_pool::wait() {
  for (;;) {
    auto now = steady::now();
    kill_late(now);
    auto next = now + std::chrono::seconds{10};
    std::vector<pollfd> all;
    for (const auto& c : running_) {
      all.push_back({.fd = c.pipe.get(), .events = POLLIN, .revents = 0});
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
  const auto status = c.process.wait();
  child_end out{.key = c.key, .answer = std::move(c.answer), .errors = tail_of(c.errors.get())};
  error_files_.push_back(std::move(c.errors));
  out.signal = status.signal;
  out.code = std::max(status.code, 0);
  bool good = status.ok() && out.answer.ends_with(whole);
  out.how = good ? child_end::answered : c.killed ? child_end::too_long : child_end::died;
  if (good)
    out.answer.pop_back();
  return out;
}

} // namespace troupe::sim
