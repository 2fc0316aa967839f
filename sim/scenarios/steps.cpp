// Scenarios whose steps misbehave, and programs that make much of the queue.
#include <troupe/sim/scenarios/program.hpp>
#include <troupe/sim/scenarios/table.hpp>

namespace troupe::sim {

namespace {

using enum fault_kind;

work_options hostile_work() { return {.batch_max = 40, .closures = {.deadline = 2s}}; }

work_options failing_work() {
  return {.batch_max = 48, .closures = {.deadline = 5s}, .poll = true};
}

// --- inputs

/// One more than what it takes, which another closure gave.
std::int64_t sim_link_step(worker_context& ctx, const variable_list& variables,
                           const audit_order& order, std::int64_t before) {
  audit_update(ctx, variables, order);
  return before + 1;
}
TROUPE_FUNCTION(sim_link_step);

/// The last closures' results, and what they must be.
struct chains {
  std::vector<remote_value<std::int64_t>> ends{};
  std::vector<std::int64_t> values{};
  std::vector<std::int64_t> of_cell{};
};

work_options chain_work(scenario_run& run) {
  auto all = run.share<chains>();
  auto out = storm_work();
  out.vary_priority = true;
  out.vary_worker = true;
  out.put = [all, &run](audited_program& program, const closure_options& with,
                        const audit_order& order) {
    auto draws = run.draws("inputs").at(static_cast<std::uint64_t>(order.cell));
    auto& c = program.coordinator();
    std::int64_t before = order.cell;
    remote_value<std::int64_t> made;
    if (all->ends.empty() || draws.below(4) == 0) {
      made = c.schedule(with, sim_link_step, program.audit_variables(), order, before);
    } else {
      auto i = draws.below(all->ends.size());
      before = all->values[i];
      made = c.schedule(with, sim_link_step, program.audit_variables(), order, all->ends[i]);
    }
    if (all->ends.size() == 16) {
      all->ends.erase(all->ends.begin());
      all->values.erase(all->values.begin());
    }
    all->ends.push_back(made);
    all->values.push_back(before + 1);
    all->of_cell.resize(static_cast<std::size_t>(order.cell) + 1);
    all->of_cell.back() = before + 1;
    return made;
  };
  out.result_of = [all](std::int64_t cell) {
    return all->of_cell.at(static_cast<std::size_t>(cell));
  };
  return out;
}

void build_chains(scenario_run& run) { build_audit(run, chain_work(run)); }

// --- threads

void build_threads(scenario_run& run) {
  run.cluster().settings().threads_per_worker =
    1 + static_cast<std::uint32_t>(run.draws("lanes").below(3));
  build_audit(run, storm_work());
}

void build_tight_queue(scenario_run& run) {
  run.cluster().settings().queue_len_max = 4;
  run.cluster().settings().max_failed_attempts = 2;
  build_audit(run, failing_work());
}

} // namespace

const scenario hostile_steps{.name = "hostile_steps",
                             .text = "steps that hang, kill their worker or are slow",
                             .shape_min = small_cluster,
                             .shape_max = large_cluster,
                             .faults = {.rates = {{worker_crash, 300, 3}, {delay, 300, 2}},
                                        .steps = {.hangs = 25, .kills = 60, .slows = 60}},
                             .build = build_audit_with<hostile_work>};

const scenario failing_steps{
  .name = "failing_steps",
  .text = "steps that throw, and workers that die meanwhile",
  .shape_min = small_cluster,
  .shape_max = large_cluster,
  .faults =
    {.rates = {{worker_crash, 700, 6}, {partition, 400, 3}, {pause, 400, 3}, {reset, 400, 4}},
     .steps = {.throws = 40, .hangs = 4, .kills = 20, .slows = 20}},
  .build = build_audit_with<failing_work>};

const scenario tight_queue{
  .name = "tight_queue",
  .text = "a queue of four, failed attempts that poison, steps that throw",
  .shape_min = small_cluster,
  .shape_max = large_cluster,
  .faults = {.rates = {{worker_crash, 800, 8}, {crash_loop, 500, 2}, {mark_crash, 400, 3}},
             .steps = {.throws = 20, .kills = 60}},
  .build = build_tight_queue};

const scenario inputs_and_priorities{
  .name = "inputs_and_priorities",
  .text =
    "closures that take others' results, with priorities "
    "and workers of their choice",
  .shape_min = small_cluster,
  .shape_max = large_cluster,
  .faults = {.rates = {{worker_crash, 800, 8}, {pause, 300, 3}, {partition, 300, 3}},
             .steps = {.throws = 6, .kills = 20, .slows = 20}},
  .build = build_chains};

const scenario many_lanes{
  .name = "many_lanes",
  .text = "workers with several compute threads",
  .shape_min = small_cluster,
  .shape_max = large_cluster,
  .faults = {.rates = {{worker_crash, 700, 6}, {reset, 500, 6}, {pause, 300, 3}, {isolate, 300, 2}},
             .steps = {.hangs = 4, .kills = 20, .slows = 40}},
  .build = build_threads};

} // namespace troupe::sim
