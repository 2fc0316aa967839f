// Kills a worker with SIGKILL at named points of its work, fifty times each, and compares the
// audit on the servers with what the coordinator accepted: every closure that finished counts
// exactly once on every shard.
#include <doctest/doctest.h>

#include <algorithm>
#include <deque>

#include "cluster_processes.hpp"

namespace tr = troupe;
using namespace troupe::testing;

namespace {

constexpr std::int64_t cells = 16'384;
constexpr std::int64_t servers = 2;
constexpr int kills_per_point = 50;

tr::tensor rows_of(std::uint64_t closure) {
  auto cell = static_cast<std::int64_t>(closure) % cells;
  return tr::tensor::vector<std::int64_t>({cell, cells + cell});
}

tr::tensor both(std::int64_t value) {
  return tr::tensor::of<std::int64_t>({servers, 1}, {value, value});
}

/// Reads and updates a weight, adds 1 to its closure's cell on every shard, and does more on its
/// second run: the number of calls on other variables must not shift what counts once.
std::int64_t audit_step(tr::worker_context& ctx, const tr::variable_list& v) {
  auto attempt = static_cast<std::int64_t>(value_of(ctx.attempt()));
  auto closure = ctx.closure().seq;
  if (attempt > 1)
    shared_page::get().rerun_ns[closure % shared_page::closures_max] = now_ns();
  auto weights = ctx.read(v[0]);
  auto gradient = tr::tensor::zeros(tr::dtype::f32, weights.shape);
  std::ranges::fill(gradient.mutable_as<float>(), 1.0f);
  if (attempt % 2 == 0)
    v[3].scatter_add(rows_of(closure), both(1));
  ctx.apply(v[0], gradient);
  v[1].scatter_add(rows_of(closure), both(1));
  v[2].scatter_update(rows_of(closure), both(attempt));
  return attempt;
}
TROUPE_FUNCTION(audit_step);

tr::variable_list make_variables(tr::parameter_server_strategy& strategy) {
  return strategy.scope([] {
    auto table = [](const char* name) {
      return tr::create_variable(
        {.name = name, .shape = {servers * cells, 1}, .type = tr::dtype::i64});
    };
    return tr::variable_list{
      tr::create_variable({.name = "weights", .shape = {64, 8}, .optimizer = tr::sgd{1.0f}}),
      table("cells"), table("attempts"), table("extra")};
  });
}

struct outcome {
  std::int64_t lost = 0;
  std::int64_t doubled = 0;
  std::int64_t bad_attempts = 0;
};

outcome compare(const tr::variable_list& v,
                const std::vector<std::pair<std::uint64_t, std::int64_t>>& accepted) {
  auto counted = v[1].read();
  auto attempts = v[2].read();
  outcome out;
  std::vector<std::int64_t> expected(cells, 0);
  for (auto [closure, attempt] : accepted) {
    auto cell = static_cast<std::int64_t>(closure) % cells;
    ++expected[static_cast<std::size_t>(cell)];
    for (std::int64_t shard = 0; shard < servers; ++shard) {
      auto seen = attempts.as<std::int64_t>()[static_cast<std::size_t>(shard * cells + cell)];
      out.bad_attempts +=
        seen < 1
        || seen > attempt; // the piece of an attempt that ran, none later than the accepted
    }
  }
  for (std::int64_t i = 0; i < servers * cells; ++i) {
    auto is = counted.as<std::int64_t>()[static_cast<std::size_t>(i)];
    auto want = expected[static_cast<std::size_t>(i % cells)];
    out.lost += std::max<std::int64_t>(0, want - is);
    out.doubled += std::max<std::int64_t>(0, is - want);
  }
  return out;
}

void kill_at(const std::string& mark) {
  process_cluster cluster{2, servers};
  tr::parameter_server_strategy strategy{cluster.rt(),
                                         {.partitioner = tr::fixed_shards_partitioner{servers}}};
  tr::cluster_coordinator coordinator{strategy};
  auto v = make_variables(strategy);
  std::deque<tr::remote_value<std::int64_t>> open;
  std::vector<std::pair<std::uint64_t, std::int64_t>> accepted;
  std::vector<double> rerun_ms;
  auto settle = [&](std::size_t keep) {
    for (; open.size() > keep; open.pop_front())
      accepted.emplace_back(open.front().handle().state()->id.seq, open.front().fetch());
  };
  auto& page = shared_page::get();
  int kills = 0;
  cluster.restart_worker(0, mark, 1);
  while (kills < kills_per_point && accepted.size() + open.size() < cells - 64) {
    open.push_back(coordinator.schedule(audit_step, v));
    // The victim is dead: what it ran must run elsewhere, then the next one comes.
    if (!cluster.worker(0).running()) {
      REQUIRE(cluster.worker(0).wait().signal != 0);
      ++kills;
      auto& again = page.rerun_ns[page.running % page.closures_max];
      auto killed = page.killed_ns.load();
      settle(0);
      if (again > killed)
        rerun_ms.push_back(static_cast<double>(again - killed) / 1e6);
      cluster.restart_worker(0, mark, 1 + kills % 5);
    }
    if (open.size() > 32)
      settle(16);
  }
  CHECK(kills == kills_per_point);
  settle(0);
  coordinator.join();
  auto seen = compare(v, accepted);
  CHECK(seen.lost == 0);
  CHECK(seen.doubled == 0);
  CHECK(seen.bad_attempts == 0);
  CHECK(coordinator.errors().empty());
  // sgd with gradient 1 and rate 1: every weight has gone down by one a closure, no more and no
  // less
  CHECK(v[0].read().at<float>(0) == -static_cast<float>(accepted.size()));
  std::sort(rerun_ms.begin(), rerun_ms.end());
  if (!rerun_ms.empty())
    MESSAGE(mark << ": " << kills << " kills, " << accepted.size()
                 << " closures, from SIGKILL to the run elsewhere " << rerun_ms[rerun_ms.size() / 2]
                 << " ms (median of " << rerun_ms.size() << ")");
}

} // namespace

extern "C" int troupe_test_role(const char* role) { return run_role(role); }

TEST_CASE("PS-B13, PS-W2: a worker killed after its pull loses and doubles nothing") {
  kill_at("client.after_read");
}

TEST_CASE("PS-B13: a worker killed after k of n servers took its push loses and doubles nothing") {
  kill_at("client.pushed_k_of_n");
}

TEST_CASE(
  "PS-B13: a worker killed after all pushes and before its result loses and doubles nothing") {
  kill_at("client.all_acked");
}

TEST_CASE("PS-B13: a worker killed while its result travels loses and doubles nothing") {
  kill_at("worker.result_sent");
}
