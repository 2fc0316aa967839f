#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <troupe/troupe.hpp>

/// The step of the workers: one batch, one gradient, one push.
namespace tool {

/// Layers of the perceptron.
inline constexpr std::array<std::size_t, 3> widths{784, 128, 10};

/// The learning rate of a run that ends at a time, which a program leads: `initial` in the first
/// half of it, then on a line to 0. `fraction`: of the run's time, in [0, 1].
inline float learning_rate_at(float initial, double fraction) {
  return fraction < 0.5 ? initial : static_cast<float>(initial * 2 * (1 - fraction));
}

/// The options that the datasets of this process are made with. Written before its runtime starts.
struct data_settings {
  std::string directory{};
  std::int64_t batch_size = 64;
  bool on_device = false; ///< steps compute on their thread's device
};
data_settings& own_data();

/// Memory for gradients of one shape, used again once nobody holds it: a server of this process has
/// then applied it, and a channel has sent it.
class gradient_memory {
public:
  troupe::tensor take(const troupe::shape_t& shape) {
    for (const auto& block : blocks_)
      if (block.use_count() == 1 && block->shape() == shape) {
        std::atomic_thread_fence(std::memory_order_acquire); // after the last holder's release
        return share(block);
      }
    blocks_.push_back(std::make_shared<troupe::tensor>(troupe::dtype::f32, shape));
    return share(blocks_.back());
  }

private:
  static troupe::tensor share(const std::shared_ptr<troupe::tensor>& block) {
    return {block->type(), block->shape(), block, block->mutable_bytes().data()};
  }
  std::vector<std::shared_ptr<troupe::tensor>> blocks_{};
};

/// A model on a thread's device.
struct device_model {
  /// Memory there, made anew when the thread has another device than before.
  void place(troupe::device_context& d);
  troupe::device_context* of = nullptr; ///< the thread that it is on
  std::optional<troupe::device_mlp> mlp{};
  std::vector<troupe::device_tensor> weights{};
  std::vector<troupe::device_tensor> gradients{};
};

/// A worker's memory, used again by every step.
struct step_memory {
  device_model on_device{};
  std::optional<troupe::kernels::mlp_workspace<float>> workspace{};
  std::array<gradient_memory, 2 * (widths.size() - 1)> gradients{};

  troupe::kernels::mlp_workspace<float>& workspace_for(std::size_t batch) {
    if (!workspace || workspace->batch_max() < batch)
      workspace.emplace(widths, batch);
    return *workspace;
  }
};

/// A model's weights as read, in the form that the kernels take. The values must outlive it.
class block_weights {
public:
  explicit block_weights(const std::vector<troupe::variable_value>& values) {
    parts_.reserve(values.size());
    for (const auto& value : values) {
      auto& blocks = parts_.emplace_back();
      for (const auto& block : value.blocks)
        blocks.push_back(block.values.as<float>());
    }
    weights_.assign(parts_.begin(), parts_.end());
  }
  block_weights(const block_weights&) = delete;
  block_weights& operator=(const block_weights&) = delete;
  std::span<const troupe::kernels::row_blocks<float>> all() const { return weights_; }

private:
  std::vector<std::vector<std::span<const float>>> parts_{};
  std::vector<troupe::kernels::row_blocks<float>> weights_{};
};

/// A model's weights in one piece each, in the form that the kernels take. The values must outlive
/// it.
class whole_weights {
public:
  explicit whole_weights(const std::vector<troupe::tensor>& values) {
    parts_.reserve(values.size()); // what weights_ refers to must not move
    for (const auto& value : values) {
      parts_.push_back(value.as<float>());
      weights_.emplace_back(std::span<const std::span<const float>>{&parts_.back(), 1});
    }
  }
  whole_weights(const whole_weights&) = delete;
  whole_weights& operator=(const whole_weights&) = delete;
  std::span<const troupe::kernels::row_blocks<float>> all() const { return weights_; }

private:
  std::vector<std::span<const float>> parts_{};
  std::vector<troupe::kernels::row_blocks<float>> weights_{};
};

/// The result of a step.
struct step_result {
  float loss = 0;
  std::uint32_t correct = 0;
  std::uint64_t seq = 0;     ///< of the closure
  std::uint32_t attempt = 0; ///< the accepted one
  std::int64_t begin_ns = 0; ///< on the machine's steady clock
  TROUPE_FIELDS(step_result, loss, correct, seq, attempt, begin_ns)
};

/// Reads the weights, computes the gradients of the worker's next batch, applies them, writes the
/// audit. `audit`: the cells that count attempts, and those that keep the last attempt's
/// number.
step_result train_step(troupe::worker_context& ctx, troupe::dataset_iterator& batches,
                       troupe::per_worker_value<step_memory>& memory,
                       const troupe::variable_list& weights, const troupe::variable_list& audit);

} // namespace tool
