#pragma once

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include <troupe/troupe.hpp>

#include "../support/processes.hpp"

/// A cluster of real processes for tests: the test program is the coordinator and starts itself
/// again in the other roles.
namespace troupe::testing {

/// Memory that all processes of a test share: who was killed when, and who ran again when.
struct shared_page {
  static constexpr std::size_t closures_max = 1 << 16;
  std::atomic<std::int64_t> killed_ns{0};
  std::atomic<std::uint64_t> running{0}; ///< closure that the victim ran last
  std::atomic<bool> hold{false};         ///< steps that look at it go on once it is false
  std::atomic<std::int64_t> entered{0};  ///< steps that look at `hold` and have begun
  std::atomic<std::int64_t> rerun_ns[closures_max]{};

  /// One mapping for this process and all that it starts.
  static shared_page& get() {
    static shared_page* page = [] {
      const char* fd_text = std::getenv("TROUPE_TEST_PAGE");
      int fd = fd_text ? std::atoi(fd_text) : memfd_create("troupe-test", 0);
      if (!fd_text) {
        if (ftruncate(fd, sizeof(shared_page)) != 0)
          std::abort();
        setenv("TROUPE_TEST_PAGE", std::to_string(fd).c_str(), 1);
      }
      void* at = mmap(nullptr, sizeof(shared_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
      if (at == MAP_FAILED)
        std::abort();
      return fd_text ? static_cast<shared_page*>(at) : new (at) shared_page{};
    }();
    return *page;
  }
};

/// Kills its own process at the n-th hit of a mark, after noting when and what it ran.
class victim_tracer final : public tracer {
public:
  victim_tracer(std::string mark, int nth) : mark_{std::move(mark)}, left_{nth} {}
  void event(std::string_view id, std::span<const trace_field> fields) override {
    if (id != "worker.closure_started")
      return;
    for (const auto& f : fields)
      if (f.key == "closure")
        shared_page::get().running = std::get<std::uint64_t>(f.value);
  }
  void mark(std::string_view id) override {
    if (id != mark_ || --left_ != 0)
      return;
    shared_page::get().killed_ns = now_ns();
    raise(SIGKILL);
  }

private:
  const std::string mark_;
  std::atomic<int> left_;
};

struct role_options {
  std::string role{}; ///< "worker:0", "ps:1"
  std::string coordinator{};
  std::string kill_at{}; ///< mark
  int kill_nth = 0;
  std::map<std::string, std::string> more{}; ///< other variables
};

/// This program again, in another role.
class child : public child_process {
public:
  explicit child(const role_options& options) : child_process{command_of(options)} {}

private:
  static tool::child_command command_of(const role_options& options) {
    auto variables = options.more;
    variables.insert({{"TROUPE_TEST_ROLE", options.role},
                      {"TROUPE_TEST_COORDINATOR", options.coordinator},
                      {"TROUPE_TEST_KILL_AT", options.kill_at},
                      {"TROUPE_TEST_KILL_NTH", std::to_string(options.kill_nth)}});
    return {.program = tool::own_program(),
            .name = "troupe-test-role",
            .environment = std::move(variables)};
  }
};

/// Runs the role that a child was started for; the exit code.
inline int run_role(const char* role) {
  if (const char* path = std::getenv("TROUPE_TEST_STDERR");
      path && !std::freopen(path, "a", stderr))
    return 1;
  shared_page::get();
  runtime_options options;
  std::string text = role;
  auto colon = text.find(':');
  options.task = task_id{.job = text.substr(0, colon) == "ps" ? job_kind::ps : job_kind::worker,
                         .index = static_cast<std::uint32_t>(std::atoi(text.c_str() + colon + 1))};
  options.coordinator_address = std::getenv("TROUPE_TEST_COORDINATOR");
  if (const char* name = std::getenv("TROUPE_TEST_CLUSTER"))
    options.cluster_name = name;
  if (const char* token = std::getenv("TROUPE_TEST_TOKEN"))
    options.token = token;
  options.shared_memory = std::getenv("TROUPE_TEST_TCP") == nullptr;
  if (const char* address = std::getenv("TROUPE_TEST_LISTEN"))
    options.listen_address = address;
  if (const char* ms = std::getenv("TROUPE_TEST_LOST_MS"))
    options.coordinator_lost_ms_max = static_cast<std::uint64_t>(std::atoll(ms));
  std::unique_ptr<tracer> victim;
  if (const char* mark = std::getenv("TROUPE_TEST_KILL_AT"); mark && *mark)
    victim = std::make_unique<victim_tracer>(mark, std::atoi(std::getenv("TROUPE_TEST_KILL_NTH")));
  options.trace = victim.get();
  return run_main([&] { return runtime{std::move(options)}.serve(); });
}

/// The coordinator in this process, servers and workers as children.
class process_cluster {
public:
  process_cluster(std::uint32_t workers, std::uint32_t servers, runtime_options options = {}) {
    shared_page::get();
    options.task = task_id{.job = job_kind::chief, .index = 0};
    options.workers = workers;
    options.servers = servers;
    options.on_listening = [&](const std::string& address) {
      address_ = address;
      for (std::uint32_t i = 0; i < servers; ++i)
        servers_.push_back(start({.role = "ps:" + std::to_string(i)}));
      for (std::uint32_t i = 0; i < workers; ++i)
        workers_.push_back(start({.role = "worker:" + std::to_string(i)}));
    };
    rt_ = std::make_unique<runtime>(std::move(options));
  }
  ~process_cluster() { rt_.reset(); }

  runtime& rt() { return *rt_; }
  child& worker(std::size_t i) { return *workers_.at(i); }
  child& server(std::size_t i) { return *servers_.at(i); }
  std::unique_ptr<child> start(role_options options) {
    options.coordinator = address_;
    return std::make_unique<child>(options);
  }
  void restart_worker(std::size_t i, const std::string& kill_at = {}, int nth = 0) {
    workers_[i].reset();
    workers_[i] =
      start({.role = "worker:" + std::to_string(i), .kill_at = kill_at, .kill_nth = nth});
  }
  /// Ends the cluster; the number of children that ended with 0.
  int end() {
    rt_->shutdown(std::chrono::seconds{20});
    int good = 0;
    for (auto* group : {&workers_, &servers_})
      for (auto& c : *group)
        good += c->wait_ended(patience) && c->code() == 0;
    return good;
  }
  const std::string& address() const { return address_; }

private:
  std::string address_{};
  std::vector<std::unique_ptr<child>> servers_{};
  std::vector<std::unique_ptr<child>> workers_{};
  std::unique_ptr<runtime> rt_{};
};

} // namespace troupe::testing
