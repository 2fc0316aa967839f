#include <troupe/strategies/variables/metrics.hpp>

#include <span>
#include <utility>
#include <vector>

#include <troupe/kernels/casts.hpp>

namespace troupe {

namespace {

/// Elements as f64.
std::vector<double> doubles(const char* what, const tensor& x) {
  if (!x.defined())
    throw_failure(errc::invalid_argument, std::string{what} + ": no value given");
  std::vector<double> out;
  auto all = [&](auto zero) {
    for (const auto each : x.as<decltype(zero)>())
      out.push_back(static_cast<double>(each));
  };
  switch (x.type()) {
    case dtype::u8: all(std::uint8_t{}); return out;
    case dtype::i8: all(std::int8_t{}); return out;
    case dtype::i32: all(std::int32_t{}); return out;
    case dtype::i64: all(std::int64_t{}); return out;
    case dtype::f32: all(float{}); return out;
    case dtype::f64: all(double{}); return out;
    case dtype::f16:
    case dtype::bf16: {
      const std::span<const std::uint16_t> bits{
        reinterpret_cast<const std::uint16_t*>(x.bytes().data()),
        static_cast<std::size_t>(x.size())};
      for (const auto each : bits)
        out.push_back(x.type() == dtype::f16 ? kernels::f32_from_f16(each)
                                             : kernels::f32_from_bf16(each));
      return out;
    }
  }
  throw_failure(errc::dtype_mismatch, std::string{what} + ": elements are " + to_string(x.type()));
}

std::vector<double> weights_for(const char* what, const tensor& values, const tensor& weights) {
  auto out = doubles(what, weights);
  if (weights.size() == 1)
    out.assign(static_cast<std::size_t>(values.size()), out[0]);
  else if (weights.shape() != values.shape())
    throw_failure(errc::shape_mismatch, std::string{what} + ": weights have shape "
                                          + to_string(weights.shape()) + ", values "
                                          + to_string(values.shape()));
  return out;
}

distributed_variable counter(const std::string& name) {
  return make_variable({.name = name,
                        .initial = tensor::scalar(0.0),
                        .synchronization = variable_synchronization::on_read,
                        .aggregation = variable_aggregation::sum});
}

tensor of_type_of(const tensor& like, double x) {
  return like.type() == dtype::f64 ? tensor::scalar(x) : tensor::scalar(static_cast<float>(x));
}

std::uint32_t replicas_here() { return get_strategy().num_replicas_in_sync(); }

} // namespace

mean_metric::mean_metric(const std::string& name)
  : total_{counter(name + "/total")}, count_{counter(name + "/count")} {}

void mean_metric::add(double total, double weight) const {
  total_.assign_add(total);
  count_.assign_add(weight);
}

void mean_metric::update(const tensor& values) const { update(values, tensor::scalar(1.0)); }

void mean_metric::update(const tensor& values, const tensor& weights) const {
  const auto xs = doubles("mean_metric: values", values);
  const auto ws = weights_for("mean_metric", values, weights);
  double total = 0, weight = 0;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    total += xs[i] * ws[i];
    weight += ws[i];
  }
  add(total, weight);
}

double mean_metric::result() const {
  const auto total = total_.item<double>(), count = count_.item<double>();
  return count == 0 ? 0 : total / count;
}

void mean_metric::reset() const {
  total_.assign(0.0);
  count_.assign(0.0);
}

void accuracy_metric::update(const tensor& labels, const tensor& predictions) const {
  const auto wanted = doubles("accuracy_metric: labels", labels);
  auto given = doubles("accuracy_metric: predictions", predictions);
  auto scores = labels.shape();
  if (predictions.rank() == labels.rank() + 1)
    scores.push_back(predictions.shape().back());
  if (predictions.shape() != scores || (scores != labels.shape() && scores.back() < 1))
    throw_failure(errc::shape_mismatch, "accuracy_metric: predictions have shape "
                                          + to_string(predictions.shape()) + ", labels "
                                          + to_string(labels.shape()));
  if (scores != labels.shape()) {
    const auto classes = static_cast<std::size_t>(scores.back());
    for (std::size_t row = 0; row < wanted.size(); ++row) {
      std::size_t best = 0;
      for (std::size_t k = 1; k < classes; ++k)
        if (given[row * classes + k] > given[row * classes + best])
          best = k;
      given[row] = static_cast<double>(best); // rows before are read already
    }
  }
  double right = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    right += given[i] == wanted[i] ? 1 : 0;
  mean_.add(right, static_cast<double>(wanted.size()));
}

tensor average_loss(const tensor& per_example, std::optional<std::int64_t> global_batch,
                    const tensor& weights) {
  if (per_example.rank() == 0)
    throw_failure(errc::shape_mismatch,
                  "average_loss: per_example is a scalar, expected one loss per example");
  const auto batch =
    global_batch.value_or(per_example.rows() * static_cast<std::int64_t>(replicas_here()));
  if (batch < 1 && !(batch == 0 && per_example.size() == 0))
    throw_failure(errc::invalid_argument, "average_loss: global_batch is " + std::to_string(batch)
                                            + ", expected 1 or more");
  auto xs = doubles("average_loss", per_example);
  if (weights.defined()) {
    const auto ws = weights_for("average_loss", per_example, weights);
    for (std::size_t i = 0; i < xs.size(); ++i)
      xs[i] *= ws[i];
  }
  double sum = 0;
  for (const auto x : xs)
    sum += x;
  return of_type_of(per_example, batch == 0 ? 0 : sum / static_cast<double>(batch));
}

tensor scale_regularization_loss(const tensor& loss) {
  double sum = 0;
  for (const auto x : doubles("scale_regularization_loss", loss))
    sum += x;
  return of_type_of(loss, sum / replicas_here());
}

} // namespace troupe
