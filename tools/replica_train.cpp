#include "replica_train.hpp"

#include <algorithm>
#include <chrono>

#include <troupe/kernels/elementwise.hpp>

#include "train_step.hpp"

namespace tool {

namespace {

namespace tr = troupe;
namespace k = troupe::kernels;

constexpr std::int64_t train_images = 60'000;

std::vector<std::string> replica_devices(const training_options& options) {
  if (!options.device.empty())
    return {options.device};
  std::vector<std::string> out;
  for (std::uint32_t i = 0; i < options.replicas; ++i)
    out.push_back("cpu:" + std::to_string(i));
  return out;
}

tr::strategy make_strategy(tr::runtime& rt, const training_options& options) {
  const auto devices = replica_devices(options);
  if (options.strategy == "one_device")
    return tr::one_device_strategy{rt, devices[0]};
  if (options.strategy == "mirrored")
    return tr::mirrored_strategy{rt, devices};
  if (options.strategy == "central_storage")
    return tr::central_storage_strategy{rt, devices};
  if (options.strategy == "tpu")
    return tr::tpu_strategy{rt, tr::tpu_options{.devices = devices}};
  if (options.strategy == "multi_worker_mirrored")
    return tr::multi_worker_mirrored_strategy{rt, {.devices = devices}};
  tr::throw_failure(tr::errc::bad_config, "train: strategy '" + options.strategy + "' is unknown");
}

/// What one replica made of its piece of a batch.
struct piece_result {
  double loss_sum = 0; ///< over the piece's rows
  std::int64_t rows = 0;
};

/// One training run, from the variables to the report.
class replica_run {
public:
  replica_run(tr::runtime& rt, const training_options& options, training_listener& listener,
              const std::atomic<bool>& stop)
    : options_{options},
      listener_{listener},
      stop_{stop},
      env_{rt.env()},
      strategy_{make_strategy(rt, options)},
      memory_(strategy_.num_local_replicas()) {}

  training_report go();

private:
  void make_weights();
  void train();
  void step(const tr::distributed_batch& batch);
  piece_result piece(tr::replica_context& ctx, const tr::element& batch);
  void show();
  void compare();
  void evaluate();
  bool done() const {
    return options_.seconds > 0 ? elapsed() >= options_.seconds : report_.steps >= total_;
  }
  double elapsed() const {
    return std::chrono::duration<double>(env_.clock.now() - begin_).count();
  }

  const training_options& options_;
  training_listener& listener_;
  const std::atomic<bool>& stop_;
  const tr::environment& env_;
  tr::strategy strategy_;
  std::vector<step_memory> memory_; ///< of each replica
  tr::distributed_variables weights_{};
  std::uint64_t total_ = 0;
  tr::time_point begin_{};
  tr::time_point show_at_{};
  double loss_sum_ = 0;
  double loss_rows_ = 0;
  training_report report_{};
};

void replica_run::make_weights() {
  const auto per_pass = (train_images + options_.batch_size - 1) / options_.batch_size;
  total_ = options_.epochs * static_cast<std::uint64_t>(per_pass);
  const tr::adam how{
    .learning_rate = tr::linear_decay{
      .initial = options_.learning_rate, .end = 0, .begin_step = total_ / 2, .end_step = total_}};
  const auto make = [&](const char* name, tr::shape_t shape, tr::initializer_spec initial) {
    weights_.push_back(tr::make_variable({.name = name,
                                          .shape = std::move(shape),
                                          .initial = initial,
                                          .aggregation = tr::variable_aggregation::mean,
                                          .optimizer = how}));
  };
  strategy_.scope([&] {
    make("hidden/weight", {784, 128}, tr::glorot_uniform(options_.seed));
    make("hidden/bias", {128}, tr::zeros());
    make("output/weight", {128, 10}, tr::glorot_uniform(options_.seed));
    make("output/bias", {10}, tr::zeros());
  });
}

/// Gradients of the piece's rows, as parts of the mean over the whole batch, and one update.
piece_result replica_run::piece(tr::replica_context& ctx, const tr::element& batch) {
  const auto local = ctx.replica_id_in_sync_group() % ctx.strategy().num_local_replicas();
  auto& memory = memory_[local];
  const auto labels = batch.labels().as<std::int64_t>();
  const auto rows = static_cast<std::int64_t>(labels.size());
  const auto all_rows = ctx.all_reduce(tr::reduce_op::sum, rows);
  std::vector<tr::tensor> gradients;
  for (std::size_t i = 0; i < weights_.size(); ++i)
    gradients.push_back(memory.gradients.at(i).take(weights_[i].shape()));
  k::mlp_result got;
  {
    std::vector<tr::tensor> values;
    for (const auto& v : weights_)
      values.push_back(v.read());
    std::vector<std::span<const float>> blocks;
    for (const auto& x : values)
      blocks.push_back(x.as<float>());
    std::vector<k::row_blocks<float>> in;
    for (auto& block : blocks)
      in.emplace_back(std::span<const std::span<const float>>{&block, 1});
    std::vector<std::span<float>> out;
    for (auto& g : gradients)
      out.push_back(g.mutable_as<float>());
    got = k::mlp_gradients<float, std::int64_t>(in, batch.images().as<float>(), labels,
                                                memory.workspace_for(labels.size()), out);
  }
  const auto share = static_cast<float>(static_cast<double>(rows) / static_cast<double>(all_rows));
  for (auto& g : gradients)
    k::scale<float>(share, g.as<float>(), g.mutable_as<float>());
  ctx.apply(weights_, gradients, tr::reduce_op::sum);
  return {.loss_sum = got.loss * static_cast<double>(rows), .rows = rows};
}

void replica_run::step(const tr::distributed_batch& batch) {
  const auto out = strategy_.run(
    [this](tr::replica_context& ctx, const tr::element& mine) { return piece(ctx, mine); }, batch);
  for (const auto& each : out) {
    loss_sum_ += each.loss_sum;
    loss_rows_ += static_cast<double>(each.rows);
  }
  ++report_.steps;
}

void replica_run::show() {
  const auto now = env_.clock.now();
  if (now < show_at_)
    return;
  show_at_ = now + std::chrono::milliseconds{200};
  const double fraction =
    options_.seconds > 0 ? elapsed() / options_.seconds : double(report_.steps) / double(total_);
  listener_.progress(report_.steps, std::clamp(fraction, 0.0, 1.0),
                     loss_rows_ == 0 ? 0.0 : loss_sum_ / loss_rows_);
  loss_sum_ = loss_rows_ = 0;
}

void replica_run::train() {
  auto batches = tr::distribute_dataset(strategy_, tr::fashion_mnist("train", own_data().directory)
                                                     .shuffle(train_images, options_.seed)
                                                     .batch(options_.batch_size));
  auto input = batches.iterate();
  begin_ = show_at_ = env_.clock.now();
  for (std::uint64_t pass = 0; !done(); ++pass) {
    input.start_pass(pass);
    while (!done()) {
      if (stop_)
        tr::throw_failure(tr::errc::cancelled, "train: stopped by a signal after "
                                                 + std::to_string(report_.steps) + " steps");
      auto batch = input.try_next();
      if (!batch)
        break;
      step(*batch);
      show();
    }
  }
  report_.seconds = elapsed();
}

/// Every copy of every worker against the extremes of all.
void replica_run::compare() {
  const auto differing = strategy_.run([this](tr::replica_context& ctx) {
    std::uint64_t out = 0;
    for (const auto& v : weights_) {
      const auto mine = v.read();
      out += ctx.all_reduce(tr::reduce_op::min, mine) == mine ? 0 : 1;
    }
    return ctx.all_reduce(tr::reduce_op::sum, static_cast<std::int64_t>(out));
  });
  report_.differing = static_cast<std::uint64_t>(differing[0]);
}

void replica_run::evaluate() {
  std::vector<tr::tensor> values;
  for (const auto& v : weights_)
    values.push_back(v.read());
  std::vector<std::span<const float>> blocks;
  for (const auto& x : values)
    blocks.push_back(x.as<float>());
  std::vector<k::row_blocks<float>> in;
  for (auto& block : blocks)
    in.emplace_back(std::span<const std::span<const float>>{&block, 1});
  constexpr std::int64_t batch_size = 1000;
  k::mlp_workspace<float> workspace{widths, batch_size};
  auto batches = tr::fashion_mnist("test", own_data().directory)
                   .batch(batch_size)
                   .iterate(tr::data_context{env_});
  while (const auto batch = batches.try_next()) {
    const auto labels = batch->labels().as<std::int64_t>();
    report_.correct +=
      k::mlp_evaluate<float, std::int64_t>(in, batch->images().as<float>(), labels, workspace)
        .correct;
    report_.images += labels.size();
  }
}

training_report replica_run::go() {
  (void)tr::fashion_mnist("test", own_data().directory).element_spec(tr::data_context{env_});
  make_weights();
  train();
  listener_.progress(report_.steps, 1.0, loss_rows_ == 0 ? 0.0 : loss_sum_ / loss_rows_);
  listener_.trained();
  report_.replicas = strategy_.num_replicas_in_sync();
  compare();
  evaluate();
  return report_;
}

} // namespace

const std::vector<std::string>& strategy_names() {
  static const std::vector<std::string> names{
    "parameter_server", "one_device", "mirrored",
    "central_storage",  "tpu",        "multi_worker_mirrored"};
  return names;
}

training_report train_on_replicas(tr::runtime& rt, const training_options& options,
                                  training_listener& listener, const std::atomic<bool>& stop) {
  return replica_run{rt, options, listener, stop}.go();
}

} // namespace tool
