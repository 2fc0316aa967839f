// A training loop of one's own: the strategy gives the scope, the batches and the steps, and the
// loop stays the same whichever it is. Trains a perceptron on Fashion-MNIST, or on numbers made up
// where its files are missing, and ends with 0 when the loss fell by a third.
//   custom_training_loop [one_device | mirrored | central_storage]
#include <troupe/troupe.hpp>

#include <array>
#include <cstdio>
#include <string>
#include <vector>

namespace tr = troupe;

constexpr std::array<std::size_t, 3> widths{784, 128, 10};
constexpr std::int64_t global_batch_size = 64;

tr::strategy make_strategy(tr::runtime& rt, const std::string& name) {
  const std::vector<std::string> devices{"cpu:0", "cpu:1"};
  if (name == "one_device")
    return tr::one_device_strategy{rt, devices[0]};
  if (name == "central_storage")
    return tr::central_storage_strategy{rt, devices};
  if (name == "mirrored")
    return tr::mirrored_strategy{rt, devices};
  tr::throw_failure(tr::errc::bad_config, "strategy '" + name + "' is unknown");
}

/// Elements {image, label}: label c has ones at pixels c, c + 10, c + 20, ...
tr::dataset made_up(std::int64_t rows) {
  tr::tensor images = tr::tensor::zeros(tr::dtype::f32, {rows, 784});
  tr::tensor labels{tr::dtype::i64, {rows}};
  for (std::int64_t i = 0; i < rows; ++i) {
    labels.mutable_as<std::int64_t>()[i] = i % 10;
    for (std::int64_t pixel = i % 10; pixel < 784; pixel += 10)
      images.mutable_as<float>()[i * 784 + pixel] = 1;
  }
  return tr::dataset::from_tensors({images, labels});
}

tr::dataset training_data(const tr::runtime& rt) try {
  auto out = tr::fashion_mnist("train");
  (void)out.element_spec(tr::data_context{rt.env()}); // opens the files
  return out;
} catch (const tr::error& e) {
  std::printf("%s: training on numbers made up\n", e.what());
  return made_up(6400);
}

/// What one replica does with its piece of a batch. Each row counts for 1 / global_batch_size, so
/// that the replicas' losses and gradients add up to those of the whole batch.
tr::tensor train_step(tr::replica_context& ctx, const tr::distributed_variables& weights,
                      const tr::element& piece) {
  std::vector<tr::tensor> values, gradients;
  std::vector<std::span<const float>> in;
  std::vector<std::span<float>> out;
  for (const auto& w : weights) {
    in.push_back(values.emplace_back(w.read()).as<float>());
    out.push_back(gradients.emplace_back(tr::dtype::f32, w.shape()).mutable_as<float>());
  }
  const auto labels = piece.labels().as<std::int64_t>();
  tr::kernels::mlp_workspace<float> memory{widths, labels.size()};
  const auto mean = tr::kernels::mlp_gradients<float, std::int64_t>(in, piece.images().as<float>(),
                                                                    labels, memory, out);
  const double share = double(labels.size()) / double(global_batch_size);
  for (auto gradient : out)
    for (auto& x : gradient)
      x *= float(share);
  ctx.apply(weights, gradients, tr::reduce_op::sum);
  return tr::tensor::scalar(mean.loss * share);
}

int main(int argc, char** argv) try {
  tr::runtime_options options;
  options.cpu_devices = 2;
  tr::runtime rt{options};
  const auto strategy = make_strategy(rt, argc > 1 ? argv[1] : "mirrored");
  std::printf("%s, %u replicas\n", strategy.to_string().c_str(), strategy.num_replicas_in_sync());

  const auto weights = strategy.scope([] { // the strategy decides where variables live
    const auto make = [](const char* name, tr::shape_t shape, tr::initializer_spec initial) {
      return tr::make_variable({.name = name,
                                .shape = std::move(shape),
                                .initial = initial,
                                .optimizer = tr::adam{1e-3f}});
    };
    return tr::distributed_variables{make("hidden/weight", {784, 128}, tr::glorot_uniform(1)),
                                     make("hidden/bias", {128}, tr::zeros()),
                                     make("output/weight", {128, 10}, tr::glorot_uniform(2)),
                                     make("output/bias", {10}, tr::zeros())};
  });
  const auto batches = tr::distribute_dataset(
    strategy, training_data(rt).shuffle(60'000, 1).take(6400).batch(global_batch_size));

  std::vector<double> losses;
  for (auto epoch : strategy.steps(3)) { // a step of this loop, committed at its end, is an epoch
    double total = 0;
    int steps = 0;
    for (auto& batch : batches) {
      const auto replica_losses =
        strategy.run([&](tr::replica_context& ctx,
                         const tr::element& piece) { return train_step(ctx, weights, piece); },
                     batch);
      total += strategy.reduce(tr::reduce_op::sum, replica_losses).item<double>();
      ++steps;
    }
    losses.push_back(total / steps);
    std::printf("epoch %lld: loss %.4f\n", static_cast<long long>(epoch), losses.back());
  }
  return losses.back() < losses.front() / 1.5 ? 0 : 1;
} catch (const tr::error& e) {
  std::fprintf(stderr, "custom_training_loop: %s\n", e.what());
  return 1;
}
