#include "child_process.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

extern char** environ; // NOLINT: POSIX

namespace tool {

namespace {

using steady = std::chrono::steady_clock;

constexpr int never_ran = 127;   ///< exit code of a process that could not be set up
constexpr int body_threw = 99;   ///< exit code of a body that threw
constexpr int look_every_ms = 1; ///< at a process that may have ended
constexpr std::int64_t poll_ms_max = 60'000;

[[noreturn]] void failed(int error, const std::string& what) {
  throw std::system_error{error, std::generic_category(), what};
}

struct pipe_ends {
  pipe_ends() {
    std::array<int, 2> both{};
    if (::pipe2(both.data(), O_CLOEXEC) != 0)
      failed(errno, "pipe");
    read = descriptor{both[0]};
    write = descriptor{both[1]};
  }
  descriptor read{};
  descriptor write{};
};

void limit_resource(decltype(RLIMIT_AS) which, rlim_t most) {
  const rlimit both{.rlim_cur = most, .rlim_max = most};
  ::setrlimit(which, &both);
}

/// In the new process. Only calls that are allowed between fork and exec.
void set_up(pid_t parent, const child_options& options) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) // it died before the line above
    ::_exit(never_ran);
  if (options.own_group)
    ::setpgid(0, 0);
  if (options.output_to >= 0)
    ::dup2(options.output_to, STDOUT_FILENO);
  if (options.errors_to >= 0)
    ::dup2(options.errors_to, STDERR_FILENO);
  if (options.address_space_bytes_max > 0)
    limit_resource(RLIMIT_AS, options.address_space_bytes_max);
  if (!options.core_file)
    limit_resource(RLIMIT_CORE, 0);
}

/// This process's variables, but for those that `more` sets, and `more`: "NAME=value".
std::vector<std::string> variables_with(const std::map<std::string, std::string>& more) {
  std::vector<std::string> out;
  for (char** at = environ; at != nullptr && *at != nullptr; ++at) {
    std::string variable{*at};
    if (!more.contains(variable.substr(0, variable.find('='))))
      out.push_back(std::move(variable));
  }
  for (const auto& [name, value] : more)
    out.push_back(name + '=' + value);
  return out;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (auto& text : texts)
    out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

/// A program's start, all memory of it taken before the fork: another thread may hold the
/// allocator's lock at that moment.
class program_start {
public:
  explicit program_start(const child_command& command)
    : command_{command},
      options_{command.options},
      words_{command.name.empty() ? command.program : command.name} {
    words_.insert(words_.end(), command.arguments.begin(), command.arguments.end());
    argv_ = pointers_to(words_);
    if (command.descriptors)
      for (const int fd : *command.descriptors)
        copy_above(fd);
    failure_.write =
      descriptor{::fcntl(failure_.write.get(), F_DUPFD_CLOEXEC, end_of_handed() + 1)};
    if (!failure_.write.is_open())
      failed(errno, "cannot start " + command.program);
    if (command.capture == captured_output::none)
      return;
    captured_.emplace();
    options_.output_to = captured_->write.get();
    if (command.capture == captured_output::output_and_errors)
      options_.errors_to = captured_->write.get();
  }

  /// The new process. Throws where the program does not run.
  pid_t run() {
    const auto parent = ::getpid();
    const auto pid = ::fork();
    if (pid < 0)
      failed(errno, "cannot start " + command_.program);
    if (pid == 0)
      become(parent);
    failure_.write.close();
    int error = 0;
    ssize_t got = 0;
    do
      got = ::read(failure_.read.get(), &error, sizeof error); // nothing: closed by exec
    while (got < 0 && errno == EINTR);
    if (got != sizeof error)
      return pid;
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    failed(error, "cannot start " + command_.program);
  }
  /// Where the captured output is read; none where there is none.
  descriptor take_output() { return captured_ ? std::move(captured_->read) : descriptor{}; }

private:
  int end_of_handed() const {
    return handed_down(command_.descriptors ? static_cast<int>(command_.descriptors->size()) : 0);
  }
  /// Copies lie above all numbers that the process finds them at, so none is overwritten before it
  /// has been put there.
  void copy_above(int fd) {
    copies_.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, end_of_handed() + 1));
    if (!copies_.back().is_open())
      throw std::runtime_error{"cannot hand file " + std::to_string(fd) + " down"};
  }
  [[noreturn]] void become(pid_t parent) {
    set_up(parent, options_);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    int failure = failure_.write.get();
    if (command_.descriptors) {
      for (std::size_t i = 0; i < copies_.size(); ++i)
        ::dup2(copies_[i].get(), handed_down(static_cast<int>(i)));
      failure = ::dup3(failure, end_of_handed(), O_CLOEXEC);
      ::closefrom(end_of_handed() + 1);
    }
    ::execvpe(command_.program.c_str(), argv_.data(), envp_.data());
    const int error = errno;
    (void)!::write(failure, &error, sizeof error);
    ::_exit(never_ran);
  }

  const child_command& command_;
  child_options options_;
  std::vector<std::string> words_;
  std::vector<std::string> variables_ = variables_with(command_.environment);
  std::vector<char*> argv_{};
  std::vector<char*> envp_ = pointers_to(variables_);
  std::vector<descriptor> copies_{};
  pipe_ends failure_{}; ///< carries why exec failed
  std::optional<pipe_ends> captured_{};
};

} // namespace

std::string own_program() {
  std::array<char, 4096> path{};
  const auto size = ::readlink("/proc/self/exe", path.data(), path.size() - 1);
  if (size > 0 && ::access(path.data(), X_OK) == 0)
    return {path.data(), static_cast<std::size_t>(size)};
  return "/proc/self/exe"; // the file is gone, the link still leads to it
}

child_process::child_process(const child_command& command) {
  program_start start{command};
  pid_ = start.run();
  output_ = start.take_output();
}

child_process::child_process(const std::function<int()>& body, const child_options& options) {
  const auto parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0)
    failed(errno, "fork");
  if (pid_ > 0)
    return;
  set_up(parent, options);
  int code = body_threw;
  try {
    code = body();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "child process: %s\n", e.what());
  } catch (...) { // or the child would go on as if it were its parent
    std::fputs("child process: an exception of another type\n", stderr);
  }
  ::_exit(code);
}

child_process::child_process(child_process&& other) noexcept
  : pid_{std::exchange(other.pid_, 0)},
    status_{std::exchange(other.status_, std::nullopt)},
    output_{std::move(other.output_)},
    lines_{std::move(other.lines_)} {}

child_process& child_process::operator=(child_process&& other) noexcept {
  if (this == &other)
    return *this;
  kill_and_wait();
  pid_ = std::exchange(other.pid_, 0);
  status_ = std::exchange(other.status_, std::nullopt);
  output_.close();
  output_ = std::move(other.output_);
  lines_ = std::move(other.lines_);
  return *this;
}

child_process::~child_process() { kill_and_wait(); }

void child_process::kill_and_wait() noexcept {
  if (pid_ <= 0)
    return;
  signal(SIGKILL);
  wait();
}

void child_process::signal(int number) const {
  if (pid_ > 0)
    ::kill(pid_, number);
}

void child_process::ended(int wait_status) {
  status_ = exit_status::of_wait(wait_status);
  pid_ = 0;
}

bool child_process::running() {
  int status = 0;
  if (pid_ > 0 && ::waitpid(pid_, &status, WNOHANG) == pid_)
    ended(status);
  return pid_ > 0;
}

exit_status child_process::wait() {
  int status = 0;
  while (pid_ > 0)
    if (::waitpid(pid_, &status, 0) == pid_)
      ended(status);
    else if (errno != EINTR)
      ended(W_EXITCODE(never_ran, 0)); // somebody else has collected it
  return status_.value_or(exit_status{});
}

bool child_process::wait_ended(std::chrono::nanoseconds limit) {
  for (const auto until = steady::now() + limit; running(); ::poll(nullptr, 0, look_every_ms))
    if (steady::now() > until)
      return !running();
  return true;
}

exit_status child_process::wait_or_kill(std::chrono::nanoseconds limit) {
  if (!wait_ended(limit))
    signal(SIGKILL);
  return wait();
}

int child_process::code() const {
  const auto how = status_.value_or(exit_status{});
  return how.signal != 0 ? -how.signal : how.code;
}

/// False at the end of the output.
bool child_process::read_some() {
  std::array<char, 4096> bytes{};
  const auto got = ::read(output_.get(), bytes.data(), bytes.size());
  if (got < 0)
    return errno == EINTR || errno == EAGAIN;
  lines_.append({bytes.data(), static_cast<std::size_t>(got)});
  return got > 0;
}

std::optional<std::string> child_process::read_line(std::chrono::nanoseconds limit) {
  const auto until = steady::now() + limit;
  for (;;) {
    if (auto line = lines_.next())
      return line;
    if (!output_.is_open()) {
      auto rest = lines_.take_rest();
      return rest.empty() ? std::nullopt : std::optional{std::move(rest)};
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - steady::now()).count();
    pollfd on{.fd = output_.get(), .events = POLLIN, .revents = 0};
    const int ready =
      ::poll(&on, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, poll_ms_max)));
    if (ready == 0 && left > poll_ms_max)
      continue;
    if (ready == 0 || (ready < 0 && errno != EINTR))
      return std::nullopt;
    if (ready > 0 && !read_some())
      output_.close();
  }
}

std::string child_process::read_rest() {
  while (output_.is_open() && read_some()) {
  }
  output_.close();
  return lines_.take_rest();
}

} // namespace tool
