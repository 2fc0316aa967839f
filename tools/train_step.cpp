#include "train_step.hpp"

#include <algorithm>
#include <atomic>

#include "update_audit.hpp"

namespace tool {

namespace tr = troupe;
namespace k = troupe::kernels;

data_settings& own_data() {
  static data_settings settings;
  return settings;
}

void device_model::place(tr::device_context& d) {
  if (of == &d)
    return;
  of = &d;
  mlp.emplace(d, std::vector<std::int64_t>(widths.begin(), widths.end()));
  weights = mlp->make_weights();
  gradients = mlp->make_weights();
}

namespace {

void write_audit(tr::worker_context& ctx, const tr::variable_list& audit) {
  const auto servers = static_cast<std::uint32_t>(audit[0].spec().shards.size());
  const auto cells = static_cast<std::uint64_t>(audit[0].shape()[0]) / servers;
  const auto rows = audit_rows(ctx.closure().seq, cells, servers);
  tr::tensor ones{tr::dtype::i64, rows.shape()};
  std::ranges::fill(ones.mutable_as<std::int64_t>(), 1);
  audit[0].scatter_add(rows, ones);
  tr::tensor numbers{tr::dtype::i64, rows.shape()};
  std::ranges::fill(numbers.mutable_as<std::int64_t>(), value_of(ctx.attempt()));
  audit[1].scatter_update(rows, numbers);
}

/// The same as `mlp_gradients`, on the thread's device: each layer's gradients come to the host on
/// a stream of their own while earlier layers compute.
k::mlp_result gradients_on_device(tr::worker_context& ctx, device_model& model,
                                  const std::vector<tr::variable_value>& values,
                                  const tr::tensor& images, const tr::tensor& labels,
                                  std::vector<tr::tensor>& gradients) {
  auto& d = ctx.device();
  model.place(d);
  for (std::size_t i = 0; i < values.size(); ++i)
    for (const auto& block : values[i].blocks)
      model.mlp->put_rows(model.weights, i, block.row_begin, block.values);
  const auto& copies = d.stream("copies");
  std::vector<tr::host_copy> coming(gradients.size());
  auto to_host = [&](std::size_t layer) {
    d.wait_event(copies, d.record_event(d.stream()));
    for (auto i : {2 * layer, 2 * layer + 1})
      coming[i] = d.start_get(model.gradients[i], copies);
  };
  const auto rows = images.rows();
  auto x = d.put(images.reshaped({rows, static_cast<std::int64_t>(widths[0])}));
  auto got = model.mlp->gradients(model.weights, x, d.put(labels), model.gradients, to_host);
  for (std::size_t i = 0; i < gradients.size(); ++i)
    d.finish_get(coming[i], gradients[i]);
  k::mlp_result out;
  out.loss = d.get(got.loss).item<double>();
  out.correct = static_cast<std::size_t>(d.get(got.correct).item<std::int64_t>());
  return out;
}

k::mlp_result gradients_on_cpu(step_memory& memory, const std::vector<tr::variable_value>& values,
                               const tr::tensor& images, std::span<const std::int64_t> labels,
                               std::vector<tr::tensor>& gradients) {
  const block_weights in{values};
  std::vector<std::span<float>> out;
  for (auto& g : gradients)
    out.push_back(g.mutable_as<float>());
  return k::mlp_gradients<float, std::int64_t>(in.all(), images.as<float>(), labels,
                                               memory.workspace_for(labels.size()), out);
}

} // namespace

step_result train_step(tr::worker_context& ctx, tr::dataset_iterator& batches,
                       tr::per_worker_value<step_memory>& memory, const tr::variable_list& weights,
                       const tr::variable_list& audit) {
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
    got = own_data().on_device
            ? gradients_on_device(ctx, memory.value.on_device, values, batch.images(),
                                  batch.labels(), gradients)
            : gradients_on_cpu(memory.value, values, batch.images(), labels, gradients);
  }
  ctx.apply(weights, gradients);
  write_audit(ctx, audit);
  return {.loss = static_cast<float>(got.loss),
          .correct = static_cast<std::uint32_t>(got.correct),
          .seq = ctx.closure().seq,
          .attempt = value_of(ctx.attempt()),
          .begin_ns = begin_ns};
}
TROUPE_FUNCTION(train_step);

} // namespace tool
