// Synchronous strategies: of one process, whose replicas throw, hang and go astray and which
// crashes and comes back, and of several that are peer workers, any of which may be lost.
#include <troupe/sim/scenarios/program.hpp>
#include <troupe/sim/scenarios/replica_program.hpp>
#include <troupe/sim/scenarios/table.hpp>

#include <troupe/strategies/synchronous/mirrored_strategy.hpp>
#include <troupe/strategies/synchronous/multi_worker_mirrored_strategy.hpp>
#include <troupe/strategies/synchronous/tpu_strategy.hpp>

namespace troupe::sim {

namespace {

using enum fault_kind;

constexpr duration call_max = 1s;

std::vector<std::string> cpus(std::uint32_t n) {
  std::vector<std::string> out;
  for (std::uint32_t i = 0; i < n; ++i)
    out.push_back("cpu:" + std::to_string(i));
  return out;
}

/// A peer worker; those that are alone need nobody.
runtime_options options_of(process& p, std::uint32_t workers, std::uint32_t worker) {
  auto out = p.options();
  out.task.reset();
  out.peer = worker;
  out.peers.clear();
  for (std::uint32_t i = 0; i < workers; ++i)
    out.peers.push_back((workers == 1 ? to_string(p.name()) : to_string(sim::worker{i})) + ":4300");
  out.token = "simulated";
  out.cpu_devices = 4;
  return out;
}

/// Some strategy of one process; all of them in some seeds.
made_strategy make_one(runtime& rt, draw_stream draws) {
  const auto replicas = cpus(1 + static_cast<std::uint32_t>(draws.below(4)));
  constexpr std::uint64_t graces[] = {100, 800, 10'000};
  const replica_options how{.collective_timeout = call_max, .grace_ms = graces[draws.below(3)]};
  switch (draws.below(6)) {
    case 0: return {.is = one_device_strategy{rt, "cpu:1", how}};
    case 1: return {.is = central_storage_strategy{rt, replicas, "cpu:3", how}};
    case 2: return {.is = tpu_strategy{rt, tpu_options{.replicas = how, .devices = replicas}}};
    default: return {.is = mirrored_strategy{rt, replicas, how}};
  }
}

void build_one_process(scenario_run& run) {
  auto shared = run.share<replica_world>();
  shared->target = run.shape().closures;
  run.cluster().coordinator([&run, shared](process& p) {
    run_program(run, p, [&] {
      runtime rt{options_of(p, 1, 0), p.host()};
      replica_program{
        run,
        p,
        *shared,
        {.call_max = call_max, .make = [&] { return make_one(rt, run.draws("kind")); }}}
        .run_all();
    });
  });
}

made_strategy make_worker(runtime& rt, draw_stream draws) {
  auto s = std::make_shared<multi_worker_mirrored_strategy>(
    rt, multi_worker_options{.devices = cpus(1 + static_cast<std::uint32_t>(draws.below(2))),
                             .collective_timeout = call_max,
                             .start_timeout = 4s,
                             .grace_ms = 800});
  return {.is = *s,
          .exchange = [s](const std::string& mine) { return s->exchange(mine); },
          .barrier = [s] { s->barrier(); }};
}

/// Somebody starts workers again, again and again.
void plan_restarts(scenario_run& run) {
  const auto until = run.which().faults.safety_max + 10s;
  for (auto at = 500ms; at < until; at += 500ms)
    for (std::uint32_t i = 0; i < run.shape().workers; ++i)
      run.cluster().at(at).restart(worker{i});
}

void build_workers(scenario_run& run) {
  auto shared = run.share<replica_world>();
  shared->target = run.shape().closures;
  const auto n = run.shape().workers;
  run.cluster().coordinator([&run, shared, n](process& p) {
    run.phase(p, "workers");
    while (shared->gone.size() < n)
      p.env().threads.spend(50ms);
  });
  run.cluster().workers(n, [&run, shared, n](process& p) {
    const auto me = p.name().task.index;
    if (shared->finished) { // started again, behind the others
      shared->gone.insert(me);
      return;
    }
    runtime rt{options_of(p, n, me), p.host()};
    replica_program{run,
                    p,
                    *shared,
                    {.worker = me,
                     .workers = n,
                     .call_max = call_max,
                     .make = [&] { return make_worker(rt, run.draws("kind")); }}}
      .run_all();
  });
  if (!run.which().fault_free)
    plan_restarts(run);
}

} // namespace

const scenario replicas{
  .name = "replicas",
  .text = "strategies of one process, whose replicas misbehave and which crashes and restores",
  .shape_min = {.workers = 0, .servers = 0, .closures = 100},
  .shape_max = {.workers = 0, .servers = 0, .closures = 300},
  .faults = {.rates = {{chief_crash, 600, 4},
                       {mark_crash, 400, 4},
                       {slow, 200, 1},
                       {clock_drift, 200, 1},
                       {torn_write, 200, 2},
                       {io_error, 200, 2},
                       {no_space, 200, 2},
                       {bit_flip, 100, 1},
                       {slow_io, 200, 2}},
             .steps = {.throws = 40, .hangs = 20, .slows = 40},
             .liveness = false,
             .chief_may_crash = true},
  .build = build_one_process};

const scenario replicas_calm{.name = "replicas_calm",
                             .text = "strategies of one process without faults",
                             .fault_free = true,
                             .shape_min = {.workers = 0, .servers = 0, .closures = 100},
                             .shape_max = {.workers = 0, .servers = 0, .closures = 300},
                             .build = build_one_process};

const scenario equal_workers{
  .name = "equal_workers",
  .text = "replicas of several processes that are lost, cut off and started again",
  .shape_min = {.workers = 2, .servers = 0, .closures = 40},
  .shape_max = {.workers = 4, .servers = 0, .closures = 100},
  .faults = {.rates = {{worker_crash, 700, 4},
                       {crash_loop, 150, 1},
                       {pause, 300, 2},
                       {slow, 200, 1},
                       {partition, 300, 2},
                       {partition_one_way, 200, 2},
                       {isolate, 200, 1},
                       {reset, 500, 4},
                       {stall, 300, 3},
                       {delay, 300, 2},
                       {clock_drift, 200, 1}},
             .steps = {.throws = 10, .hangs = 5, .kills = 5, .slows = 20},
             .liveness = false},
  .build = build_workers};

const scenario equal_workers_calm{.name = "equal_workers_calm",
                                  .text = "replicas of several processes without faults",
                                  .fault_free = true,
                                  .shape_min = {.workers = 2, .servers = 0, .closures = 20},
                                  .shape_max = {.workers = 4, .servers = 0, .closures = 60},
                                  .build = build_workers};

} // namespace troupe::sim
