// The `troupe` command.
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>

#include <unistd.h>

#include "cli.hpp"
#include "fashion_mnist.hpp"
#include "launcher.hpp"
#include "peer_launcher.hpp"
#include "replica_train.hpp"
#include "report.hpp"
#include "screen.hpp"
#include "serve_options.hpp"
#include "stats.hpp"

namespace tool {

namespace {

namespace tr = troupe;

std::atomic<bool> stop{false};
static_assert(std::atomic<bool>::is_always_lock_free, "it is set in a signal handler");

void stop_on_signals() {
  struct sigaction action {};
  action.sa_handler = [](int) { stop = true; };
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

/// The pipe to a launcher; without one everything is dropped. A write of a line is whole: any
/// thread.
class launcher_pipe {
public:
  explicit launcher_pipe(int fd) : fd_{fd} {}
  bool open() const { return fd_ >= 0; }
  void write(const std::string& text) const {
    std::size_t done = 0;
    while (open() && done < text.size()) {
      const auto n = ::write(fd_, text.data() + done, text.size() - done);
      if (n < 0 && errno != EINTR)
        tr::throw_failure(
          tr::errc::io_failed,
          std::string{"cannot write the report to the launcher: "} + std::strerror(errno));
      done += n > 0 ? static_cast<std::size_t>(n) : 0;
    }
  }

private:
  int fd_;
};

/// One of several processes that run the same program, and not the one that tells.
class silent_listener final : public training_listener {
public:
  void progress(std::uint64_t, double, double) override {}
  void trained() override {}
  void say(const std::string&) override {}
};

class console_listener final : public training_listener {
public:
  console_listener(std::uint32_t batch_size, const launcher_pipe& pipe)
    : screen_{batch_size}, pipe_{pipe} {}
  void progress(std::uint64_t steps, double fraction, double loss) override {
    screen_.progress(steps, fraction, loss);
  }
  void trained() override { pipe_.write("trained\n"); }
  void say(const std::string& line) override { screen_.say(line); }
  void close() { screen_.close(); }

private:
  screen screen_;
  const launcher_pipe& pipe_;
};

void print(const std::vector<std::string>& lines) {
  for (const auto& line : lines)
    std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

/// "worker:0": one of peer workers, by its place among them.
std::string worker_name(const tr::runtime_options& options) {
  return "worker:" + std::to_string(options.peer);
}

/// What a signal stops ends in order, also for the other processes; what fails ends them with its
/// code.
training_report train_in(tr::runtime& rt, const training_options& training,
                         console_listener& listener) {
  try {
    return training.strategy == "parameter_server"
             ? train_fashion_mnist(rt, training, listener, stop)
             : train_on_replicas(rt, training, listener, stop);
  } catch (const tr::error& why) {
    if (stop)
      rt.shutdown();
    else if (why.code() == tr::errc::superseded)
      rt.step_down(); // the others are the newer coordinator's
    else
      rt.fail(why.details());
    throw;
  }
}

/// Runs the program in this process, which is the coordinator or everything.
int run_program(tr::runtime_options options, const training_options& training, int report_fd) {
  stop_on_signals();
  stats_tracer stats;
  tracer_pair both{options.trace, &stats};
  if (training.stats)
    options.trace = &both;
  const std::string task = options.peers.empty() ? "chief" : worker_name(options);
  const launcher_pipe pipe{report_fd};
  if (options.task) {
    options.on_listening = [&](const std::string& address) {
      if (pipe.open())
        pipe.write("address " + address + "\n");
      else
        std::printf("listening on %s\n", address.c_str());
      std::fflush(stdout);
    };
    options.on_member = [&](const tr::task_id& task, std::uint32_t incarnation, bool joined) {
      if (joined && task.job == tr::job_kind::worker)
        pipe.write("incarnation " + std::to_string(task.index) + " " + std::to_string(incarnation)
                   + "\n");
    };
  }
  console_listener listener{training.batch_size, pipe};
  training_report report;
  try {
    tr::runtime rt{std::move(options)};
    report = train_in(rt, training, listener);
    rt.shutdown();
  } catch (const tr::error&) {
    listener.close();
    throw;
  }
  listener.close();
  print({time_line(report, training.batch_size)});
  if (training.stats) {
    print(stats.lines(task));
    print(server_lines(report.statistics));
  }
  if (pipe.open()) { // the launcher prints it and judges
    pipe.write(encode_report(report) + "end\n");
    return 0;
  }
  print(final_lines(report, std::nullopt));
  return report.lost == 0 && report.doubled == 0 && report.differing == 0 ? 0 : 1;
}

/// CPU devices that the replicas of one process need.
std::uint32_t cpu_devices_for(const training_options& training) {
  if (training.device.empty())
    return training.replicas;
  const auto id = tr::parse_device(training.device).value_or_throw();
  return id.kind == tr::device_kind::cpu ? id.index + 1 : 1;
}

/// A worker of `multi_worker_mirrored`: as TF_CONFIG says, or the only one.
int run_peer(const training_options& training) {
  auto options = tr::runtime::synchronous_options_from_args(0, nullptr);
  options.cpu_devices = cpu_devices_for(training);
  if (options.peer == 0)
    return run_program(options, training, -1);
  stop_on_signals();
  stats_tracer stats;
  if (training.stats)
    options.trace = &stats;
  const auto task = worker_name(options);
  const int code = [&] {
    silent_listener listener;
    tr::runtime rt{std::move(options)};
    return train_on_replicas(rt, training, listener, stop).differing == 0 ? 0 : 1;
  }();
  if (training.stats)
    print(stats.lines(task));
  return code;
}

/// A cluster that TF_CONFIG describes and that this command would pass by.
void refuse_unused_cluster(const std::string& strategy) {
  const char* text = std::getenv("TF_CONFIG");
  if (!text)
    return;
  const auto config = tr::parse_cluster_config(text, "TF_CONFIG").value_or_throw();
  if (config.cluster || config.task.type || config.task.id)
    tr::throw_failure(tr::errc::bad_config,
                      "TF_CONFIG describes a cluster, but `troupe train --strategy "
                        + strategy
                        + "` trains in this process only: run `troupe serve` in each process (or "
                          "--strategy multi_worker_mirrored), or unset TF_CONFIG");
}

int run(const train_command& train) {
  set_data_options(train.launch.training);
  const bool peers = train.launch.training.strategy == "multi_worker_mirrored";
  if (train.processes)
    return peers ? launch_peers(train.launch) : launch(train.launch);
  if (peers)
    return run_peer(train.launch.training);
  refuse_unused_cluster(train.launch.training.strategy);
  tr::runtime_options options;
  options.workers = train.launch.training.workers;
  options.servers = train.launch.training.servers;
  options.effect_once = train.launch.training.effect_once;
  if (!train.launch.training.device.empty())
    options.devices = {train.launch.training.device};
  if (train.launch.training.strategy != "parameter_server") {
    options.workers = options.servers = 1; // they have nothing to do
    options.cpu_devices = cpu_devices_for(train.launch.training);
  }
  return run_program(options, train.launch.training, -1);
}

int run(const serve_command& serve) {
  set_data_options(serve.training);
  auto options = serve_options(serve);
  std::unique_ptr<tr::tracer> tracer;
  if (serve.kill_at_mark)
    tracer = tr::make_kill_at_mark_tracer(serve.kill_at_mark->mark, serve.kill_at_mark->nth);
  else if (serve.stop_at_mark)
    tracer = tr::make_stop_at_mark_tracer(serve.stop_at_mark->mark, serve.stop_at_mark->nth);
  options.trace = tracer.get();
  options.handle_signals = true;
  options.effect_once = serve.training.effect_once;
  if (options.task->job == tr::job_kind::chief)
    return run_program(options, serve.training, serve.report_fd);
  stats_tracer stats;
  tracer_pair both{options.trace, &stats};
  if (serve.training.stats)
    options.trace = &both;
  const auto task = to_string(*options.task);
  const int code = [&] {
    tr::runtime rt{std::move(options)};
    return rt.serve();
  }();
  if (serve.training.stats)
    print(stats.lines(task));
  return code;
}

int run(const export_command& wanted) {
  const auto ports = tr::make_production_ports();
  print({run_export(ports->storage(), wanted)});
  return 0;
}

int run(const print_command& wanted) {
  std::fputs(wanted.text.c_str(), stdout);
  return 0;
}

int run(const usage_error& usage) {
  std::fprintf(stderr, "troupe: %s (see: troupe help)\n", usage.text.c_str());
  return static_cast<int>(tr::exit_code::usage);
}

} // namespace

} // namespace tool

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);   // a limit on file sizes is an error of the write that meets it
  constexpr int interrupted = 130; // as a shell says it of SIGINT
  const int code = troupe::run_main([&] {
    const auto command = tool::parse_command({argv + std::min(argc, 1), argv + argc});
    return std::visit([](const auto& x) { return tool::run(x); }, command);
  });
  return tool::stop && code != 0 ? interrupted : code;
}
