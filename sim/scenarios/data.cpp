// Scenarios whose steps use more of the library: datasets, tables, large values, variables that
// steps make.
#include <troupe/sim/scenarios/program.hpp>
#include <troupe/sim/scenarios/table.hpp>

namespace troupe::sim {

namespace {

using enum fault_kind;

fault_profile stormy() {
  return {.rates = {{worker_crash, 700, 6},
                    {crash_loop, 200, 1},
                    {mark_crash, 400, 4},
                    {pause, 300, 3},
                    {partition, 300, 3},
                    {reset, 500, 5},
                    {delay, 300, 3}},
          .steps = {.throws = 5, .kills = 20, .slows = 20}};
}

// --- datasets

/// Elements come in order from the executing worker's own iterator, from its beginning.
std::int64_t sim_batch_step(worker_context& ctx, const variable_list& variables,
                            const audit_order& order, dataset_iterator& batches,
                            per_worker_value<std::int64_t>& seen) {
  audit_update(ctx, variables, order);
  auto before = batches.delivered();
  auto batch = batches.next();
  auto values = batch.only().as<std::int64_t>();
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] != (static_cast<std::int64_t>(before * 4 + i)) % 64)
      broke_rule(ctx, "dataset",
                 "element " + std::to_string(i) + " of batch " + std::to_string(before) + " is "
                   + std::to_string(values[i]));
  if (++seen.value <= 0)
    broke_rule(ctx, "dataset", "a worker's own value was lost");
  return order.cell;
}
TROUPE_FUNCTION(sim_batch_step);

struct worker_data {
  per_worker_dataset data;
  per_worker<dataset_iterator> iterator;
  per_worker<per_worker_value<std::int64_t>> seen;
};

void build_datasets(scenario_run& run) {
  make_cluster(run, [&run](process& p) {
    run_program(run, p, [&] {
      audited_program all{run, p};
      auto& c = all.coordinator();
      auto data = c.create_per_worker_dataset([] { return dataset::range(64).repeat().batch(4); });
      worker_data on{data, data.iterator(),
                     c.create_per_worker_value([] { return std::int64_t{0}; })};
      auto options = storm_work();
      options.put = [&](audited_program& program, const closure_options& with,
                        const audit_order& order) {
        return program.coordinator().schedule(with, sim_batch_step, program.audit_variables(),
                                              order, on.iterator, on.seen);
      };
      options.between = [&](std::int64_t finished) {
        if (finished % 3 == 0) // another one, while closures of the last batch may be run again
          on.iterator = on.data.iterator();
      };
      all.work(options);
      all.check();
    });
  });
}

// --- a table with gradients

/// Rows of a table, each of which has one value in all its columns: a gather is atomic by row.
std::int64_t sim_table_step(worker_context& ctx, const variable_list& variables,
                            const audit_order& order, const variable& table,
                            const variable& dense) {
  auto rows = table.shape()[0];
  auto ids = tensor::vector<std::int64_t>({order.cell % rows, (order.cell * 7 + 3) % rows});
  auto got = embedding_lookup(table, ids);
  auto values = got.as<float>();
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] != values[i - i % 8])
      broke_rule(ctx, "table", "a row was read in the middle of a change");
  auto shards = ctx.read(dense);
  for (const auto& block : shards.blocks)
    for (auto x : block.values.as<float>())
      if (x != block.values.as<float>()[0])
        broke_rule(ctx, "table", "a shard was read in the middle of a change");
  audit_update(ctx, variables, order);
  tensor up{dtype::f32, {1, 8}};
  for (auto& x : up.mutable_as<float>())
    x = -1.0f;
  ctx.apply(table,
            embedding_lookup_gradient(tensor::vector<std::int64_t>({order.cell % rows}), up));
  tensor gradient{dtype::f32, dense.shape()};
  for (auto& x : gradient.mutable_as<float>())
    x = -1.0f;
  ctx.apply(dense, gradient);
  return order.cell;
}
TROUPE_FUNCTION(sim_table_step);

/// Between the closures that finished and those that were ever begun.
void expect_sum(audited_program& all, const variable& of, double each, const char* what) {
  double sum = 0;
  auto value = all.read(of);
  for (auto x : value.as<float>())
    sum += x;
  auto low = static_cast<double>(all.board().finished_count()) * each;
  auto high = static_cast<double>(all.board().taken_count()) * each;
  all.run().expect(sum >= low && sum <= high, "INV-X1",
                   std::string{what} + " sums to " + std::to_string(sum) + ", expected "
                     + std::to_string(low) + " to " + std::to_string(high));
}

void build_tables(scenario_run& run) {
  make_cluster(run, [&run](process& p) {
    run_program(run, p, [&] {
      audited_program all{run, p};
      auto table =
        all.strategy().create_variable({.name = "table", .shape = {40, 8}, .optimizer = sgd{1.0f}});
      auto dense = all.strategy().create_variable(
        {.name = "dense", .shape = {30, 50}, .optimizer = sgd{1.0f}});
      auto options = storm_work();
      options.put = [&](audited_program& program, const closure_options& with,
                        const audit_order& order) {
        return program.coordinator().schedule(with, sim_table_step, program.audit_variables(),
                                              order, table, dense);
      };
      all.work(options);
      all.check();
      expect_sum(all, table, 8, "the table");
      expect_sum(all, dense, 30 * 50, "the dense variable");
    });
  });
}

// --- large arguments and results

tensor sim_large_step(worker_context& ctx, const tensor& x, std::int64_t us) {
  ctx.compute(std::chrono::microseconds{us});
  auto out = x.clone();
  for (auto& v : out.mutable_as<float>())
    v += 1.0f;
  return out;
}
TROUPE_FUNCTION(sim_large_step);

std::int64_t sim_sum_step(worker_context& ctx, const variable_list& variables,
                          const audit_order& order, const tensor& x) {
  audit_update(ctx, variables, order);
  double sum = 0;
  for (auto v : x.as<float>())
    sum += v;
  return static_cast<std::int64_t>(sum);
}
TROUPE_FUNCTION(sim_sum_step);

constexpr std::int64_t large_floats = 6'000; // past what travels in a message

void build_large_values(scenario_run& run) {
  auto options = storm_work();
  options.put = [](audited_program& program, const closure_options& with,
                   const audit_order& order) {
    auto ones = tensor::zeros(dtype::f32, {large_floats});
    for (auto& v : ones.mutable_as<float>())
      v = static_cast<float>(order.cell % 8);
    auto more = program.coordinator().schedule(with, sim_large_step, ones, order.compute_us / 2);
    return program.coordinator().schedule(with, sim_sum_step, program.audit_variables(), order,
                                          more);
  };
  options.result_of = [](std::int64_t cell) { return large_floats * (cell % 8 + 1); };
  build_audit(run, options);
}

// --- variables that steps make

constexpr std::int64_t made_names = 12;

std::int64_t sim_creating_step(worker_context& ctx, const variable_list& variables,
                               const audit_order& order) {
  auto made = ctx.get_or_create({.name = "made_" + std::to_string(order.cell % made_names),
                                 .shape = {6, 2},
                                 .type = dtype::i64});
  audit_update(ctx, variables, order);
  tensor ones{dtype::i64, {6, 2}};
  for (auto& x : ones.mutable_as<std::int64_t>())
    x = 1;
  made.assign_add(ones);
  return order.cell;
}
TROUPE_FUNCTION(sim_creating_step);

tensor sim_reading_step(worker_context& ctx, std::int64_t i) {
  return ctx
    .get_or_create({.name = "made_" + std::to_string(i), .shape = {6, 2}, .type = dtype::i64})
    .read();
}
TROUPE_FUNCTION(sim_reading_step);

/// Each element of each variable counts its closures.
void check_made(audited_program& all) {
  for (std::int64_t i = 0; i < made_names; ++i) {
    tensor value;
    for (int tries = 0; tries < 20 && !value.defined(); ++tries) {
      auto asked = all.coordinator().schedule({.retries = 1'000}, sim_reading_step, i);
      if (all.join())
        value = asked.fetch();
    }
    if (!value.defined())
      continue;
    std::int64_t low = 0, high = 0;
    all.board().count_every(made_names, i, low, high);
    for (auto x : value.as<std::int64_t>())
      all.run().expect(x >= low && x <= high, "INV-X1",
                       "made_" + std::to_string(i) + " has " + std::to_string(x) + ", expected "
                         + std::to_string(low) + " to " + std::to_string(high));
  }
}

void build_creations(scenario_run& run) {
  make_cluster(run, [&run](process& p) {
    run_program(run, p, [&] {
      audited_program all{run, p};
      auto options = storm_work();
      options.put = [](audited_program& program, const closure_options& with,
                       const audit_order& order) {
        return program.coordinator().schedule(with, sim_creating_step, program.audit_variables(),
                                              order);
      };
      all.work(options);
      all.check();
      check_made(all);
    });
  });
}

constexpr cluster_shape fewer{.workers = 2, .servers = 1, .closures = 80};
constexpr cluster_shape more{.workers = 4, .servers = 3, .closures = 160};

} // namespace

const scenario datasets{.name = "datasets",
                        .text = "each worker's own dataset, rebuilt wherever a worker comes back",
                        .shape_min = small_cluster,
                        .shape_max = large_cluster,
                        .faults = stormy(),
                        .build = build_datasets};

const scenario tables{.name = "tables",
                      .text = "look-ups and gradients of a sharded table and a dense variable",
                      .shape_min = fewer,
                      .shape_max = more,
                      .faults = stormy(),
                      .build = build_tables};

const scenario large_values{.name = "large_values",
                            .text = "arguments and results that travel as blobs, as inputs too",
                            .shape_min = fewer,
                            .shape_max = more,
                            .faults = stormy(),
                            .build = build_large_values};

const scenario creations{.name = "creations",
                         .text = "variables that steps make while workers die",
                         .shape_min = fewer,
                         .shape_max = more,
                         .faults = stormy(),
                         .build = build_creations};

} // namespace troupe::sim
