#include "peer_launcher.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <troupe/core/production_ports.hpp>

#include "children.hpp"
#include "free_ports.hpp"
#include "launch_signals.hpp"
#include "standstill.hpp"

namespace tool {

namespace {

namespace tr = troupe;

/// {"cluster": {"worker": ["127.0.0.1:4711", ...]}, "task": {...}}, up to the task's index.
std::string cluster_text(std::uint32_t workers) {
  const auto ports = free_loopback_ports(workers);
  std::string out = R"({"cluster": {"worker": [)";
  for (std::uint32_t i = 0; i < workers; ++i)
    out += (i == 0 ? "\"127.0.0.1:" : ", \"127.0.0.1:") + std::to_string(ports[i]) + "\"";
  return out + R"(]}, "task": {"type": "worker", "index": )";
}

/// Children that a signal ended, or that said no. The code of the first that did.
int code_of(const children& all) {
  for (const auto& c : all.all()) {
    if (!c.status() || c.hit) // those that were killed on purpose
      continue;
    if (c.status()->signal != 0)
      return 128 + c.status()->signal;
    if (!c.status()->ok())
      return c.status()->code;
  }
  return 0;
}

} // namespace

std::vector<std::string> peer_arguments(const training_options& t) {
  std::vector<std::string> out{"train", "fashion_mnist", "--strategy", t.strategy};
  const auto add = [&](const char* flag, const auto& value) {
    std::ostringstream text;
    text.precision(9);
    text << value;
    out.emplace_back(flag);
    out.push_back(text.str());
  };
  if (t.seconds > 0)
    add("--seconds", t.seconds);
  else
    add("--epochs", t.epochs);
  if (t.device.empty())
    add("--replicas", t.replicas);
  add("--batch-size", t.batch_size);
  add("--learning-rate", t.learning_rate);
  add("--seed", t.seed);
  add("--data", t.data);
  if (!t.device.empty())
    add("--device", t.device);
  if (!t.checkpoint.empty())
    add("--checkpoint", t.checkpoint);
  if (t.checkpoint_every > 0)
    add("--checkpoint-every", t.checkpoint_every);
  if (t.resume)
    out.emplace_back("--resume");
  if (t.rejoins)
    out.emplace_back("--rejoin");
  if (t.stats)
    out.emplace_back("--stats");
  return out;
}

namespace {

constexpr std::int64_t leave_ms = 5'000;     ///< from the first worker's end, for late ones
constexpr std::int64_t alone_ms = 15'000;    ///< for those whose fellows are gone
constexpr std::int64_t stop_ms = 10'000;     ///< from a signal to the end
constexpr std::int64_t terminate_ms = 2'000; ///< from SIGTERM to SIGKILL
constexpr std::int64_t look_every_ms = 1'000;

std::string saves_text(const training_options& t) {
  if (t.checkpoint_every == 0)
    return "a checkpoint is saved at the end only";
  return "a checkpoint is saved every " + std::to_string(t.checkpoint_every) + " steps";
}

class peer_launcher {
public:
  explicit peer_launcher(const launch_options& options)
    : options_{options},
      cluster_{cluster_text(options.training.workers)},
      plan_{options.kills, options.training.seed ^ std::uint64_t(::getpid())},
      signals_{blocked_.open()},
      watch_{now_ms(), saves_text(options.training)} {}
  int run();

private:
  static std::int64_t now_ms() { return steady_ns() / 1'000'000; }
  void start(child& c);
  void turn();
  int timeout_ms() const;
  void read_signals();
  void hit(const due_fault& f);
  void end_plan();
  void on_end(child& c);
  void on_loss(child& c);
  void start_later(child& c, bool killed, std::int64_t lived_ms);
  void give_up(const child& c, const std::string& why);
  void past_deadline();
  void end_late_ones();
  void look_for_progress();
  void say(const std::string& text) const;

  const launch_options& options_;
  const std::string cluster_;
  blocked_signals blocked_{};
  kill_plan plan_;
  descriptor signals_;
  std::unique_ptr<tr::production_ports> ports_{tr::make_production_ports()};
  standstill watch_;
  std::vector<std::string> saved_{}; ///< what was in the checkpoint's directory
  std::int64_t look_at_ms_ = 0;
  children all_{};
  std::int64_t begin_ms_ = 0;
  int stopped_by_ = 0;
  bool ending_ = false; ///< nothing is started any more
  bool done_ = false;   ///< the first worker has ended well: so are the others
  bool late_ended_ = false;
  bool terminated_ = false; ///< they were told
  std::optional<std::int64_t> deadline_ms_{};
  std::uint32_t kills_ = 0;
  std::uint32_t restarts_ = 0;
};

void peer_launcher::say(const std::string& text) const {
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

/// One that follows another goes on from the checkpoint, or begins if it died before there was one.
void peer_launcher::start(child& c) {
  auto training = options_.training;
  training.rejoins = c.starts > 0;
  try {
    all_.start(c, peer_arguments(training),
               {{"TF_CONFIG", cluster_ + std::to_string(c.task.index) + "}}"}});
    restarts_ += training.rejoins ? 1 : 0;
  } catch (const tr::error& why) {
    if (!training.rejoins)
      throw;
    // a machine that is full for a moment must not end the others: it counts as a death at once
    std::fprintf(stderr, "troupe: %s\n", why.details().text.c_str());
    c.hit = false; // if it stays away, that is a failure
    start_later(c, false, 0);
  }
}

int peer_launcher::timeout_ms() const {
  std::int64_t out = look_every_ms;
  const auto now = now_ms();
  if (const auto next = plan_.next_ms())
    out = std::min(out, begin_ms_ + *next - now);
  if (const auto next = all_.next_start_ms())
    out = std::min(out, *next - now);
  if (deadline_ms_)
    out = std::min(out, *deadline_ms_ - now);
  return static_cast<int>(std::max<std::int64_t>(out, 0));
}

/// One round of the loop: waits for something to happen, then deals with all of it.
void peer_launcher::turn() {
  pollfd on{signals_.get(), POLLIN, 0};
  if (::poll(&on, 1, timeout_ms()) < 0 && errno != EINTR)
    system_failed("poll");
  read_signals();
  for (auto* c : all_.reap())
    on_end(*c);
  for (const auto& f : plan_.due(now_ms() - begin_ms_, all_.living()))
    hit(f);
  for (auto& c : all_.all())
    if (c.start_at_ms && *c.start_at_ms <= now_ms() && !ending_)
      start(c);
  look_for_progress();
  if (deadline_ms_ && now_ms() >= *deadline_ms_)
    past_deadline();
}

void peer_launcher::read_signals() {
  signalfd_siginfo got{};
  while (::read(signals_.get(), &got, sizeof got) == sizeof got) {
    if (got.ssi_signo == SIGCHLD)
      continue; // reap() looks at all
    ending_ = true;
    end_plan();
    all_.signal_all(stopped_by_ != 0 ? SIGKILL : SIGTERM); // SIGKILL when asked twice
    stopped_by_ = static_cast<int>(got.ssi_signo);
    terminated_ = true;
    deadline_ms_ = now_ms() + stop_ms;
  }
}

void peer_launcher::hit(const due_fault& f) {
  auto& c = all_.at(f.task);
  if (!c.lives())
    return;
  const bool kills = f.signal == fault_signal::kill;
  c.hit = c.hit || kills;
  kills_ += kills ? 1 : 0;
  if (!kills && !f.resume)
    watch_.stopped(c.task);
  const auto pid = std::to_string(c.process.pid());
  c.process.signal(kills ? SIGKILL : f.resume ? SIGCONT : SIGSTOP);
  say((kills      ? "killed "
       : f.resume ? "continued "
                  : "stopped ")
      + to_string(c.task) + " pid " + pid + " start " + std::to_string(c.starts));
}

/// No more faults; what is stopped, by whomever, goes on.
void peer_launcher::end_plan() {
  for (const auto& f : plan_.end())
    hit(f);
  all_.signal_all(SIGCONT);
}

void peer_launcher::on_end(child& c) {
  if (!c.status()->ok())
    return on_loss(c);
  if (std::exchange(done_, true))
    return;
  end_plan();
  for (auto& other : all_.all()) // it would find nobody
    other.hit = std::exchange(other.start_at_ms, std::nullopt).has_value() || other.hit;
  deadline_ms_ = now_ms() + leave_ms;
}

/// A worker that was killed or crashed comes back, if there is something to go on from. One that
/// ends with a code of its own has said why, and would say it again.
void peer_launcher::on_loss(child& c) {
  const auto status = *c.status();
  if (ending_ || done_) { // training was over when it was killed, or it was told to end
    if (!c.hit && !terminated_)
      std::fprintf(stderr, "troupe: launcher: %s failed\n", to_string(c.task).c_str());
    return;
  }
  const auto now = now_ms();
  watch_.ended(c.task, now - c.started_ms);
  if (status.signal == 0)
    return give_up(c, to_string(status));
  if (!c.hit)
    say(to_string(c.task) + " " + to_string(status) + ", start " + std::to_string(c.starts));
  if (options_.training.checkpoint.empty())
    return give_up(c, to_string(status) + "; without --checkpoint training cannot resume");
  start_later(c, status.signal == SIGKILL, now - c.started_ms);
}

/// Sets the next start of a worker that failed, or gives up.
void peer_launcher::start_later(child& c, bool killed, std::int64_t lived_ms) {
  c.start_at_ms.reset();
  if (const auto delay = c.restarts.failed(killed, lived_ms))
    c.start_at_ms = now_ms() + *delay;
  else
    give_up(c, "exited unexpectedly " + std::to_string(c.restarts.deaths_in_row())
                 + " times in a row; it is not restarted");
}

/// It does not come back, and the others can't go on without it.
void peer_launcher::give_up(const child& c, const std::string& why) {
  std::fprintf(stderr, "troupe: launcher: %s %s\n", to_string(c.task).c_str(), why.c_str());
  ending_ = true;
  end_plan();
  if (!deadline_ms_)
    deadline_ms_ = now_ms() + alone_ms;
}

/// Who is left is told to end, and then ended.
void peer_launcher::past_deadline() {
  if (done_ && !std::exchange(late_ended_, true)) {
    end_late_ones();
    deadline_ms_ = now_ms() + alone_ms;
    return;
  }
  all_.signal_all(terminated_ ? SIGKILL : SIGTERM);
  terminated_ = true;
  deadline_ms_ = now_ms() + terminate_ms;
}

/// One that was killed and started again when the others had met for the last time finds nobody:
/// that is no failure.
void peer_launcher::end_late_ones() {
  for (auto& c : all_.all())
    if (c.lives() && c.starts > 1) {
      c.hit = true;
      c.process.signal(SIGKILL);
    }
}

void peer_launcher::look_for_progress() {
  const auto now = now_ms();
  if (options_.training.checkpoint.empty() || now < look_at_ms_)
    return;
  look_at_ms_ = now + look_every_ms;
  auto names = ports_->storage().list(options_.training.checkpoint);
  if (names && *names != saved_) {
    std::erase_if(*names, [](const std::string& name) { return name.ends_with(".tmp"); });
    if (*names != saved_) {
      saved_ = std::move(*names);
      watch_.progressed(now);
    }
  }
  if (const auto text = watch_.due(now))
    say(*text);
}

int peer_launcher::run() {
  for (std::uint32_t i = 0; i < options_.training.workers; ++i)
    all_.add({.job = tr::job_kind::worker, .index = i});
  for (auto& c : all_.all())
    start(c);
  begin_ms_ = now_ms();
  const auto to_come = [this] {
    return !ending_ && std::ranges::any_of(all_.all(), [](const child& c) {
      return c.start_at_ms.has_value();
    });
  };
  while (all_.any_lives() || to_come())
    turn();
  if (kills_ > 0 || restarts_ > 0)
    std::printf("processes killed: %u, started again: %u\n", kills_, restarts_);
  return stopped_by_ != 0 ? 128 + stopped_by_ : code_of(all_);
}

} // namespace

int launch_peers(const launch_options& options) { return peer_launcher{options}.run(); }

} // namespace tool
