// Scenarios past what the product promises: a clean, named error within bounded time, or the end.
#include <algorithm>

#include <troupe/sim/scenarios/program.hpp>
#include <troupe/sim/scenarios/table.hpp>

namespace troupe::sim {

namespace {

using enum fault_kind;

/// What has been lost for good.
struct losses final : observer {
  std::uint32_t servers = 0;
  void on_event(const observed& what) override {
    if (what.id == "sim.crash" && what.node.task.job == job_kind::ps)
      ++servers;
  }
};

/// The program lets the first error out, which must be one of these, and there must be one when a
/// server was lost before the last look at all values, or `always`.
void build_until_error(scenario_run& run, std::vector<errc> allowed, bool always = false) {
  run.cluster().settings().no_worker_ms_max = 15'000; // nobody starts a worker again for good
  auto lost = run.share<losses>();
  run.cluster().watch(*lost);
  make_cluster(run, [&run, allowed, always, lost](process& p) {
    run_program(run, p, [&] {
      try {
        audited_program all{run, p};
        auto work = storm_work();
        if (always) // until all are gone
          work.lasts = 10s;
        all.work(work);
        auto before = lost->servers;
        all.check();
        run.expect(!always && before == 0, "named-error", "no error named what was lost");
      } catch (const error& why) {
        run.expect(std::find(allowed.begin(), allowed.end(), why.code()) != allowed.end(),
                   "named-error", why.what());
        throw;
      }
    });
  });
}

void build_server_lost(scenario_run& run) { build_until_error(run, {errc::unavailable}); }

void build_server_silent(scenario_run& run) {
  build_until_error(run, {errc::unavailable, errc::deadline});
}

duration crash_time(scenario_run& run) {
  return std::chrono::milliseconds{300 + run.draws("crash").below(5'000)};
}

/// The coordinator goes and nobody starts it again: the others end by themselves.
void build_coordinator_lost(scenario_run& run) {
  build_audit(run, storm_work());
  auto flags = run.draws("flags").below(2) == 0 ? crash_plain : crash_silent;
  run.cluster().at(crash_time(run)).crash(chief, flags);
}

/// All workers go for good.
void build_workers_lost(scenario_run& run) {
  build_until_error(run, {errc::unavailable}, true);
  for (std::uint32_t i = 0; i < run.shape().workers; ++i)
    run.cluster().at(crash_time(run)).crash(worker{i});
}

/// A server is never there: the start must say so.
void build_server_missing(scenario_run& run) {
  run.cluster().settings().start_timeout = 10s;
  build_until_error(run, {errc::deadline}, true);
  run.cluster().at(0s).crash(server{0});
}

constexpr cluster_shape two{.workers = 2, .servers = 2, .closures = 120};

} // namespace

const scenario server_lost{.name = "server_lost",
                           .text = "a server crashes without a checkpoint: a named error",
                           .beyond_guard = true,
                           .shape_min = two,
                           .shape_max = large_cluster,
                           .faults = {.rates = {{server_crash, 1000, 2}, {worker_crash, 300, 3}},
                                      .liveness = false,
                                      .servers_may_crash = true},
                           .build = build_server_lost};

const scenario server_silent{.name = "server_silent",
                             .text = "servers stop or are cut off for long: a named error",
                             .beyond_guard = true,
                             .shape_min = two,
                             .shape_max = large_cluster,
                             .faults = {.rates = {{pause, 1000, 6},
                                                  {partition, 700, 4},
                                                  {partition_one_way, 700, 4},
                                                  {reset, 500, 3}},
                                        .liveness = false,
                                        .servers_may_be_silent = true,
                                        .chief_may_be_silent = true},
                             .build = build_server_silent};

const scenario coordinator_lost{
  .name = "coordinator_lost",
  .text = "the coordinator is lost for good: the others end",
  .beyond_guard = true,
  .events_expected = 3'000,
  .few_because = "it ends early in many seeds",
  .shape_min = small_cluster,
  .shape_max = large_cluster,
  .faults = {.rates = {{worker_crash, 300, 2}, {pause, 300, 2}}, .liveness = false},
  .finish_within = 60s,
  .build = build_coordinator_lost};

const scenario workers_lost{
  .name = "workers_lost",
  .text = "all workers are lost for good: a named error",
  .beyond_guard = true,
  .shape_min = small_cluster,
  .shape_max = large_cluster,
  .faults = {.rates = {{reset, 500, 4}, {delay, 300, 3}}, .liveness = false},
  .build = build_workers_lost};

const scenario server_missing{.name = "server_missing",
                              .text = "a server never comes: the start says so in time",
                              .beyond_guard = true,
                              .events_expected = 1'000,
                              .few_because = "nothing starts",
                              .shape_min = two,
                              .shape_max = large_cluster,
                              .faults = {.rates = {{pause, 300, 2}}, .liveness = false},
                              .build = build_server_missing};

} // namespace troupe::sim
