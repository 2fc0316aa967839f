#include "peer_launcher.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
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
    if (!c.status)
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
  add("--replicas", t.replicas);
  add("--batch-size", t.batch_size);
  add("--learning-rate", t.learning_rate);
  add("--seed", t.seed);
  add("--data", t.data);
  if (!t.device.empty())
    add("--device", t.device);
  return out;
}

int launch_peers(const launch_options& options) {
  const auto workers = options.training.workers;
  const auto cluster = cluster_text(workers);
  struct sigaction action {};
  action.sa_handler = note_signal;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  children all;
  const auto arguments = peer_arguments(options.training);
  for (std::uint32_t i = 0; i < workers; ++i)
    all.add({.job = tr::job_kind::worker, .index = i});
  for (std::uint32_t i = 0; i < workers; ++i) {
    ::setenv("TF_CONFIG", (cluster + std::to_string(i) + "}}").c_str(), 1);
    all.start(all.all()[i], arguments, -1);
  }
  bool passed_on = false;
  while (all.any_lives()) {
    for (const auto* c : all.reap())
      if (!WIFEXITED(*c->status) || WEXITSTATUS(*c->status) != 0)
        std::fprintf(stderr, "troupe: launcher: %s did not end well\n", to_string(c->task).c_str());
    if (told_to_end != 0 && !std::exchange(passed_on, true))
      for (const auto& c : all.all())
        all.signal(c, told_to_end);
    ::usleep(20'000);
  }
  return told_to_end != 0 ? 128 + told_to_end : code_of(all);
}

} // namespace tool
