#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include <troupe/device/tensor.hpp>
#include <troupe/kernels/optimizers.hpp>

namespace troupe {

namespace detail {
class matrix_products;
}

/// The kernels of `kernels/` on one stream of one device, of whatever kind: CPU kernels on its
/// thread, CUDA kernels and cuBLAS on a GPU. Calls enqueue and return; results are there for later
/// work on the stream, and for others once an event behind them passed.
///
/// Shapes, element types and devices are checked before anything is enqueued (`shape_mismatch`,
/// `dtype_mismatch`, `invalid_argument` name the operation, the argument and the sizes); what a
/// kernel can only see in the elements (a row or a label out of range) breaks the stream on a CPU,
/// and shows in the results on a GPU: see kernels/cuda.hpp. Types: f32 and f64 everywhere, i32 and
/// i64 where kernels have them. One thread at a time.
class device_ops {
public:
  device_ops(std::shared_ptr<device> on, device_stream stream);
  ~device_ops();
  device_ops(device_ops&&) noexcept;
  device_ops& operator=(device_ops&&) noexcept;

  const std::shared_ptr<device>& on() const { return on_; }
  const device_stream& stream() const { return stream_; }
  /// An event behind all that was enqueued so far.
  result<stream_event> record_event() { return on_->record_event(stream_); }

  // --- element-wise; `out` may be `a` or `b`
  result<void> add(const device_tensor& a, const device_tensor& b, const device_tensor& out);
  result<void> sub(const device_tensor& a, const device_tensor& b, const device_tensor& out);
  result<void> mul(const device_tensor& a, const device_tensor& b, const device_tensor& out);
  result<void> div(const device_tensor& a, const device_tensor& b, const device_tensor& out);
  result<void> min(const device_tensor& a, const device_tensor& b, const device_tensor& out);
  result<void> max(const device_tensor& a, const device_tensor& b, const device_tensor& out);
  /// y += alpha * x.
  result<void> axpy(double alpha, const device_tensor& x, const device_tensor& y);
  result<void> scale(double alpha, const device_tensor& x, const device_tensor& out);
  result<void> fill(double value, const device_tensor& out);
  /// Between f32 and one of bf16 and f16.
  result<void> cast(const device_tensor& in, const device_tensor& out);

  // --- reductions to one element, in the order of kernels/reduce.hpp
  /// `out`: of x's type for floats, i64 for integers.
  result<void> sum(const device_tensor& x, const device_tensor& out);
  /// `out`: f64.
  result<void> mean(const device_tensor& x, const device_tensor& out);
  result<void> max_element(const device_tensor& x, const device_tensor& out);
  /// x: f32; `out`: f64.
  result<void> l2_norm(const device_tensor& x, const device_tensor& out);

  // --- layers
  /// y = x w + bias. x: [batch, inputs]; w: [inputs, outputs]; bias: [outputs].
  result<void> dense_forward(const device_tensor& x, const device_tensor& w,
                             const device_tensor& bias, const device_tensor& y);
  /// dw = x^T dy, db = column sums of dy, dx = dy w^T; an undefined `dx` is skipped.
  result<void> dense_backward(const device_tensor& x, const device_tensor& w,
                              const device_tensor& dy, const device_tensor& dw,
                              const device_tensor& db, const device_tensor& dx);
  /// y[r, c] += bias[c].
  result<void> add_bias(const device_tensor& bias, const device_tensor& y);
  result<void> relu_forward(const device_tensor& x, const device_tensor& y);
  result<void> relu_backward(const device_tensor& y, const device_tensor& dy,
                             const device_tensor& dx);
  /// `loss`: one f64, the mean. `dlogits` may be undefined. Labels: u8, i32 or i64, [batch].
  result<void> softmax_cross_entropy(const device_tensor& logits, const device_tensor& labels,
                                     const device_tensor& dlogits, const device_tensor& loss);
  /// `correct`: one i64.
  result<void> accuracy_count(const device_tensor& logits, const device_tensor& labels,
                              const device_tensor& correct);

  // --- update rules, in place
  result<void> sgd_update(const device_tensor& p, const device_tensor& g,
                          const kernels::sgd_params& params);
  result<void> momentum_update(const device_tensor& p, const device_tensor& v,
                               const device_tensor& g, const kernels::momentum_params& params);
  result<void> adagrad_update(const device_tensor& p, const device_tensor& acc,
                              const device_tensor& g, const kernels::adagrad_params& params);
  result<void> adam_update(const device_tensor& p, const device_tensor& m, const device_tensor& v,
                           const device_tensor& g, std::uint64_t t,
                           const kernels::adam_params& params);
  /// The rule of any optimizer. `slots`: those of its row in core/optimizers.hpp, in that order.
  result<void> update(const optimizer_spec& how, const kernels::update_step& step,
                      const device_tensor& p, std::span<const device_tensor> slots,
                      const device_tensor& g);

  // --- rows of tables; `rows`: i64 [n]
  /// `bad_rows`: one i64, set to the number of rows out of range, which give zeros.
  result<void> gather_rows(const device_tensor& table, const device_tensor& rows,
                           const device_tensor& out, const device_tensor& bad_rows);
  /// table row rows[i] += values row i, in order. Rows out of range are left out.
  result<void> scatter_add_rows(const device_tensor& table, const device_tensor& rows,
                                const device_tensor& values, const device_tensor& bad_rows);

  // --- buckets; parts: f32; the bucket: f32 or bf16 of as many elements
  result<void> pack_bucket(std::span<const device_tensor> parts, const device_tensor& bucket);
  result<void> unpack_bucket(const device_tensor& bucket, std::span<const device_tensor> parts,
                             float scale);

private:
  enum class pairwise { add, sub, mul, div, min, max };
  enum class folding { sum, mean, max_element, l2_norm };
  result<void> binary(pairwise which, const device_tensor& a, const device_tensor& b,
                      const device_tensor& out);
  result<void> fold(folding which, const device_tensor& x, const device_tensor& out);
  std::shared_ptr<device> on_;
  device_stream stream_;
  std::shared_ptr<detail::matrix_products> products_; ///< shared with operations that use it
};

} // namespace troupe
