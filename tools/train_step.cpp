#include "train_step.hpp"

#include <algorithm>
#include <atomic>

#include "witness.hpp"

namespace tool {

namespace tr = troupe;
namespace k = troupe::kernels;

data_settings& own_data() {
  static data_settings settings;
  return settings;
}

namespace {

void write_witness(tr::worker_context& ctx, const tr::variable_list& witness) {
  const auto servers = static_cast<std::uint32_t>(witness[0].spec().shards.size());
  const auto cells = static_cast<std::uint64_t>(witness[0].shape()[0]) / servers;
  const auto rows = witness_rows(ctx.closure().seq, cells, servers);
  tr::tensor ones{tr::dtype::i64, rows.shape()};
  std::ranges::fill(ones.mutable_as<std::int64_t>(), 1);
  witness[0].scatter_add(rows, ones);
  tr::tensor numbers{tr::dtype::i64, rows.shape()};
  std::ranges::fill(numbers.mutable_as<std::int64_t>(), value_of(ctx.attempt()));
  witness[1].scatter_update(rows, numbers);
}

} // namespace

step_result train_step(tr::worker_context& ctx, tr::dataset_iterator& batches,
                       tr::per_worker_value<step_memory>& memory, const tr::variable_list& weights,
                       const tr::variable_list& witness) {
  const auto begin_ns = ctx.host().env().clock.now().time_since_epoch().count();
  const auto batch = batches.next();
  const auto labels = batch.labels().as<std::int64_t>();
  std::vector<tr::tensor> gradients;
  gradients.reserve(weights.size());
  for (std::size_t i = 0; i < weights.size(); ++i)
    gradients.push_back(memory.value.gradients.at(i).take(weights[i].shape()));
  k::mlp_result got;
  {
    const auto values =
      ctx.read(weights); // given back before the push, so that servers write in place
    const block_weights in{values};
    std::vector<std::span<float>> out;
    for (auto& g : gradients)
      out.push_back(g.mutable_as<float>());
    got = k::mlp_gradients<float, std::int64_t>(in.all(), batch.images().as<float>(), labels,
                                                memory.value.workspace_for(labels.size()), out);
  }
  ctx.apply(weights, gradients);
  write_witness(ctx, witness);
  return {.loss = static_cast<float>(got.loss),
          .correct = static_cast<std::uint32_t>(got.correct),
          .seq = ctx.closure().seq,
          .attempt = value_of(ctx.attempt()),
          .begin_ns = begin_ns};
}
TROUPE_FUNCTION(train_step);

} // namespace tool
