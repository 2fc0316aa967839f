#include <troupe/sim/scenarios/program.hpp>

#include <algorithm>

namespace troupe::sim {

namespace {

std::int64_t sim_witness_step(worker_context& ctx, const variable_list& variables,
                              const audit_order& order) {
  audit_update(ctx, variables, order);
  return order.cell;
}
TROUPE_FUNCTION(sim_witness_step);

audit_layout layout_of(scenario_run& run, std::int64_t width_max) {
  auto draws = run.draws("layout");
  audit_layout out;
  out.shards = run.shape().servers + static_cast<std::int64_t>(draws.below(3));
  out.cells = 2 * static_cast<std::int64_t>(run.shape().closures);
  constexpr std::int64_t widths[] = {1, 1, 4, 16, 64};
  out.width = std::min(width_max, widths[draws.below(std::size(widths))]);
  return out;
}

} // namespace

void audit_update(worker_context& ctx, const variable_list& variables, const audit_order& order) {
  const auto& [layout, cell, compute_us, dice] = order;
  auto attempt = static_cast<std::int64_t>(value_of(ctx.attempt()));
  auto place = dice.draw(ctx.closure(), ctx.attempt(), 77) % 3;
  ctx.compute(std::chrono::microseconds{compute_us / 2});
  if (place == 0)
    dice.roll(ctx);
  if (attempt % 2 == 0)
    audit_try(variables[1], layout, cell, ctx.attempt());
  audit_add(variables[0], layout, cell);
  if (place == 1)
    dice.roll(ctx);
  ctx.compute(std::chrono::microseconds{compute_us - compute_us / 2});
  audit_try(variables[1], layout, cell, ctx.attempt());
  if (place == 2)
    dice.roll(ctx);
}

void broke_rule(worker_context& ctx, std::string_view rule, const std::string& text) {
  trace(ctx.host().env(), "program.broke", {{"rule", rule}, {"text", text}});
}

audited_program::audited_program(scenario_run& run, process& p, std::int64_t width_max)
  : run_{run},
    process_{p},
    runtime_{p.options(), p.host()},
    strategy_{runtime_,
              {.partitioner = fixed_shards_partitioner{layout_of(run, width_max).shards}}},
    coordinator_{strategy_},
    board_{layout_of(run, width_max)} {
  run_.phase(p, "create_variable");
  for (const char* name : {"counts", "tries"})
    audit_.push_back(strategy_.create_variable(
      {.name = name, .shape = board_.layout().shape(), .type = dtype::i64}));
}

duration audited_program::each(const work_options& options) const {
  auto lasts = options.lasts;
  const auto& plan = run_.spec().plan;
  auto last_fault = plan.faults.empty() ? duration{} : plan.faults.back().at;
  if (lasts == duration{})
    lasts =
      plan.core.at > duration{} ? plan.core.at * 5 / 4 : std::max<duration>(5s, last_fault * 5 / 4);
  auto target = std::max<std::int64_t>(run_.shape().closures, 1);
  // a run that was shrunk to few closures must not make them longer than their deadline
  return std::min<duration>(lasts * static_cast<std::int64_t>(run_.shape().workers) / target,
                            500ms);
}

closure_options audited_program::options_for(const work_options& options, std::int64_t cell) const {
  auto draws = run_.draws("options").at(static_cast<std::uint64_t>(cell));
  auto out = options.closures;
  if (options.vary_priority)
    out.priority = static_cast<int>(draws.below(7)) - 3;
  if (options.vary_worker && draws.below(4) == 0)
    out.worker = run_.sure_worker(draws.next());
  return out;
}

void audited_program::work(const work_options& options) {
  auto target = options.target > 0 ? options.target : run_.shape().closures;
  auto draws = run_.draws("batches");
  while (board_.finished_count() < target && !board_.is_full()) {
    auto left = target - board_.finished_count();
    auto n =
      1 + static_cast<std::int64_t>(draws.below(static_cast<std::uint64_t>(options.batch_max)));
    batch(std::min(n, left), options);
    if (options.between)
      options.between(board_.finished_count());
  }
}

void audited_program::batch(std::int64_t n, const work_options& options) {
  run_.phase(process_, "schedule");
  auto mean = std::chrono::duration_cast<std::chrono::microseconds>(each(options)).count();
  for (; n > 0 && !board_.is_full(); --n) {
    auto cell = board_.take();
    auto draws = run_.draws("lengths").at(static_cast<std::uint64_t>(cell));
    auto us =
      mean / 5
      + static_cast<std::int64_t>(draws.below(static_cast<std::uint64_t>(mean) * 8 / 5 + 1));
    audit_order order{board_.layout(), cell, us, run_.dice()};
    try {
      auto with = options_for(options, cell);
      open_.push_back({cell, options.put
                               ? options.put(*this, with, order)
                               : coordinator_.schedule(with, sim_witness_step, audit_, order)});
    } catch (const error& why) { // of an earlier closure
      board_.refused(cell);
      note(why);
    }
  }
  if (options.before_join)
    options.before_join();
  if (options.poll)
    poll();
  join();
  collect(options);
}

void audited_program::poll() {
  run_.phase(process_, "done");
  for (int i = 0; i < 20; ++i)
    try {
      if (coordinator_.done())
        return;
      process_.env().threads.spend(20ms);
    } catch (const error& why) {
      note(why);
    }
}

bool audited_program::join() {
  run_.phase(process_, "join");
  try {
    coordinator_.join();
    return true;
  } catch (const error& why) {
    note(why);
    return false;
  }
}

void audited_program::note(const error& why) {
  ++errors_seen_;
  if (run_.which().beyond_guard || (lets_out_ && lets_out_(why)))
    throw error{why.details()};
}

void audited_program::collect(const work_options& options) {
  run_.phase(process_, "fetch");
  for (auto& c : std::exchange(open_, {})) {
    run_.expect(c.result.ready(), "INV-X3",
                "after join cell " + std::to_string(c.cell) + " has not ended");
    try {
      auto got = c.result.fetch();
      auto wanted = options.result_of ? options.result_of(c.cell) : c.cell;
      run_.expect(got == wanted, "INV-X1",
                  "cell " + std::to_string(c.cell) + " got the result " + std::to_string(got)
                    + ", expected " + std::to_string(wanted));
      board_.finished(c.cell);
    } catch (const error&) {
      board_.unfinished(c.cell);
    }
  }
}

tensor audited_program::read(const variable& v) {
  run_.phase(process_, "read");
  for (int tries = 0;; ++tries)
    try {
      return v.read();
    } catch (const error& why) { // the program's own way to a server was cut
      if (tries == 20 || why.retry() == retry_class::no || run_.which().beyond_guard)
        throw;
      ++errors_seen_;
      process_.env().threads.spend(1s);
    }
}

void audited_program::check(std::string_view when) {
  auto counts = read(audit_[0]);
  for (const auto& line : board_.compare(counts, read(audit_[1])))
    run_.expect(false, "INV-X1", std::string{when} + ", " + line);
}

void run_program(scenario_run& run, process& p, const std::function<void()>& body) {
  try {
    run.phase(p, "start");
    body();
    run.phase(p, "shutdown");
  } catch (const error& why) {
    run.ended_with(p, why);
  }
}

void make_cluster(scenario_run& run, program main) {
  auto& w = run.cluster();
  w.settings().coordinator_lost_ms_max = 20'000;
  w.coordinator(std::move(main));
  w.workers(run.shape().workers);
  w.servers(run.shape().servers);
}

void build_audit(scenario_run& run, const work_options& options) {
  make_cluster(run, [&run, options](process& p) {
    run_program(run, p, [&] {
      audited_program all{run, p};
      all.work(options);
      all.check();
    });
  });
}

} // namespace troupe::sim
