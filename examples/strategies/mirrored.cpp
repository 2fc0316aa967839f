// Two replicas, each with a copy of the variable: learns the w of y = w x, half a batch each.
#include <troupe/troupe.hpp>

#include <cstdio>

namespace tr = troupe;

constexpr float batch_size = 8;

/// The replica's part of the batch's loss, and the same for the gradient.
float train_step(tr::replica_context& ctx, const tr::distributed_variable& w,
                 const tr::element& mine) {
  const auto x = mine[0].as<float>(), y = mine[1].as<float>();
  float loss = 0, gradient = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float off = w.item<float>() * x[i] - y[i];
    loss += off * off / batch_size;
    gradient += 2 * off * x[i] / batch_size;
  }
  ctx.apply({w}, {tr::tensor::vector({gradient})}); // the sum over replicas, once to each copy
  return loss;
}

int main() {
  tr::runtime_options options;
  options.cpu_devices = 2;
  tr::runtime rt{options};
  tr::mirrored_strategy strategy{rt, std::vector<std::string>{"cpu:0", "cpu:1"}};
  auto w = strategy.scope(
    [] { return tr::make_variable({.name = "w", .shape = {1}, .optimizer = tr::sgd{0.01f}}); });
  auto x = tr::tensor::vector<float>({1, 2, 3, 4, 5, 6, 7, 8});
  auto y = tr::tensor::vector<float>({3, 6, 9, 12, 15, 18, 21, 24});
  auto data = tr::dataset::from_tensors({x, y}).repeat(20).batch(8);
  for (auto& batch : tr::distribute_dataset(strategy, data)) { // four rows a replica
    auto losses = strategy.run(train_step, w, batch);
    std::printf("loss %g\n", strategy.reduce(tr::reduce_op::sum, losses).item<float>());
  }
  std::printf("w = %g\n", w.item<float>());
  return w.item<float>() > 2.999f && w.component(0) == w.component(1) ? 0 : 1;
}
