#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <troupe/device/context.hpp>

namespace troupe {

/// A multi-layer perceptron on a device, as kernels/mlp.hpp has it on the CPU: dense layers with
/// ReLU between them, softmax cross-entropy at the end. Weights and gradients come as a list w0,
/// b0, w1, b1, ... of device tensors. Everything is enqueued on the context's stream; one thread at
/// a time. Throws as the context does; `shape_mismatch` names the layer.
class device_mlp {
public:
  /// `widths`: inputs, hidden widths, classes; at least two, none 0. The context outlives it.
  device_mlp(device_context& on, std::vector<std::int64_t> widths);

  /// Memory for a list of weights, or of gradients.
  std::vector<device_tensor> make_weights();
  /// Weights from host memory: `row_begin` is the row of weight `index` that `rows` begin at.
  void put_rows(const std::vector<device_tensor>& weights, std::size_t index,
                std::int64_t row_begin, const tensor& rows);

  struct outcome {
    device_tensor loss{};    ///< one f64: the mean over the batch
    device_tensor correct{}; ///< one i64: rows whose largest logit is the label's
  };
  /// `x`: f32 [batch, widths[0]]; `labels`: u8, i32 or i64 [batch]. `gradients` is overwritten.
  /// `layer_done` is called, if given, with the layer's number as soon as its two gradients are
  /// enqueued, the last layer first: what it puts on other streams runs while earlier layers
  /// compute.
  outcome gradients(const std::vector<device_tensor>& weights, const device_tensor& x,
                    const device_tensor& labels, const std::vector<device_tensor>& gradients,
                    const std::function<void(std::size_t layer)>& layer_done = {});
  /// Loss and correct rows without gradients.
  outcome evaluate(const std::vector<device_tensor>& weights, const device_tensor& x,
                   const device_tensor& labels);

  std::size_t layer_count() const { return widths_.size() - 1; }

private:
  /// Outputs of all layers, after their ReLU.
  std::vector<device_tensor> forward(const std::vector<device_tensor>& weights,
                                     const device_tensor& x);
  device_context& on_;
  const std::vector<std::int64_t> widths_;
};

} // namespace troupe
