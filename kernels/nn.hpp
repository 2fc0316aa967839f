// Dense layers, ReLU and softmax cross-entropy on row-major spans, forward and backward.
//
// Element types: float and double; label types: std::uint8_t, std::int32_t, std::int64_t
// (instantiated in the .cpp). Products run on the calling thread alone (Eigen without threads) and
// give the same bits for the same sizes on the same build; between machines they may differ in the
// last bits. Eigen may take scratch memory for a product; nothing else allocates. Memory: outputs
// are disjoint from inputs unless a function says otherwise. Errors: std::invalid_argument naming
// the argument when a size is wrong or a label is outside [0, classes); nothing is written then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace troupe::kernels {

/// Sizes of one dense layer on one batch.
struct dense_size {
  std::size_t batch = 0;
  std::size_t inputs = 0;
  std::size_t outputs = 0;
};

/// A matrix in blocks of whole rows, in row order, each row-major; of a vector, its parts. Blocks
/// may be of any sizes.
template <class T>
using row_blocks = std::span<const std::span<const T>>;

/// y = x w + bias. x: [batch, inputs]; w: [inputs, outputs]; bias: [outputs]; y: [batch, outputs].
template <class T>
void dense_forward(std::span<const std::type_identity_t<T>> x,
                   std::span<const std::type_identity_t<T>> w,
                   std::span<const std::type_identity_t<T>> bias, const dense_size& size,
                   std::span<T> y);

/// `dense_forward` with `w` and `bias` in blocks. Equal bits when the blocks' rows are multiples of
/// 128, else equal up to the order of the sums.
template <class T>
void dense_forward(std::span<const std::type_identity_t<T>> x,
                   row_blocks<std::type_identity_t<T>> w, row_blocks<std::type_identity_t<T>> bias,
                   const dense_size& size, std::span<T> y);

/// dw = x^T dy, db = column sums of dy, dx = dy w^T; an empty `dx` is skipped (the first layer
/// needs none).
template <class T>
void dense_backward(std::span<const std::type_identity_t<T>> x,
                    std::span<const std::type_identity_t<T>> w,
                    std::span<const std::type_identity_t<T>> dy, const dense_size& size,
                    std::span<T> dw, std::span<std::type_identity_t<T>> db,
                    std::span<std::type_identity_t<T>> dx);

/// `dense_backward` with `w` in blocks; dw is one matrix, and its block of rows [a, b) is the
/// gradient of w's rows [a, b).
template <class T>
void dense_backward(std::span<const std::type_identity_t<T>> x,
                    row_blocks<std::type_identity_t<T>> w,
                    std::span<const std::type_identity_t<T>> dy, const dense_size& size,
                    std::span<T> dw, std::span<std::type_identity_t<T>> db,
                    std::span<std::type_identity_t<T>> dx);

/// y[r, c] += bias[c]. y: [y.size() / bias.size(), bias.size()].
template <class T>
void add_bias(std::span<const std::type_identity_t<T>> bias, std::span<T> y);

/// y[i] = max(x[i], 0); a NaN stays. `y` may be `x`.
template <class T>
void relu_forward(std::span<const std::type_identity_t<T>> x, std::span<T> y);

/// dx[i] = dy[i] where y[i] > 0, else 0. `y` is the forward result (or its input); `dx` may be
/// `dy`.
template <class T>
void relu_backward(std::span<const std::type_identity_t<T>> y,
                   std::span<const std::type_identity_t<T>> dy, std::span<T> dx);

/// Mean over the batch of -log softmax(logits)[label]; 0 for no rows. logits: [labels.size(),
/// classes]. `dlogits`, if not empty, gets the gradient of that mean, (softmax - one hot) / batch;
/// it may be `logits`. Works for logits of any finite size; with a NaN or +infinity among a row's
/// logits, or only -infinities, its gradient and the loss are NaN. The gradient has the same bits
/// on every machine; the loss takes its logarithms from the C library.
template <class T, class Label>
double softmax_cross_entropy(std::span<const std::type_identity_t<T>> logits,
                             std::span<const Label> labels, std::size_t classes,
                             std::span<T> dlogits);

/// Number of rows whose largest logit (the first of equals) stands at the label. logits:
/// [labels.size(), classes].
template <class T, class Label>
std::size_t accuracy_count(std::span<const T> logits, std::span<const Label> labels,
                           std::size_t classes);

} // namespace troupe::kernels
