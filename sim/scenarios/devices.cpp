// Workers whose steps compute on GPUs that get lost, break and hang: the worker goes with its
// device, its closures run elsewhere, and each has its effect once.
#include <troupe/sim/scenarios/program.hpp>
#include <troupe/sim/scenarios/table.hpp>

#include <troupe/device/fake_backend.hpp>

namespace troupe::sim {

namespace {

using enum fault_kind;

/// Takes its cell's number to the device, doubles it there on two streams, and brings it back.
std::int64_t sim_device_step(worker_context& ctx, const variable_list& variables,
                             const audit_order& order) {
  auto& d = ctx.device();
  auto x = d.put(tensor::vector<std::int64_t>({order.cell, order.cell + 1}));
  const auto& other = d.stream("other");
  d.wait_event(other, d.record_event(d.stream()));
  x.used_on(other);
  auto ops = d.ops_on(other);
  d.check(ops.add(x, x, x));
  ctx.submit(other, {.name = "work", .run = [](const launch_site&) { return device_answer{}; }});
  d.wait_event(d.stream(), d.record_event(other));
  auto got = d.get(x);
  if (got.as<std::int64_t>()[0] != 2 * order.cell
      || got.as<std::int64_t>()[1] != 2 * order.cell + 2)
    broke_rule(ctx, "device-result",
               "a device gave " + to_string(got) + " for cell " + std::to_string(order.cell));
  audit_update(ctx, variables, order);
  return order.cell;
}
TROUPE_FUNCTION(sim_device_step);

/// One fault of one worker's device.
void break_device(fake_backend& gpus, std::uint64_t kind) {
  switch (kind) {
    case 0: return gpus.lose(0);
    case 1:
      return gpus.plant(
        {.function = "execute:work",
         .answer = {.status = device_status::launch_failed, .text = "bad address"}});
    case 2: return gpus.plant({.function = "execute:work", .hang = true});
    case 3: return gpus.plant({.function = "copy", .answer = {.status = device_status::lost}});
    default: return gpus.plant({.function = "query", .answer = {.status = device_status::failed}});
  }
}

/// The faults of a run: every few hundred milliseconds one worker's device, for the time that the
/// program takes; workers that left come back.
void plan_device_faults(scenario_run& run) {
  auto draws = run.draws("device_faults");
  const auto workers = run.shape().workers;
  auto& w = run.cluster();
  auto at = duration{500ms};
  const auto n = 2 + draws.below(6);
  for (std::uint64_t i = 0; i < n; ++i) {
    at += std::chrono::milliseconds{100 + draws.below(900)};
    const auto who = worker{static_cast<std::uint32_t>(draws.below(workers))};
    const auto kind = draws.below(5);
    w.call_at(at, [&w, who, kind] {
      if (auto* gpus = w.gpus(who))
        break_device(*gpus, kind);
    });
  }
  for (auto back = 1s; back < at + 20s; back += 1s)
    for (std::uint32_t i = 0; i < workers; ++i)
      w.at(back).restart(worker{i});
}

void build_devices(scenario_run& run) {
  auto& settings = run.cluster().settings();
  settings.devices = {"gpu:0"};
  settings.device_hang_after = 1s;
  auto work = storm_work();
  work.put = [](audited_program& program, const closure_options& with, const audit_order& order) {
    return program.coordinator().schedule(with, sim_device_step, program.audit_variables(), order);
  };
  build_audit(run, work);
  plan_device_faults(run);
}

} // namespace

const scenario devices{.name = "devices",
                       .text = "steps on GPUs that get lost, break and hang",
                       .shape_min = small_cluster,
                       .shape_max = large_cluster,
                       .faults = {.rates = {{worker_crash, 300, 2}, {delay, 300, 2}}},
                       .build = build_devices};

} // namespace troupe::sim
