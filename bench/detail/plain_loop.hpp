#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include <troupe/kernels/elementwise.hpp>
#include <troupe/kernels/mlp.hpp>
#include <troupe/kernels/optimizers.hpp> // the update rule that Troupe runs itself
#include <troupe/troupe.hpp>

#include "bench.hpp"

/// The model that the training benches train, and their peer: Fashion-MNIST with 784-128-10, batch
/// 64 and Adam in a loop on one thread, over the same data pipeline and the same kernels.
namespace bench {

namespace tr = troupe;
namespace kn = troupe::kernels;

inline constexpr std::array<std::size_t, 3> widths{784, 128, 10};
inline constexpr std::size_t batch_len = 64;
inline constexpr std::size_t epoch_steps = 60'000 / batch_len;

inline tr::dataset training_data(std::size_t rows = batch_len) {
  return tr::fashion_mnist("train").shuffle(60'000).repeat().batch(static_cast<std::int64_t>(rows));
}

inline tr::shape_t shape_of(std::size_t i) {
  const auto in = static_cast<std::int64_t>(widths[i / 2]);
  const auto out = static_cast<std::int64_t>(widths[i / 2 + 1]);
  return i % 2 == 0 ? tr::shape_t{in, out} : tr::shape_t{out};
}

/// What a worker keeps between steps.
struct scratch {
  kn::mlp_workspace<float> workspace{widths, batch_len};
  std::array<tr::tensor, 4> gradients{};
  std::array<std::vector<std::span<const float>>, 4>
    blocks{}; ///< of the variables, while they are read
  scratch() {
    for (std::size_t i = 0; i < gradients.size(); ++i)
      gradients[i] = tr::tensor::zeros(tr::dtype::f32, shape_of(i));
  }
};

/// `weights` are whole, or in the row blocks that their servers hold.
template <class Weight>
double gradients_of(const std::array<Weight, 4>& weights, const tr::element& batch, scratch& at) {
  std::array<std::span<float>, 4> out;
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = at.gradients[i].mutable_as<float>();
  return kn::mlp_gradients<float, std::int64_t>(
           std::span<const Weight>{weights}, batch.images().as<float>(),
           batch.labels().as<std::int64_t>(), at.workspace, out)
    .loss;
}

/// Makes the gradients of a part of a batch that part of the whole batch's, `share` of its rows.
inline void take_share(scratch& at, float share) {
  for (auto& g : at.gradients)
    kn::scale<float>(share, g.as<float>(), g.mutable_as<float>());
}

/// The training in a loop on one thread, updates in place.
class plain_loop {
public:
  explicit plain_loop(const tr::environment& env) : batches_{training_data().iterate(env)} {
    for (std::size_t i = 0; i < 4; ++i) {
      weights_[i] = tr::tensor::zeros(tr::dtype::f32, shape_of(i));
      m_[i] = tr::tensor::zeros(tr::dtype::f32, shape_of(i));
      v_[i] = tr::tensor::zeros(tr::dtype::f32, shape_of(i));
      std::uint32_t seed = 1;
      if (i % 2 == 0)
        for (float& x : weights_[i].mutable_as<float>()) {
          seed = seed * 1664525u + 1013904223u;
          x = (static_cast<float>(seed >> 8) / 16777216.0f - 0.5f) * 0.16f;
        }
    }
  }

  double run(std::size_t steps) {
    const auto begin = steady::now();
    for (std::size_t i = 0; i < steps; ++i)
      step();
    return seconds_since(begin);
  }
  float last_loss() const { return last_loss_; }

private:
  void step() {
    const auto batch = batches_.next();
    std::array<std::span<const float>, 4> w;
    for (std::size_t i = 0; i < w.size(); ++i)
      w[i] = weights_[i].as<float>();
    last_loss_ = static_cast<float>(gradients_of(w, batch, scratch_));
    ++t_;
    for (std::size_t i = 0; i < w.size(); ++i) {
      auto p = weights_[i].mutable_as<float>();
      auto m = m_[i].mutable_as<float>();
      auto v = v_[i].mutable_as<float>();
      kn::adam_update<float>(p, p, m, m, v, v, scratch_.gradients[i].as<float>(), t_,
                             {.learning_rate = 1e-3});
    }
  }

  tr::dataset_iterator batches_;
  scratch scratch_{};
  std::array<tr::tensor, 4> weights_{};
  std::array<tr::tensor, 4> m_{};
  std::array<tr::tensor, 4> v_{};
  std::uint64_t t_ = 0;
  float last_loss_ = 0;
};

/// Time on the wall and on the processors.
struct sample {
  double wall_s = 0;
  double cpu_s = 0;
};

template <class Contender>
sample epoch_of(Contender& c, std::size_t steps) {
  const double to_epoch = static_cast<double>(epoch_steps) / static_cast<double>(steps);
  const double cpu = cpu_seconds();
  const double wall = c.run(steps);
  return {wall * to_epoch, (cpu_seconds() - cpu) * to_epoch};
}

} // namespace bench
