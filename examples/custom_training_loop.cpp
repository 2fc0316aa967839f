// A training loop of one's own: the strategy gives the scope, the batches and the steps, and the
// loop stays the same whichever it is. Trains a perceptron on Fashion-MNIST, or on numbers made up
// where its files are missing, and ends with 0 when the loss fell by a third.
//   custom_training_loop [one_device | mirrored | central_storage | tpu | multi_worker_mirrored]
//                        [DIRECTORY]
// With a directory it saves after each epoch; started again, it goes on behind the last one.
// multi_worker_mirrored: the same in every process, as strategies/multi_worker_mirrored.cpp shows.
#include <troupe/troupe.hpp>

#include <array>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

namespace tr = troupe;

constexpr std::array<std::size_t, 3> widths{784, 128, 10};
constexpr std::int64_t global_batch_size = 64;
constexpr std::int64_t epochs = 3;

tr::strategy make_strategy(tr::runtime& rt, const std::string& name) {
  const std::vector<std::string> devices{"cpu:0", "cpu:1"};
  if (name == "one_device")
    return tr::one_device_strategy{rt, devices[0]};
  if (name == "central_storage")
    return tr::central_storage_strategy{rt, devices};
  if (name == "mirrored")
    return tr::mirrored_strategy{rt, devices};
  if (name == "tpu")
    return tr::tpu_strategy{rt};
  if (name == "multi_worker_mirrored")
    return tr::multi_worker_mirrored_strategy{rt, {.devices = devices}};
  tr::throw_failure(tr::errc::bad_config,
                    "strategy '" + name
                      + "' is unknown, expected one_device, mirrored, central_storage, tpu or "
                        "multi_worker_mirrored");
}

tr::runtime make_runtime(const std::string& name, int argc, char** argv) {
  if (name == "multi_worker_mirrored") { // who the others are is in TF_CONFIG
    auto options = tr::runtime::synchronous_options_from_args(argc, argv);
    options.cpu_devices = 2;
    return tr::runtime{std::move(options)};
  }
  tr::runtime_options options;
  options.cpu_devices = 2;
  return tr::runtime{std::move(options)};
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
  const std::string name = argc > 1 ? argv[1] : "mirrored";
  const std::string directory = argc > 2 ? argv[2] : "";
  auto rt = make_runtime(name, argc, argv);
  const auto strategy = make_strategy(rt, name);
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
  auto batches =
    tr::distribute_dataset(strategy,
                           training_data(rt).shuffle(60'000, 1).take(6400).batch(global_batch_size))
      .iterate();

  // What a restart goes on from. Epochs are counted where they end; a program that saves within one
  // keeps `batches.save_position()` too (`add_position`).
  std::int64_t done = 0;
  std::optional<tr::sync_checkpoint> checkpoint;
  if (!directory.empty()) {
    checkpoint.emplace(strategy, directory);
    checkpoint->add(weights).add_counter("epochs", done);
    if (checkpoint->restore())
      strategy.set_committed_steps(done);
  }

  std::vector<double> losses;
  for (auto epoch : strategy.steps(epochs)) { // a step of this loop, committed at its end, is one
    double total = 0;
    int steps = 0;
    batches.start_pass(static_cast<std::uint64_t>(epoch));
    while (auto batch = batches.try_next()) {
      const auto replica_losses =
        strategy.run([&](tr::replica_context& ctx,
                         const tr::element& piece) { return train_step(ctx, weights, piece); },
                     *batch);
      total += strategy.reduce(tr::reduce_op::sum, replica_losses).item<double>();
      ++steps;
    }
    losses.push_back(total / steps);
    std::printf("epoch %lld: loss %.4f\n", static_cast<long long>(epoch), losses.back());
    done = epoch + 1; // as it will be when this is over
    if (checkpoint)
      checkpoint->save();
  }
  const bool from_the_start = losses.size() == std::size_t{epochs};
  return !from_the_start || losses.back() < losses.front() / 1.5 ? 0 : 1;
} catch (const tr::error& e) {
  std::fprintf(stderr, "custom_training_loop: %s\n", e.what());
  return 1;
}
