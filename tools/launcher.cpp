#include "launcher.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <sstream>

#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "children.hpp"
#include "launch_signals.hpp"
#include "report.hpp"

namespace tool {

namespace {

namespace tr = troupe;

constexpr std::int64_t leave_ms = 15'000;    ///< from the coordinator's end to that of the others
constexpr std::int64_t stop_ms = 10'000;     ///< from a signal to the end
constexpr std::int64_t terminate_ms = 2'000; ///< from SIGTERM to SIGKILL
constexpr std::int64_t follow_ms = 1'000;    ///< after a child that ended with its coordinator
constexpr int lost_code = static_cast<int>(tr::exit_code::unavailable);
constexpr tr::task_id chief{.job = tr::job_kind::chief, .index = 0};

class launcher {
public:
  explicit launcher(const launch_options& options)
    : options_{options},
      plan_{options.kills, options.training.seed ^ std::uint64_t(::getpid())},
      signals_{blocked_.open()} {}
  int run();

private:
  void start_chief();
  void start_others();
  void start(child& c);
  void turn();
  int timeout_ms() const;
  void read_signals();
  void read_pipe();
  void on_line(const std::string& line);
  void on_end(child& c);
  void on_chief_end(const exit_status& status);
  void plan_restart(child& c, bool killed);
  void start_later(child& c, bool killed, std::int64_t lived_ms, std::int64_t delay_ms_min = 0);
  void hit(const due_fault& f);
  void end_plan();
  void end_by(std::int64_t deadline_ms) { deadline_ms_ = deadline_ms; }
  void past_deadline();
  int finish();
  std::vector<tr::task_id> living() const;
  static std::int64_t now_ms() { return steady_ns() / 1'000'000; }
  void say(const std::string& text) const;

  const launch_options& options_;
  blocked_signals blocked_{};
  kill_plan plan_;
  descriptor signals_;
  descriptor pipe_{}; ///< what the chief reports, not blocking
  line_buffer lines_{};
  children children_{};
  std::string address_{};
  std::string report_text_{};
  bool report_complete_ = false;
  bool ending_ = false; ///< nothing is started any more
  bool terminated_ = false;
  int stopped_by_ = 0;
  std::optional<exit_status> chief_status_{};
  std::int64_t plan_begin_ms_ = 0;
  std::optional<std::int64_t> deadline_ms_{};
  std::vector<std::int64_t> death_ns_{};
  std::string trouble_{};
};

void launcher::say(const std::string& text) const {
  std::printf("%s%s\n", ::isatty(STDOUT_FILENO) == 1 ? "\r\033[K" : "", text.c_str());
  std::fflush(stdout);
}

void launcher::start_chief() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    system_failed("pipe");
  pipe_ = descriptor{ends[0]};
  const descriptor theirs{ends[1]};
  ::fcntl(pipe_.get(), F_SETFL, O_NONBLOCK);
  ::fcntl(theirs.get(), F_SETFD, 0); // the chief inherits it, the others start when it is closed
  auto& c = children_.add(chief);
  children_.start(c, child_arguments(options_, chief, {}, theirs.get(), true));
}

void launcher::start_others() {
  for (std::uint32_t i = 0; i < options_.training.servers; ++i)
    children_.add({.job = tr::job_kind::ps, .index = i});
  for (std::uint32_t i = 0; i < options_.training.workers; ++i)
    children_.add({.job = tr::job_kind::worker, .index = i});
  for (auto& c : children_.all())
    if (c.task != chief)
      start(c);
  plan_begin_ms_ = now_ms();
}

void launcher::start(child& c) {
  try {
    children_.start(c, child_arguments(options_, c.task, address_, -1, c.starts == 0));
  } catch (const tr::error& why) {
    if (c.starts == 0)
      throw;
    // a machine that is full for a moment must not end the others: it counts as a death at once
    std::fprintf(stderr, "troupe: %s\n", why.details().text.c_str());
    start_later(c, false, 0);
  }
}

std::vector<tr::task_id> launcher::living() const {
  auto out = children_.living();
  std::erase(out, chief);
  return out;
}

int launcher::timeout_ms() const {
  std::int64_t out = 1'000;
  const auto now = now_ms();
  if (const auto next = plan_.next_ms(); next && !address_.empty())
    out = std::min(out, plan_begin_ms_ + *next - now);
  if (const auto next = children_.next_start_ms())
    out = std::min(out, *next - now);
  if (deadline_ms_)
    out = std::min(out, *deadline_ms_ - now);
  return static_cast<int>(std::max<std::int64_t>(out, 0));
}

/// One round of the loop: waits for something to happen, then deals with all of it.
void launcher::turn() {
  std::array<pollfd, 2> on{pollfd{signals_.get(), POLLIN, 0}, pollfd{pipe_.get(), POLLIN, 0}};
  const nfds_t count = pipe_.is_open() ? 2 : 1;
  if (::poll(on.data(), count, timeout_ms()) < 0 && errno != EINTR)
    system_failed("poll");
  read_pipe();
  read_signals();
  for (auto* c : children_.reap())
    on_end(*c);
  if (!address_.empty())
    for (const auto& f : plan_.due(now_ms() - plan_begin_ms_, living()))
      hit(f);
  for (auto& c : children_.all())
    if (c.start_at_ms && *c.start_at_ms <= now_ms() && !ending_)
      start(c);
  if (deadline_ms_ && now_ms() >= *deadline_ms_)
    past_deadline();
}

void launcher::read_signals() {
  signalfd_siginfo got{};
  while (::read(signals_.get(), &got, sizeof got) == sizeof got) {
    if (got.ssi_signo == SIGCHLD)
      continue; // reap() looks at all
    ending_ = true;
    end_plan();
    if (stopped_by_ != 0) // asked twice
      children_.signal_all(SIGKILL);
    stopped_by_ = static_cast<int>(got.ssi_signo);
    children_.at(chief).process.signal(SIGTERM);
    end_by(now_ms() + stop_ms);
  }
}

void launcher::read_pipe() {
  std::array<char, 4096> bytes{};
  while (pipe_.is_open()) {
    const auto got = ::read(pipe_.get(), bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      break;
    if (got == 0) {
      pipe_.close();
      break;
    }
    lines_.append({bytes.data(), static_cast<std::size_t>(got)});
  }
  while (const auto line = lines_.next())
    on_line(*line);
}

void launcher::on_line(const std::string& line) {
  std::istringstream words{line};
  std::string key;
  words >> key;
  if (key == "address" && address_.empty() && !ending_) {
    words >> address_;
    start_others();
  } else if (key == "incarnation") {
    std::uint32_t index = 0;
    std::uint32_t counter = 0;
    words >> index >> counter;
    if (!words.fail() && index < options_.training.workers && !address_.empty())
      children_.at({.job = tr::job_kind::worker, .index = index}).seen_incarnation = counter;
  } else if (key == "trained") {
    end_plan();
  } else if (key == "end") {
    report_complete_ = true;
  } else if (!report_complete_) {
    report_text_ += line + '\n';
  }
}

/// No more faults; what is stopped, also at a mark, goes on.
void launcher::end_plan() {
  for (const auto& f : plan_.end())
    hit(f);
  children_.signal_all(SIGCONT);
}

void launcher::hit(const due_fault& f) {
  auto& c = children_.at(f.task);
  if (!c.lives())
    return;
  const bool kills = f.signal == fault_signal::kill;
  const char* what = kills ? "killed " : f.resume ? "continued " : "stopped ";
  if (kills)
    c.hit = true;
  const auto ns = steady_ns();
  const auto pid = std::to_string(c.process.pid());
  c.process.signal(kills ? SIGKILL : f.resume ? SIGCONT : SIGSTOP);
  if (kills)
    death_ns_.push_back(ns);
  say(what + to_string(c.task) + " pid " + pid + " incarnation " + std::to_string(c.incarnation()));
}

void launcher::on_end(child& c) {
  const auto status = *c.status();
  if (c.task == chief)
    return on_chief_end(status);
  const bool killed = status.signal == SIGKILL;
  if (killed && !terminated_ && !c.hit) { // by itself, at a mark
    death_ns_.push_back(steady_ns());
    say(to_string(c.task) + " ended by SIGKILL, incarnation " + std::to_string(c.incarnation()));
  }
  if (!ending_ && !status.ok())
    plan_restart(c, killed);
}

void launcher::plan_restart(child& c, bool killed) {
  // told by its coordinator, or lost it: no trouble of its own, and the coordinator may be ending
  const int code = c.status()->code;
  const bool follows = code == lost_code || code == static_cast<int>(tr::exit_code::usage);
  if (c.task.job != tr::job_kind::worker && !c.hit && !follows) {
    trouble_ = to_string(c.task) + " exited unexpectedly";
    return; // what it held is gone: the coordinator says what that means
  }
  start_later(c, killed, now_ms() - c.started_ms, follows ? follow_ms : 0);
}

/// Sets the next start of a child that failed, or says that there is none.
void launcher::start_later(child& c, bool killed, std::int64_t lived_ms,
                           std::int64_t delay_ms_min) {
  c.start_at_ms.reset();
  if (const auto delay = c.restarts.failed(killed, lived_ms))
    c.start_at_ms = now_ms() + std::max(*delay, delay_ms_min);
  else
    trouble_ = to_string(c.task) + " exited unexpectedly "
               + std::to_string(c.restarts.deaths_in_row())
               + " times in a row; it is not restarted";
}

void launcher::on_chief_end(const exit_status& status) {
  read_pipe();
  chief_status_ = status;
  ending_ = true;
  end_plan();
  end_by(now_ms() + (status.ok() ? leave_ms : 0));
}

void launcher::past_deadline() {
  children_.signal_all(terminated_ ? SIGKILL : SIGTERM);
  terminated_ = true;
  end_by(now_ms() + terminate_ms);
}

int launcher::run() {
  start_chief();
  while (children_.any_lives() || (!ending_ && !chief_status_))
    turn();
  return finish();
}

int launcher::finish() {
  if (stopped_by_ != 0)
    return 128 + stopped_by_;
  const auto report = decode_report(report_text_);
  const auto chief_end = chief_status_.value_or(exit_status{});
  const bool well = chief_end.ok(), exited = chief_end.code >= 0;
  if (!well || !report_complete_ || !report) {
    const int code = !exited ? lost_code
                     : well  ? static_cast<int>(tr::exit_code::failed)
                             : chief_end.code;
    if (exited && !well && trouble_.empty())
      return code; // it has said why
    const auto why = !well     ? std::string{"the coordinator failed"}
                     : !report ? to_string(report.error())
                               : std::string{"the coordinator's report is incomplete"};
    std::fprintf(stderr, "troupe: launcher: %s%s%s\n", why.c_str(), trouble_.empty() ? "" : "; ",
                 trouble_.c_str());
    return code;
  }
  process_report ends{.kills = death_ns_.size()};
  for (const auto& c : children_.all()) {
    ++ends.tasks;
    ends.ended_well += c.status() && c.status()->ok() ? 1 : 0;
  }
  if (options_.training.stats) {
    auto begins = report->rerun_begin_ns;
    std::ranges::sort(begins);
    const auto times = recovery_ms(death_ns_, begins);
    std::printf("recovery: median %.1f ms over %zu kills with closures running\n", median(times),
                times.size());
  }
  for (const auto& line : final_lines(*report, ends))
    std::printf("%s\n", line.c_str());
  std::fflush(stdout);
  return ends.ended_well == ends.tasks && report->lost == 0 && report->doubled == 0 ? 0 : 1;
}

} // namespace

int launch(const launch_options& options) { return launcher{options}.run(); }

} // namespace tool
