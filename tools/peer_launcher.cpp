#include "peer_launcher.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <sstream>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "children.hpp"

namespace tool {

namespace {

namespace tr = troupe;

constexpr std::int64_t leave_ms = 5'000; ///< from the first worker's end to that of all

volatile std::sig_atomic_t told_to_end = 0;

void note_signal(int number) { told_to_end = number; }

/// A port of the loopback that nobody listens on now. Held until all were chosen.
class free_port {
public:
  free_port() : fd_{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)} {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    if (fd_ < 0 || ::bind(fd_, reinterpret_cast<sockaddr*>(&at), size) != 0
        || ::getsockname(fd_, reinterpret_cast<sockaddr*>(&at), &size) != 0)
      tr::throw_failure(tr::errc::unavailable,
                        std::string{"launcher: no port: "} + std::strerror(errno));
    number_ = ntohs(at.sin_port);
  }
  ~free_port() {
    if (fd_ >= 0)
      ::close(fd_);
  }
  free_port(const free_port&) = delete;
  free_port& operator=(const free_port&) = delete;
  int number() const { return number_; }

private:
  int fd_;
  int number_ = 0;
};

/// {"cluster": {"worker": ["127.0.0.1:4711", ...]}, "task": {...}}, up to the task's index.
std::string cluster_text(std::uint32_t workers) {
  std::vector<free_port> ports(workers);
  std::string out = R"({"cluster": {"worker": [)";
  for (std::uint32_t i = 0; i < workers; ++i)
    out += (i == 0 ? "\"127.0.0.1:" : ", \"127.0.0.1:") + std::to_string(ports[i].number()) + "\"";
  return out + R"(]}, "task": {"type": "worker", "index": )";
}

/// Children that a signal ended, or that said no. The code of the first that did.
int code_of(const children& all) {
  for (const auto& c : all.all()) {
    if (!c.status || c.hit) // those that were killed on purpose
      continue;
    if (WIFSIGNALED(*c.status))
      return 128 + WTERMSIG(*c.status);
    if (WEXITSTATUS(*c.status) != 0)
      return WEXITSTATUS(*c.status);
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

class peer_launcher {
public:
  explicit peer_launcher(const launch_options& options)
    : options_{options},
      cluster_{cluster_text(options.training.workers)},
      plan_{options.kills, options.training.seed ^ std::uint64_t(::getpid())} {
    for (std::uint32_t i = 0; i < options_.training.workers; ++i)
      all_.add({.job = tr::job_kind::worker, .index = i});
    for (auto& c : all_.all())
      start(c);
    begin_ms_ = now_ms();
  }

  int run() {
    while (all_.any_lives()) {
      for (auto* c : all_.reap())
        on_end(*c);
      if (told_to_end != 0 && !std::exchange(ending_, true)) {
        end_plan();
        for (const auto& c : all_.all())
          all_.signal(c, told_to_end);
      }
      for (const auto& f : plan_.due(now_ms() - begin_ms_, living()))
        hit(f);
      if (done_ms_ && now_ms() > *done_ms_ + leave_ms)
        end_late_ones();
      ::usleep(20'000);
    }
    if (kills_ > 0)
      std::printf("processes killed: %u, started again: %u\n", kills_, restarts_);
    return told_to_end != 0 ? 128 + told_to_end : code_of(all_);
  }

private:
  static std::int64_t now_ms() { return steady_ns() / 1'000'000; }

  /// One that follows another goes on from the checkpoint, or begins if it died before there was
  /// one.
  void start(child& c) {
    auto training = options_.training;
    training.rejoins = c.starts > 0;
    ::setenv("TF_CONFIG", (cluster_ + std::to_string(c.task.index) + "}}").c_str(), 1);
    c.hit = false;
    all_.start(c, peer_arguments(training), -1);
  }

  std::vector<tr::task_id> living() const {
    std::vector<tr::task_id> out;
    for (const auto& c : all_.all())
      if (c.lives())
        out.push_back(c.task);
    return out;
  }

  void hit(const due_fault& f) {
    auto& c = all_.at(f.task);
    if (!c.lives())
      return;
    const bool kills = f.signal == fault_signal::kill;
    c.hit = c.hit || kills;
    kills_ += kills ? 1 : 0;
    all_.signal(c, kills ? SIGKILL : f.resume ? SIGCONT : SIGSTOP);
    std::printf("%s %s\n",
                kills      ? "killed"
                : f.resume ? "continued"
                           : "stopped",
                to_string(c.task).c_str());
    std::fflush(stdout);
  }

  void end_plan() {
    for (const auto& f : plan_.end())
      hit(f);
  }

  void on_end(child& c) {
    const bool well = WIFEXITED(*c.status) && WEXITSTATUS(*c.status) == 0;
    if (c.hit && !ending_ && !done_ms_) {
      ++restarts_;
      return start(c);
    }
    if (!well && !(c.hit && done_ms_)) // training was over when it was killed
      std::fprintf(stderr, "troupe: launcher: %s did not end well\n", to_string(c.task).c_str());
    if (well && !done_ms_) { // so are the others
      done_ms_ = now_ms();
      end_plan();
    }
  }

  /// One that was killed and started again when the others had met for the last time finds nobody.
  void end_late_ones() {
    for (auto& c : all_.all())
      if (c.lives() && c.starts > 1) {
        c.hit = true;
        all_.signal(c, SIGKILL);
      }
  }

  const launch_options& options_;
  const std::string cluster_;
  kill_plan plan_;
  children all_{};
  std::int64_t begin_ms_ = 0;
  bool ending_ = false;
  std::optional<std::int64_t> done_ms_{}; ///< when the first worker had ended well
  std::uint32_t kills_ = 0;
  std::uint32_t restarts_ = 0;
};

} // namespace

int launch_peers(const launch_options& options) {
  struct sigaction action {};
  action.sa_handler = note_signal;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  return peer_launcher{options}.run();
}

} // namespace tool
