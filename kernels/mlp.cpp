#include <troupe/kernels/mlp.hpp>

#include <troupe/kernels/detail/check.hpp>
#include <troupe/kernels/nn.hpp>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace troupe::kernels {

namespace {

template <class T>
dense_size layer_size(const mlp_workspace<T>& workspace, std::size_t layer, std::size_t batch) {
  return {batch, workspace.widths()[layer], workspace.widths()[layer + 1]};
}

template <class T>
std::size_t size_of(std::span<T> whole) {
  return whole.size();
}

template <class T>
std::size_t size_of(row_blocks<T> blocks) {
  std::size_t out = 0;
  for (const auto block : blocks)
    out += block.size();
  return out;
}

/// Checks the sizes of a list w0, b0, w1, b1, ...
template <class T, class Span>
void expect_list(const char* function, const char* weight, const char* bias,
                 std::span<const Span> list, const mlp_workspace<T>& workspace) {
  detail::expect_size(function, "list length", list.size(), 2 * workspace.layer_count());
  for (std::size_t layer = 0; layer < workspace.layer_count(); ++layer) {
    const dense_size size = layer_size(workspace, layer, 0);
    detail::expect_size(function, weight, size_of(list[2 * layer]), size.inputs * size.outputs);
    detail::expect_size(function, bias, size_of(list[2 * layer + 1]), size.outputs);
  }
}

template <class T>
void expect_batch(const char* function, std::span<const T> x, std::size_t batch,
                  const mlp_workspace<T>& workspace) {
  detail::expect_size(function, "x.size()", x.size(), batch * workspace.widths()[0]);
  if (batch > workspace.batch_max())
    detail::fail_size(function, "batch", batch, workspace.batch_max());
}

} // namespace

template <class T>
mlp_workspace<T>::mlp_workspace(std::span<const std::size_t> widths, std::size_t batch_max)
  : widths_(widths.begin(), widths.end()), batch_max_(batch_max) {
  if (widths_.size() < 2)
    throw std::invalid_argument("kernels::mlp_workspace: widths.size() is "
                                + std::to_string(widths_.size()) + ", expected at least 2");
  std::size_t widest = 0;
  for (std::size_t i = 0; i < widths_.size(); ++i) {
    if (widths_[i] == 0)
      throw std::invalid_argument("kernels::mlp_workspace: widths[" + std::to_string(i)
                                  + "] is 0, expected at least 1");
    if (i > 0) {
      activations_.emplace_back(batch_max * widths_[i]);
      widest = std::max(widest, widths_[i]);
    }
  }
  for (std::vector<T>& buffer : deltas_)
    buffer.resize(batch_max * widest);
}

template <class T>
std::span<T> mlp_workspace<T>::activation(std::size_t layer, std::size_t batch) {
  return std::span<T>(activations_[layer]).first(batch * widths_[layer + 1]);
}

template <class T>
std::span<T> mlp_workspace<T>::delta(std::size_t layer, std::size_t batch) {
  return std::span<T>(deltas_[layer % 2]).first(batch * widths_[layer + 1]);
}

namespace {

// `Weight` is a whole weight or a weight in row blocks.

template <class T, class Weight>
std::span<const T> forward(std::span<const Weight> weights, std::span<const T> x,
                           mlp_workspace<T>& workspace) {
  const std::size_t batch = x.size() / workspace.widths()[0];
  expect_batch("mlp_forward", x, batch, workspace);
  expect_list("mlp_forward", "weights w.size()", "weights b.size()", weights, workspace);
  std::span<const T> input = x;
  for (std::size_t layer = 0; layer < workspace.layer_count(); ++layer) {
    const std::span<T> output = workspace.activation(layer, batch);
    dense_forward<T>(input, weights[2 * layer], weights[2 * layer + 1],
                     layer_size(workspace, layer, batch), output);
    if (layer + 1 < workspace.layer_count())
      relu_forward<T>(output, output);
    input = output;
  }
  return input;
}

template <class T, class Label, class Weight>
mlp_result gradients_of(std::span<const Weight> weights, std::span<const T> x,
                        std::span<const Label> labels, mlp_workspace<T>& workspace,
                        std::span<const std::span<T>> gradients) {
  const std::size_t batch = labels.size();
  expect_batch("mlp_gradients", x, batch, workspace);
  expect_list("mlp_gradients", "gradients w.size()", "gradients b.size()", gradients, workspace);
  const std::span<const T> logits = forward<T>(weights, x, workspace);
  const std::size_t last = workspace.layer_count() - 1;
  const std::size_t classes = workspace.widths().back();
  mlp_result result;
  result.correct = accuracy_count<T, Label>(logits, labels, classes);
  result.loss =
    softmax_cross_entropy<T, Label>(logits, labels, classes, workspace.delta(last, batch));
  for (std::size_t layer = last + 1; layer-- > 0;) {
    const std::span<const T> input = layer == 0 ? x : workspace.activation(layer - 1, batch);
    const std::span<T> below = layer == 0 ? std::span<T>() : workspace.delta(layer - 1, batch);
    dense_backward<T>(input, weights[2 * layer], workspace.delta(layer, batch),
                      layer_size(workspace, layer, batch), gradients[2 * layer],
                      gradients[2 * layer + 1], below);
    if (layer > 0)
      relu_backward<T>(input, below, below);
  }
  return result;
}

template <class T, class Label, class Weight>
mlp_result evaluate(std::span<const Weight> weights, std::span<const T> x,
                    std::span<const Label> labels, mlp_workspace<T>& workspace) {
  expect_batch("mlp_evaluate", x, labels.size(), workspace);
  const std::span<const T> logits = forward<T>(weights, x, workspace);
  const std::size_t classes = workspace.widths().back();
  mlp_result result;
  result.correct = accuracy_count<T, Label>(logits, labels, classes);
  result.loss = softmax_cross_entropy<T, Label>(logits, labels, classes, std::span<T>());
  return result;
}

} // namespace

template <class T>
std::span<const T> mlp_forward(std::span<const std::span<const T>> weights, std::span<const T> x,
                               mlp_workspace<T>& workspace) {
  return forward<T>(weights, x, workspace);
}

template <class T, class Label>
mlp_result mlp_gradients(std::span<const std::span<const T>> weights, std::span<const T> x,
                         std::span<const Label> labels, mlp_workspace<T>& workspace,
                         std::span<const std::span<T>> gradients) {
  return gradients_of<T, Label>(weights, x, labels, workspace, gradients);
}

template <class T, class Label>
mlp_result mlp_evaluate(std::span<const std::span<const T>> weights, std::span<const T> x,
                        std::span<const Label> labels, mlp_workspace<T>& workspace) {
  return evaluate<T, Label>(weights, x, labels, workspace);
}

template <class T>
std::span<const T> mlp_forward(std::span<const row_blocks<T>> weights, std::span<const T> x,
                               mlp_workspace<T>& workspace) {
  return forward<T>(weights, x, workspace);
}

template <class T, class Label>
mlp_result mlp_gradients(std::span<const row_blocks<T>> weights, std::span<const T> x,
                         std::span<const Label> labels, mlp_workspace<T>& workspace,
                         std::span<const std::span<T>> gradients) {
  return gradients_of<T, Label>(weights, x, labels, workspace, gradients);
}

template <class T, class Label>
mlp_result mlp_evaluate(std::span<const row_blocks<T>> weights, std::span<const T> x,
                        std::span<const Label> labels, mlp_workspace<T>& workspace) {
  return evaluate<T, Label>(weights, x, labels, workspace);
}

#define TROUPE_INSTANTIATE_LABEL(T, Label, Weight)                                         \
  template mlp_result mlp_gradients<T, Label>(std::span<const Weight>, std::span<const T>, \
                                              std::span<const Label>, mlp_workspace<T>&,   \
                                              std::span<const std::span<T>>);              \
  template mlp_result mlp_evaluate<T, Label>(std::span<const Weight>, std::span<const T>,  \
                                             std::span<const Label>, mlp_workspace<T>&);
#define TROUPE_INSTANTIATE_WEIGHT(T, Weight)                                              \
  template std::span<const T> mlp_forward<T>(std::span<const Weight>, std::span<const T>, \
                                             mlp_workspace<T>&);                          \
  TROUPE_INSTANTIATE_LABEL(T, std::uint8_t, Weight)                                       \
  TROUPE_INSTANTIATE_LABEL(T, std::int32_t, Weight)                                       \
  TROUPE_INSTANTIATE_LABEL(T, std::int64_t, Weight)
#define TROUPE_INSTANTIATE(T)                      \
  template class mlp_workspace<T>;                 \
  TROUPE_INSTANTIATE_WEIGHT(T, std::span<const T>) \
  TROUPE_INSTANTIATE_WEIGHT(T, row_blocks<T>)

TROUPE_INSTANTIATE(float)
TROUPE_INSTANTIATE(double)

#undef TROUPE_INSTANTIATE
#undef TROUPE_INSTANTIATE_WEIGHT
#undef TROUPE_INSTANTIATE_LABEL

} // namespace troupe::kernels
