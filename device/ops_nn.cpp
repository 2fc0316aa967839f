#include <troupe/device/ops.hpp>

#include <utility>

#include <troupe/device/detail/matrix_products.hpp>
#include <troupe/device/detail/ops_support.hpp>
#include <troupe/kernels/cuda.hpp>
#include <troupe/kernels/nn.hpp>

namespace troupe {

using namespace detail;

namespace {

/// Rows and columns of a matrix; of a vector, one row.
struct extents {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
};

extents of(const device_tensor& x) {
  if (x.shape().size() < 2)
    return {1, x.size()};
  const auto rows = x.shape().front();
  return {rows, rows == 0 ? x.shape().back() : x.size() / rows};
}

std::optional<failure> check_matrix(const char* op, const named_tensor& x, std::int64_t rows,
                                    std::int64_t cols) {
  const auto e = of(x.x);
  if (e.rows == rows && e.cols == cols)
    return std::nullopt;
  return make_failure(errc::shape_mismatch, std::string{op} + ": " + x.name + " has shape "
                                              + to_string(x.x.shape()) + ", expected "
                                              + to_string(shape_t{rows, cols}));
}

template <class... Checks>
std::optional<failure> first_of(Checks... checks) {
  std::optional<failure> out;
  (void)((out = checks(), out.has_value()) || ...);
  return out;
}

} // namespace

result<void> device_ops::dense_forward(const device_tensor& x, const device_tensor& w,
                                       const device_tensor& bias, const device_tensor& y) {
  const char* op = "dense_forward";
  if (auto why = check_here(op, *on_, {{"x", x}, {"w", w}, {"bias", bias}, {"y", y}}))
    return *why;
  const auto [batch, inputs] = of(x);
  const auto outputs = of(w).cols;
  for (const auto& each : {named_tensor{"x", x}, {"w", w}, {"bias", bias}, {"y", y}})
    if (auto why = check_type(op, each, {x.type() == dtype::f64 ? dtype::f64 : dtype::f32}))
      return *why;
  if (auto why = check_matrix(op, {"w", w}, inputs, outputs))
    return *why;
  if (auto why = check_size(op, {"bias", bias}, outputs))
    return *why;
  if (auto why = check_matrix(op, {"y", y}, batch, outputs))
    return *why;
  const kernels::dense_size size{static_cast<std::size_t>(batch), static_cast<std::size_t>(inputs),
                                 static_cast<std::size_t>(outputs)};
  result<void> done;
  with_float(x.type(), [&]<class T>(std::type_identity<T>) {
    auto cpu = [=] {
      kernels::dense_forward<T>(span_of<const T>(x), span_of<const T>(w), span_of<const T>(bias),
                                size, span_of<T>(y));
    };
    device_op what{.name = op, .run = [=, products = products_](const launch_site& at) {
                     if (!at.stream) {
                       cpu();
                       return device_answer{};
                     }
                     auto answer = cuda_answer(TROUPE_CUDA_LAUNCH(kernels::cuda::spread_bias<T>(
                       bias.as<T>(), y.as<T>(), size.batch, size.outputs, at.stream)));
                     if (!answer.ok() || size.batch == 0 || size.inputs == 0 || size.outputs == 0)
                       return answer;
                     return products->run({.type = x.type(),
                                           .a = x.data(),
                                           .b = w.data(),
                                           .c = y.data(),
                                           .rows = size.batch,
                                           .cols = size.outputs,
                                           .inner = size.inputs,
                                           .beta = 1});
                   }};
    done = on_->enqueue(stream_, what);
  });
  return done;
}

result<void> device_ops::dense_backward(const device_tensor& x, const device_tensor& w,
                                        const device_tensor& dy, const device_tensor& dw,
                                        const device_tensor& db, const device_tensor& dx) {
  const char* op = "dense_backward";
  if (auto why = check_here(op, *on_, {{"x", x}, {"w", w}, {"dy", dy}, {"dw", dw}, {"db", db}}))
    return *why;
  if (dx.on())
    if (auto why = check_here(op, *on_, {{"dx", dx}}))
      return *why;
  const auto [batch, inputs] = of(x);
  const auto outputs = of(w).cols;
  const auto type = x.type() == dtype::f64 ? dtype::f64 : dtype::f32;
  for (const auto& each :
       {named_tensor{"x", x}, {"w", w}, {"dy", dy}, {"dw", dw}, {"db", db}, {"dx", dx}})
    if (each.x.on())
      if (auto why = check_type(op, each, {type}))
        return *why;
  auto wrong = first_of(
    [&, inputs = inputs] {
      return check_matrix(op, {"w", w}, inputs, outputs);
    },
    [&, batch = batch] {
      return check_matrix(op, {"dy", dy}, batch, outputs);
    },
    [&, inputs = inputs] {
      return check_matrix(op, {"dw", dw}, inputs, outputs);
    },
    [&] {
      return check_size(op, {"db", db}, outputs);
    },
    [&, batch = batch, inputs = inputs] {
      return dx.on() ? check_matrix(op, {"dx", dx}, batch, inputs) : std::nullopt;
    });
  if (wrong)
    return *wrong;
  const kernels::dense_size size{static_cast<std::size_t>(batch), static_cast<std::size_t>(inputs),
                                 static_cast<std::size_t>(outputs)};
  result<void> done;
  with_float(x.type(), [&]<class T>(std::type_identity<T>) {
    auto gpu = [=, products = products_]([[maybe_unused]] void* stream) {
      auto answer = cuda_answer(TROUPE_CUDA_LAUNCH(
        kernels::cuda::bias_gradient<T>(dy.as<T>(), db.as<T>(), size.batch, size.outputs, stream)));
      if (answer.ok() && size.inputs * size.outputs != 0 && size.batch == 0)
        answer = cuda_answer(TROUPE_CUDA_LAUNCH(
          kernels::cuda::fill<T>(T(0), dw.as<T>(), size.inputs * size.outputs, stream)));
      if (answer.ok() && dx.on() && size.outputs == 0 && size.batch * size.inputs != 0)
        answer = cuda_answer(TROUPE_CUDA_LAUNCH(
          kernels::cuda::fill<T>(T(0), dx.as<T>(), size.batch * size.inputs, stream)));
      if (!answer.ok() || size.batch == 0 || size.inputs == 0 || size.outputs == 0)
        return answer;
      answer = products->run({.type = x.type(),
                              .a = x.data(),
                              .b = dy.data(),
                              .c = dw.data(),
                              .rows = size.inputs,
                              .cols = size.outputs,
                              .inner = size.batch,
                              .a_transposed = true});
      if (!answer.ok() || !dx.on())
        return answer;
      return products->run({.type = x.type(),
                            .a = dy.data(),
                            .b = w.data(),
                            .c = dx.data(),
                            .rows = size.batch,
                            .cols = size.inputs,
                            .inner = size.outputs,
                            .b_transposed = true});
    };
    device_op what{.name = op, .run = [=](const launch_site& at) {
                     if (at.stream)
                       return gpu(at.stream);
                     kernels::dense_backward<T>(
                       span_of<const T>(x), span_of<const T>(w), span_of<const T>(dy), size,
                       span_of<T>(dw), span_of<T>(db), dx.on() ? span_of<T>(dx) : std::span<T>{});
                     return device_answer{};
                   }};
    done = on_->enqueue(stream_, what);
  });
  return done;
}

result<void> device_ops::add_bias(const device_tensor& bias, const device_tensor& y) {
  if (auto why = check_here("add_bias", *on_, {{"bias", bias}, {"y", y}}))
    return *why;
  if (auto why = check_type("add_bias", {"y", y}, float_types))
    return *why;
  if (auto why = check_type("add_bias", {"bias", bias}, {y.type()}))
    return *why;
  const auto [rows, cols] = of(y);
  if (auto why = check_size("add_bias", {"bias", bias}, cols))
    return *why;
  [[maybe_unused]] const auto n = static_cast<std::size_t>(rows);
  [[maybe_unused]] const auto width = static_cast<std::size_t>(cols);
  result<void> done;
  with_float(y.type(), [&]<class T>(std::type_identity<T>) {
    done = on_->enqueue(
      stream_, either(
                 "add_bias", [=] { kernels::add_bias<T>(span_of<const T>(bias), span_of<T>(y)); },
                 [=]([[maybe_unused]] void* stream) {
                   return TROUPE_CUDA_LAUNCH(
                     kernels::cuda::add_bias<T>(bias.as<T>(), y.as<T>(), n, width, stream));
                 }));
  });
  return done;
}

result<void> device_ops::relu_forward(const device_tensor& x, const device_tensor& y) {
  if (auto why = check_here("relu_forward", *on_, {{"x", x}, {"y", y}}))
    return *why;
  if (auto why = check_type("relu_forward", {"x", x}, float_types))
    return *why;
  if (auto why = check_alike("relu_forward", {{"y", y}, {"x", x}}))
    return *why;
  result<void> done;
  with_float(x.type(), [&]<class T>(std::type_identity<T>) {
    done = on_->enqueue(
      stream_,
      either(
        "relu_forward", [=] { kernels::relu_forward<T>(span_of<const T>(x), span_of<T>(y)); },
        [=]([[maybe_unused]] void* stream) {
          return TROUPE_CUDA_LAUNCH(kernels::cuda::relu_forward<T>(
            x.as<T>(), y.as<T>(), static_cast<std::size_t>(y.size()), stream));
        }));
  });
  return done;
}

result<void> device_ops::relu_backward(const device_tensor& y, const device_tensor& dy,
                                       const device_tensor& dx) {
  if (auto why = check_here("relu_backward", *on_, {{"y", y}, {"dy", dy}, {"dx", dx}}))
    return *why;
  if (auto why = check_type("relu_backward", {"y", y}, float_types))
    return *why;
  if (auto why = check_alike("relu_backward", {{"dx", dx}, {"y", y}, {"dy", dy}}))
    return *why;
  result<void> done;
  with_float(y.type(), [&]<class T>(std::type_identity<T>) {
    done = on_->enqueue(
      stream_,
      either(
        "relu_backward",
        [=] {
          kernels::relu_backward<T>(span_of<const T>(y), span_of<const T>(dy), span_of<T>(dx));
        },
        [=]([[maybe_unused]] void* stream) {
          return TROUPE_CUDA_LAUNCH(kernels::cuda::relu_backward<T>(
            y.as<T>(), dy.as<T>(), dx.as<T>(), static_cast<std::size_t>(dx.size()), stream));
        }));
  });
  return done;
}

namespace {

std::optional<failure> check_logits(const char* op, const device_tensor& logits,
                                    const device_tensor& labels) {
  if (auto why = check_type(op, {"logits", logits}, float_types))
    return why;
  if (auto why = check_type(op, {"labels", labels}, {dtype::u8, dtype::i32, dtype::i64}))
    return why;
  if (logits.shape().size() != 2)
    return make_failure(errc::shape_mismatch, std::string{op} + ": logits has shape "
                                                + to_string(logits.shape())
                                                + ", expected [batch, classes]");
  return check_size(op, {"labels", labels}, logits.shape()[0]);
}

} // namespace

result<void> device_ops::softmax_cross_entropy(const device_tensor& logits,
                                               const device_tensor& labels,
                                               const device_tensor& dlogits,
                                               const device_tensor& loss) {
  const char* op = "softmax_cross_entropy";
  if (auto why = check_here(op, *on_, {{"logits", logits}, {"labels", labels}, {"loss", loss}}))
    return *why;
  if (auto why = check_logits(op, logits, labels))
    return *why;
  if (dlogits.on()) {
    if (auto why = check_here(op, *on_, {{"dlogits", dlogits}}))
      return *why;
    if (auto why = check_alike(op, {{"dlogits", dlogits}, {"logits", logits}}))
      return *why;
  }
  if (auto why = check_type(op, {"loss", loss}, {dtype::f64}))
    return *why;
  if (auto why = check_size(op, {"loss", loss}, 1))
    return *why;
  const auto batch = logits.shape()[0];
  const auto classes = static_cast<std::size_t>(logits.shape()[1]);
  auto scratch = scratch_for(*on_, stream_, softmax_scratch(batch));
  if (!scratch)
    return scratch.error();
  result<void> done;
  with_float(logits.type(), [&]<class T>(std::type_identity<T>) {
    with_label(labels.type(), [&]<class L>(std::type_identity<L>) {
      auto cpu = [=] {
        *loss.as<double>() = kernels::softmax_cross_entropy<T, L>(
          span_of<const T>(logits), span_of<const L>(labels), classes,
          dlogits.on() ? span_of<T>(dlogits) : std::span<T>{});
      };
      auto gpu = [=, memory = *scratch]([[maybe_unused]] void* stream) {
        return TROUPE_CUDA_LAUNCH(kernels::cuda::softmax_cross_entropy<T, L>(
          logits.as<T>(), labels.as<L>(), static_cast<std::size_t>(batch), classes,
          dlogits.on() ? dlogits.as<T>() : nullptr, loss.as<double>(), memory.data(), stream));
      };
      done = on_->enqueue(stream_, either(op, cpu, gpu));
    });
  });
  return done;
}

result<void> device_ops::accuracy_count(const device_tensor& logits, const device_tensor& labels,
                                        const device_tensor& correct) {
  const char* op = "accuracy_count";
  if (auto why =
        check_here(op, *on_, {{"logits", logits}, {"labels", labels}, {"correct", correct}}))
    return *why;
  if (auto why = check_logits(op, logits, labels))
    return *why;
  if (auto why = check_type(op, {"correct", correct}, {dtype::i64}))
    return *why;
  if (auto why = check_size(op, {"correct", correct}, 1))
    return *why;
  const auto batch = logits.shape()[0];
  const auto classes = static_cast<std::size_t>(logits.shape()[1]);
  auto scratch = scratch_for(*on_, stream_, softmax_scratch(batch));
  if (!scratch)
    return scratch.error();
  result<void> done;
  with_float(logits.type(), [&]<class T>(std::type_identity<T>) {
    with_label(labels.type(), [&]<class L>(std::type_identity<L>) {
      auto cpu = [=] {
        *correct.as<std::int64_t>() = static_cast<std::int64_t>(kernels::accuracy_count<T, L>(
          span_of<const T>(logits), span_of<const L>(labels), classes));
      };
      auto gpu = [=, memory = *scratch]([[maybe_unused]] void* stream) {
        return TROUPE_CUDA_LAUNCH(kernels::cuda::accuracy_count<T, L>(
          logits.as<T>(), labels.as<L>(), static_cast<std::size_t>(batch), classes,
          correct.as<std::int64_t>(), memory.data(), stream));
      };
      done = on_->enqueue(stream_, either(op, cpu, gpu));
    });
  });
  return done;
}

} // namespace troupe
