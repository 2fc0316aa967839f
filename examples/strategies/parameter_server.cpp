// An embedding table on parameter servers. Each worker iterates its own dataset, looks up the rows
// of a batch and pushes a gradient for those rows only; a second cluster, with another number of
// servers, restores the checkpoint.
#include <troupe/troupe.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>

#include <unistd.h>

namespace tr = troupe;

constexpr std::int64_t rows = 100;
constexpr std::int64_t width = 4;

/// Moves the rows that a batch of ids names towards 1. Returns the mean squared error before that.
float train_step(tr::worker_context& ctx, tr::dataset_iterator& batches,
                 const tr::variable& table) {
  const auto batch = batches.next();
  const auto& ids = batch[0];                          // i64 [20]
  const auto found = tr::embedding_lookup(table, ids); // f32 [20, width]: only these rows travel
  const auto x = found.as<float>();
  tr::tensor upstream{found.type(), found.shape()};
  auto gradient = upstream.mutable_as<float>();
  float loss = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    gradient[i] = x[i] - 1;
    loss += gradient[i] * gradient[i] / static_cast<float>(x.size());
  }
  ctx.apply(table, tr::embedding_lookup_gradient(ids, upstream)); // a sparse_gradient
  return loss;
}
TROUPE_FUNCTION(train_step);

tr::variable make_table(tr::parameter_server_strategy& strategy) {
  return strategy.scope([] {
    return tr::create_variable({.name = "table",
                                .shape = {rows, width},
                                .initial = tr::random_uniform(),
                                .optimizer = tr::adagrad{0.5f}});
  });
}

/// The table after training on two workers and two servers, which each hold half the rows.
tr::tensor train(const std::string& directory) {
  tr::runtime rt;
  tr::parameter_server_strategy strategy{rt, {.partitioner = tr::fixed_shards_partitioner{2}}};
  tr::cluster_coordinator coordinator{strategy};
  const auto table = make_table(strategy);
  auto data = coordinator.create_per_worker_dataset(
    [] { return tr::dataset::range(rows).shuffle(rows).repeat().batch(20); });
  auto batches = data.iterator();
  for (int step = 0; step < 200; ++step)
    coordinator.schedule(train_step, batches, table);
  coordinator.join(); // raises the first error of any step
  const auto name = coordinator.save(directory);
  std::printf("saved %s\n", name.c_str());
  return table.read();
}

/// The same table in a new cluster of three servers.
tr::tensor restore(const std::string& directory) {
  tr::runtime_options options;
  options.servers = 3;
  tr::runtime rt{options};
  tr::parameter_server_strategy strategy{rt, {.partitioner = tr::fixed_shards_partitioner{3}}};
  tr::cluster_coordinator coordinator{strategy};
  const auto table = make_table(strategy);
  coordinator.restore(directory);
  return table.read();
}

int main() {
  const auto directory = std::filesystem::temp_directory_path()
                         / ("troupe_parameter_server_" + std::to_string(::getpid()));
  const auto trained = train(directory.string());
  const auto restored = restore(directory.string());
  std::filesystem::remove_all(directory);
  float off = 0;
  for (const float x : trained.as<float>())
    off = std::max(off, x < 1 ? 1 - x : x - 1);
  std::printf("largest error %g\n", off);
  return off < 0.01f && restored == trained ? 0 : 1;
}
