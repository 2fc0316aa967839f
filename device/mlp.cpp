#include <troupe/device/mlp.hpp>

#include <cstring>
#include <string>
#include <utility>

namespace troupe {

device_mlp::device_mlp(device_context& on, std::vector<std::int64_t> widths)
  : on_{on}, widths_{std::move(widths)} {
  if (widths_.size() < 2)
    throw_failure(errc::invalid_argument,
                  "device_mlp: " + std::to_string(widths_.size()) + " widths, at least 2 required");
  for (auto width : widths_)
    if (width <= 0)
      throw_failure(errc::invalid_argument, "device_mlp: a width is " + std::to_string(width));
}

std::vector<device_tensor> device_mlp::make_weights() {
  std::vector<device_tensor> out;
  for (std::size_t l = 0; l < layer_count(); ++l) {
    out.push_back(on_.empty(dtype::f32, {widths_[l], widths_[l + 1]}));
    out.push_back(on_.empty(dtype::f32, {widths_[l + 1]}));
  }
  return out;
}

void device_mlp::put_rows(const std::vector<device_tensor>& weights, std::size_t index,
                          std::int64_t row_begin, const tensor& rows) {
  const auto& to = weights.at(index);
  const auto height = to.shape()[0];
  const auto width = to.size() / height;
  if (rows.type() != dtype::f32 || row_begin < 0 || rows.rows() > height - row_begin
      || rows.size() != rows.rows() * width)
    throw_failure(errc::shape_mismatch, "device_mlp: weight " + std::to_string(index) + ": rows "
                                          + std::to_string(row_begin) + " and on of "
                                          + to_string(rows.type()) + to_string(rows.shape())
                                          + " do not fit " + to_string(to.shape()));
  auto staged = on_.put(rows);
  auto* at = static_cast<float*>(to.data()) + row_begin * width;
  const auto part = device_tensor::wrap(on_.on(), dtype::f32, rows.shape(), to.owner(), at);
  on_.check(on_.ops().scale(1.0, staged, part));
}

std::vector<device_tensor> device_mlp::forward(const std::vector<device_tensor>& weights,
                                               const device_tensor& x) {
  if (weights.size() != 2 * layer_count())
    throw_failure(errc::shape_mismatch, "device_mlp: " + std::to_string(weights.size())
                                          + " weights for " + std::to_string(layer_count())
                                          + " layers");
  const auto batch = x.shape().empty() ? 0 : x.shape()[0];
  std::vector<device_tensor> out;
  for (std::size_t l = 0; l < layer_count(); ++l) {
    auto y = on_.empty(dtype::f32, {batch, widths_[l + 1]});
    on_.check(
      on_.ops().dense_forward(l == 0 ? x : out.back(), weights[2 * l], weights[2 * l + 1], y));
    if (l + 1 < layer_count())
      on_.check(on_.ops().relu_forward(y, y));
    out.push_back(std::move(y));
  }
  return out;
}

auto device_mlp::evaluate(const std::vector<device_tensor>& weights, const device_tensor& x,
                          const device_tensor& labels) -> outcome {
  const auto outputs = forward(weights, x);
  outcome out{.loss = on_.empty(dtype::f64, {}), .correct = on_.empty(dtype::i64, {})};
  on_.check(on_.ops().accuracy_count(outputs.back(), labels, out.correct));
  on_.check(on_.ops().softmax_cross_entropy(outputs.back(), labels, {}, out.loss));
  return out;
}

auto device_mlp::gradients(const std::vector<device_tensor>& weights, const device_tensor& x,
                           const device_tensor& labels, const std::vector<device_tensor>& gradients,
                           const std::function<void(std::size_t)>& layer_done) -> outcome {
  const auto outputs = forward(weights, x);
  auto& ops = on_.ops();
  outcome out{.loss = on_.empty(dtype::f64, {}), .correct = on_.empty(dtype::i64, {})};
  on_.check(ops.accuracy_count(outputs.back(), labels, out.correct));
  auto dy = outputs.back(); // its gradient takes its place
  on_.check(ops.softmax_cross_entropy(outputs.back(), labels, dy, out.loss));
  for (std::size_t l = layer_count(); l-- > 0;) {
    const auto& in = l == 0 ? x : outputs[l - 1];
    auto dx = l == 0 ? device_tensor{} : on_.empty(dtype::f32, in.shape());
    on_.check(
      ops.dense_backward(in, weights[2 * l], dy, gradients.at(2 * l), gradients.at(2 * l + 1), dx));
    if (layer_done)
      layer_done(l);
    if (l == 0)
      break;
    on_.check(ops.relu_backward(in, dx, dx));
    dy = std::move(dx);
  }
  return out;
}

} // namespace troupe
