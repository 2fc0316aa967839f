#include "replica_step.hpp"

#include <span>
#include <utility>

#include <troupe/kernels/elementwise.hpp>
#include <troupe/strategies/variables/optimizer_calls.hpp>

namespace tool {

namespace tr = troupe;
namespace k = troupe::kernels;

namespace {

/// Of its gradients. A bucket of that size goes as soon as they are there, while the earlier layers
/// compute; larger ones would hold all of this small model back to the end.
constexpr std::size_t last_layer_bytes =
  (widths[widths.size() - 2] + 1) * widths.back() * sizeof(float);

} // namespace

replica_step::replica_step(tr::distributed_variables weights, std::uint32_t local_replicas,
                           step_place where)
  : weights_{std::move(weights)}, where_{where}, memory_(local_replicas) {}

piece_result replica_step::operator()(tr::replica_context& ctx, const tr::element& batch) {
  const auto local = ctx.replica_id_in_sync_group() % ctx.strategy().num_local_replicas();
  auto& memory = memory_[local];
  work piece{.batch = batch, .rows = batch.labels().rows()};
  const auto all_rows = ctx.all_reduce(tr::reduce_op::sum, piece.rows);
  piece.share = static_cast<float>(static_cast<double>(piece.rows) / static_cast<double>(all_rows));
  tensors gradients;
  for (std::size_t i = 0; i < weights_.size(); ++i)
    gradients.push_back(memory.gradients.at(i).take(weights_[i].shape()));
  const auto loss = where_ == step_place::device ? on_device(ctx, memory, piece, gradients)
                                                 : on_host(ctx, memory, piece, gradients);
  return {.loss_sum = loss * static_cast<double>(piece.rows), .rows = piece.rows};
}

double replica_step::on_host(tr::replica_context& ctx, step_memory& memory, const work& piece,
                             tensors& gradients) const {
  const auto labels = piece.batch.labels().as<std::int64_t>();
  k::mlp_result got;
  {
    tensors values; // given back before the update, so that it writes in place
    for (const auto& v : weights_)
      values.push_back(v.read());
    const whole_weights in{values};
    std::vector<std::span<float>> out;
    for (auto& g : gradients)
      out.push_back(g.mutable_as<float>());
    got = k::mlp_gradients<float, std::int64_t>(in.all(), piece.batch.images().as<float>(), labels,
                                                memory.workspace_for(labels.size()), out);
  }
  if (piece.share != 1)
    for (auto& g : gradients)
      k::scale<float>(piece.share, g.as<float>(), g.mutable_as<float>());
  ctx.apply(weights_, gradients, tr::reduce_op::sum);
  return got.loss;
}

double replica_step::on_device(tr::replica_context& ctx, step_memory& memory, const work& piece,
                               tensors& gradients) const {
  auto& d = ctx.device();
  auto& model = memory.on_device;
  model.place(d);
  for (std::size_t i = 0; i < weights_.size(); ++i)
    model.mlp->put_rows(model.weights, i, 0, weights_[i].read());
  auto reducer = ctx.gradient_reducer({.op = tr::reduce_op::sum, .bucket_bytes = last_layer_bytes});
  const auto layer_done = [&](std::size_t layer) {
    for (const auto i : {2 * layer, 2 * layer + 1}) {
      const auto& g = model.gradients[i];
      if (piece.share != 1)
        d.check(d.ops().scale(piece.share, g, g));
      reducer.add(g);
    }
  };
  const auto images = ctx.on_device(piece.batch.images())
                        .reshaped({piece.rows, static_cast<std::int64_t>(widths[0])});
  const auto got = model.mlp->gradients(model.weights, images, ctx.on_device(piece.batch.labels()),
                                        model.gradients, layer_done);
  reducer.finish();
  std::vector<tr::host_copy> coming;
  for (const auto& g : model.gradients)
    coming.push_back(d.start_get(g, d.stream()));
  for (std::size_t i = 0; i < gradients.size(); ++i)
    d.finish_get(coming[i], gradients[i]);
  tr::apply_reduced(ctx, weights_, gradients);
  return d.get(got.loss).item<double>();
}

} // namespace tool
