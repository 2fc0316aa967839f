// Loss and gradients of a multi-layer perceptron: dense layers with ReLU between them, softmax
// cross-entropy at the end.
//
// Weights and gradients come as a list w0, b0, w1, b1, ...: w_l is [widths[l], widths[l + 1]]
// row-major, b_l is [widths[l + 1]]. Weights may also come in row blocks, as a variable in shards
// is read; gradients are always whole. One thread per workspace at a time. Determinism, types and
// errors as in nn.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <troupe/kernels/nn.hpp>

namespace troupe::kernels {

/// The result of a pass over one batch.
struct mlp_result {
  double loss = 0;         ///< mean over the batch
  std::size_t correct = 0; ///< rows whose largest logit is the label's
};

/// Scratch memory for one perceptron and batches up to a size: allocated once, used again by every
/// call.
template <class T>
class mlp_workspace {
public:
  /// `widths`: inputs, hidden widths, classes; at least two, none 0. Errors: std::invalid_argument.
  mlp_workspace(std::span<const std::size_t> widths, std::size_t batch_max);

  std::span<const std::size_t> widths() const { return widths_; }

  std::size_t layer_count() const { return widths_.size() - 1; }

  std::size_t batch_max() const { return batch_max_; }

  /// Output of layer `layer` for `batch` rows, after its ReLU: [batch, widths[layer + 1]].
  std::span<T> activation(std::size_t layer, std::size_t batch);

  /// Buffer for gradients of layer outputs, one of two in turn: [batch, widths[layer + 1]].
  std::span<T> delta(std::size_t layer, std::size_t batch);

private:
  std::vector<std::size_t> widths_;
  std::size_t batch_max_ = 0;
  std::vector<std::vector<T>> activations_;
  std::vector<T> deltas_[2];
};

/// Forward pass. `x`: [batch, widths[0]] with batch = x.size() / widths[0] <= batch_max. Returns
/// the logits, [batch, classes], inside `workspace`: valid until its next use.
template <class T>
std::span<const T> mlp_forward(std::span<const std::span<const T>> weights, std::span<const T> x,
                               mlp_workspace<T>& workspace);

template <class T>
std::span<const T> mlp_forward(std::span<const row_blocks<T>> weights, std::span<const T> x,
                               mlp_workspace<T>& workspace);

/// Mean loss, number of correct rows, and in `gradients` (a list as `weights`, overwritten) the
/// gradients of the loss. `x`: [labels.size(), widths[0]]; at most batch_max rows. No rows: loss 0
/// and zero gradients.
template <class T, class Label>
mlp_result mlp_gradients(std::span<const std::span<const T>> weights, std::span<const T> x,
                         std::span<const Label> labels, mlp_workspace<T>& workspace,
                         std::span<const std::span<T>> gradients);

/// `mlp_gradients` with weights in row blocks: the gradient of a block is that range of rows of its
/// weight's gradient. Sums run block by block, so results differ from the whole weights' in the
/// last bits unless the blocks are of multiples of 128 rows.
template <class T, class Label>
mlp_result mlp_gradients(std::span<const row_blocks<T>> weights, std::span<const T> x,
                         std::span<const Label> labels, mlp_workspace<T>& workspace,
                         std::span<const std::span<T>> gradients);

/// Loss and correct rows without gradients, for evaluation.
template <class T, class Label>
mlp_result mlp_evaluate(std::span<const std::span<const T>> weights, std::span<const T> x,
                        std::span<const Label> labels, mlp_workspace<T>& workspace);

template <class T, class Label>
mlp_result mlp_evaluate(std::span<const row_blocks<T>> weights, std::span<const T> x,
                        std::span<const Label> labels, mlp_workspace<T>& workspace);

} // namespace troupe::kernels
