#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <troupe/troupe.hpp>

#include "../support/addresses.hpp"
#include "../support/processes.hpp"
#include "../support/scratch_folder.hpp"

// Goal: a signal to any worker at any time makes all of them save the same call and leave with the
// agreed code; started again they go on from there, and no update is lost or applied twice. Method:
// four processes over loopback, SIGTERM to a random one.
namespace {

using namespace troupe;
using namespace troupe::testing;
using namespace std::chrono_literals;

constexpr std::uint32_t workers = 4;
constexpr std::int64_t epochs = 2;
constexpr std::int64_t steps = 15;
constexpr std::int64_t total = epochs * steps;

struct page {
  std::atomic<std::int64_t> calls[workers]{};
  std::atomic<bool> ready[workers]{};
  std::atomic<std::int64_t> started_from[workers]{};
  std::atomic<std::int64_t> value[workers]{};
};

int run_worker(page& shared, const std::vector<std::string>& peers, std::uint32_t self,
               const std::string& directory, duration grace) {
  runtime_options options;
  options.peers = peers;
  options.peer = self;
  runtime rt{std::move(options)};
  multi_worker_mirrored_strategy s{rt, {.collective_timeout = 10s, .start_timeout = 20s}};
  auto v = s.scope([&] {
    return make_variable({.name = "v",
                          .initial = tensor::scalar<std::int64_t>(0),
                          .aggregation = variable_aggregation::sum});
  });
  sync_checkpoint checkpoint{s, directory};
  checkpoint.add(v);
  preemption_checkpoint guard{checkpoint,
                              {.termination = {.grace = grace}, .handle_sigterm = true}};
  shared.started_from[self] = static_cast<std::int64_t>(guard.total_run_calls());
  shared.ready[self] = true;
  while (guard.total_run_calls() < static_cast<std::uint64_t>(total)) {
    guard.run([&] {
      s.run([&] { v.assign_add(tensor::scalar<std::int64_t>(1)); });
      ::poll(nullptr, 0, 3); // or all would be over before anybody is told
    });
    shared.calls[self] = static_cast<std::int64_t>(guard.total_run_calls());
  }
  shared.value[self] = v.item<std::int64_t>();
  s.barrier();
  return 0;
}

class program {
public:
  explicit program(duration grace) : grace_{grace}, peers_{free_addresses(workers)} {}

  void start() {
    processes_.clear();
    for (auto& each : shared->ready)
      each = false;
    for (std::uint32_t i = 0; i < workers; ++i)
      processes_.push_back(std::make_unique<child_process>(
        [&, i] { return run_worker(*shared, peers_, i, directory_, grace_); }));
    REQUIRE(eventually(
      [&] {
        for (const auto& each : shared->ready)
          if (!each)
            return false;
        return true;
      },
      20s));
  }
  /// A notice to one of them, once it has made so many calls.
  void notify(std::uint32_t worker, std::int64_t at_call) {
    REQUIRE(eventually([&] { return shared->calls[worker] >= at_call; }, 20s));
    processes_[worker]->signal(SIGTERM);
  }
  void expect_exit(int code) {
    for (std::uint32_t i = 0; i < workers; ++i) {
      CAPTURE(i);
      REQUIRE(processes_[i]->wait_ended(20s));
      CHECK(processes_[i]->code() == code);
    }
  }
  std::size_t checkpoints() const {
    std::size_t out = 0;
    for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator{directory_})
      ++out;
    return out;
  }

  shared_memory<page> shared{};

private:
  const duration grace_;
  const std::vector<std::string> peers_;
  scratch_folder folder_{};
  const std::string directory_ = folder_ / "checkpoints";
  std::vector<std::unique_ptr<child_process>> processes_{};
};

} // namespace

TEST_CASE("SYNC-PRE-12 SYNC-P1 four workers, SIGTERM to a random one, restarted: v = n * total") {
  std::uint64_t random = 3;
  for (int round = 0; round < 3; ++round) {
    CAPTURE(round);
    program all{{}};
    std::int64_t from = 0;
    for (const std::int64_t half : {0, 1}) {
      all.start();
      const auto at = half * 12 + static_cast<std::int64_t>(next_random(random) % 12);
      all.notify(static_cast<std::uint32_t>(next_random(random) % workers), std::max(at, from));
      all.expect_exit(42);
      CHECK(all.checkpoints() == static_cast<std::size_t>(half + 1));
      from = all.shared->calls[0];
      for (const auto& calls : all.shared->calls)
        CHECK(calls == from);
    }
    all.start();
    all.expect_exit(0);
    for (std::uint32_t i = 0; i < workers; ++i) {
      CHECK(all.shared->started_from[i] == from);
      CHECK(all.shared->value[i] == workers * total);
    }
  }
}

TEST_CASE("SYNC-PRE-8 SYNC-P2 with a grace period two checkpoints, then the same end") {
  program all{80ms};
  all.start();
  all.notify(2, 3);
  all.expect_exit(42);
  CHECK(all.checkpoints() == 2);
  const auto left_at = all.shared->calls[0].load();
  CHECK(left_at > 4);
  all.start();
  all.expect_exit(0);
  for (std::uint32_t i = 0; i < workers; ++i) {
    CHECK(all.shared->started_from[i] == left_at);
    CHECK(all.shared->value[i] == workers * total);
  }
}
