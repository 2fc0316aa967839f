#include <troupe/device/ops.hpp>

#include <utility>

#include <troupe/device/detail/matrix_products.hpp>
#include <troupe/device/detail/ops_support.hpp>
#include <troupe/kernels/casts.hpp>
#include <troupe/kernels/cuda.hpp>
#include <troupe/kernels/elementwise.hpp>
#include <troupe/kernels/reduce.hpp>

namespace troupe {

using namespace detail;

device_ops::device_ops(std::shared_ptr<device> on, device_stream stream)
  : on_{std::move(on)},
    stream_{std::move(stream)},
    products_{std::make_shared<matrix_products>(stream_.native(), on_->id().index,
                                                [on = std::weak_ptr{on_}] {
                                                  auto d = on.lock();
                                                  return d && !d->why_failed();
                                                })} {}
device_ops::~device_ops() = default;
device_ops::device_ops(device_ops&&) noexcept = default;
device_ops& device_ops::operator=(device_ops&&) noexcept = default;

// --- element-wise

result<void> device_ops::binary(pairwise which, const device_tensor& a, const device_tensor& b,
                                const device_tensor& out) {
  static constexpr const char* names[] = {"add", "sub", "mul", "div", "min", "max"};
  const char* op = names[static_cast<int>(which)];
  if (auto why = check_here(op, *on_, {{"a", a}, {"b", b}, {"out", out}}))
    return *why;
  if (auto why = check_type(op, {"a", a}, number_types))
    return *why;
  if (auto why = check_alike(op, {{"out", out}, {"a", a}, {"b", b}}))
    return *why;
  result<void> done;
  with_number(a.type(), [&]<class T>(std::type_identity<T>) {
    auto cpu = [=] {
      const auto x = span_of<const T>(a), y = span_of<const T>(b);
      const auto to = span_of<T>(out);
      switch (which) {
        case pairwise::add: return kernels::add<T>(x, y, to);
        case pairwise::sub: return kernels::sub<T>(x, y, to);
        case pairwise::mul: return kernels::mul<T>(x, y, to);
        case pairwise::div: return kernels::div<T>(x, y, to);
        case pairwise::min: return kernels::min<T>(x, y, to);
        case pairwise::max: return kernels::max<T>(x, y, to);
      }
    };
    auto gpu = [=]([[maybe_unused]] void* stream) {
      [[maybe_unused]] const T *x = a.as<T>(), *y = b.as<T>();
      [[maybe_unused]] T* to = out.as<T>();
      [[maybe_unused]] const auto n = static_cast<std::size_t>(out.size());
      switch (which) {
        case pairwise::add: return TROUPE_CUDA_LAUNCH(kernels::cuda::add<T>(x, y, to, n, stream));
        case pairwise::sub: return TROUPE_CUDA_LAUNCH(kernels::cuda::sub<T>(x, y, to, n, stream));
        case pairwise::mul: return TROUPE_CUDA_LAUNCH(kernels::cuda::mul<T>(x, y, to, n, stream));
        case pairwise::div: return TROUPE_CUDA_LAUNCH(kernels::cuda::div<T>(x, y, to, n, stream));
        case pairwise::min: return TROUPE_CUDA_LAUNCH(kernels::cuda::min<T>(x, y, to, n, stream));
        case pairwise::max: return TROUPE_CUDA_LAUNCH(kernels::cuda::max<T>(x, y, to, n, stream));
      }
      return no_cuda_code;
    };
    done = on_->enqueue(stream_, either(op, cpu, gpu));
  });
  return done;
}

#define TROUPE_PAIRWISE(name)                                                   \
  result<void> device_ops::name(const device_tensor& a, const device_tensor& b, \
                                const device_tensor& out) {                     \
    return binary(pairwise::name, a, b, out);                                   \
  }
TROUPE_PAIRWISE(add)
TROUPE_PAIRWISE(sub)
TROUPE_PAIRWISE(mul)
TROUPE_PAIRWISE(div)
TROUPE_PAIRWISE(min)
TROUPE_PAIRWISE(max)
#undef TROUPE_PAIRWISE

result<void> device_ops::axpy(double alpha, const device_tensor& x, const device_tensor& y) {
  if (auto why = check_here("axpy", *on_, {{"x", x}, {"y", y}}))
    return *why;
  if (auto why = check_type("axpy", {"x", x}, number_types))
    return *why;
  if (auto why = check_alike("axpy", {{"y", y}, {"x", x}}))
    return *why;
  result<void> done;
  with_number(x.type(), [&]<class T>(std::type_identity<T>) {
    const T a = static_cast<T>(alpha);
    done = on_->enqueue(stream_,
                        either(
                          "axpy", [=] { kernels::axpy<T>(a, span_of<const T>(x), span_of<T>(y)); },
                          [=]([[maybe_unused]] void* stream) {
                            return TROUPE_CUDA_LAUNCH(kernels::cuda::axpy<T>(
                              a, x.as<T>(), y.as<T>(), static_cast<std::size_t>(y.size()), stream));
                          }));
  });
  return done;
}

result<void> device_ops::scale(double alpha, const device_tensor& x, const device_tensor& out) {
  if (auto why = check_here("scale", *on_, {{"x", x}, {"out", out}}))
    return *why;
  if (auto why = check_type("scale", {"x", x}, number_types))
    return *why;
  if (auto why = check_alike("scale", {{"out", out}, {"x", x}}))
    return *why;
  result<void> done;
  with_number(x.type(), [&]<class T>(std::type_identity<T>) {
    const T a = static_cast<T>(alpha);
    done = on_->enqueue(
      stream_, either(
                 "scale", [=] { kernels::scale<T>(a, span_of<const T>(x), span_of<T>(out)); },
                 [=]([[maybe_unused]] void* stream) {
                   return TROUPE_CUDA_LAUNCH(kernels::cuda::scale<T>(
                     a, x.as<T>(), out.as<T>(), static_cast<std::size_t>(out.size()), stream));
                 }));
  });
  return done;
}

result<void> device_ops::fill(double value, const device_tensor& out) {
  if (auto why = check_here("fill", *on_, {{"out", out}}))
    return *why;
  if (auto why = check_type("fill", {"out", out}, number_types))
    return *why;
  result<void> done;
  with_number(out.type(), [&]<class T>(std::type_identity<T>) {
    const T v = static_cast<T>(value);
    done =
      on_->enqueue(stream_, either(
                              "fill", [=] { kernels::fill<T>(v, span_of<T>(out)); },
                              [=]([[maybe_unused]] void* stream) {
                                return TROUPE_CUDA_LAUNCH(kernels::cuda::fill<T>(
                                  v, out.as<T>(), static_cast<std::size_t>(out.size()), stream));
                              }));
  });
  return done;
}

result<void> device_ops::cast(const device_tensor& in, const device_tensor& out) {
  if (auto why = check_here("cast", *on_, {{"in", in}, {"out", out}}))
    return *why;
  if (auto why = check_size("cast", {"out", out}, in.size()))
    return *why;
  const bool narrows = in.type() == dtype::f32;
  const auto half = narrows ? out.type() : in.type();
  if (auto why =
        check_type("cast", {narrows ? "out" : "in", narrows ? out : in}, {dtype::bf16, dtype::f16}))
    return *why;
  if (auto why = check_type("cast", {narrows ? "in" : "out", narrows ? in : out}, {dtype::f32}))
    return *why;
  const bool bf16 = half == dtype::bf16;
  auto cpu = [=] {
    using bits = std::uint16_t;
    if (narrows)
      (bf16 ? kernels::cast_f32_to_bf16 : kernels::cast_f32_to_f16)(span_of<const float>(in),
                                                                    span_of<bits>(out));
    else
      (bf16 ? kernels::cast_bf16_to_f32 : kernels::cast_f16_to_f32)(span_of<const bits>(in),
                                                                    span_of<float>(out));
  };
  auto gpu = [=]([[maybe_unused]] void* stream) -> int {
#ifdef TROUPE_HAS_CUDA
    namespace cuda = kernels::cuda;
    const auto n = static_cast<std::size_t>(in.size());
    if (narrows)
      return (bf16 ? cuda::cast_f32_to_bf16 : cuda::cast_f32_to_f16)(
        static_cast<const float*>(in.data()), static_cast<std::uint16_t*>(out.data()), n, stream);
    return (bf16 ? cuda::cast_bf16_to_f32 : cuda::cast_f16_to_f32)(
      static_cast<const std::uint16_t*>(in.data()), static_cast<float*>(out.data()), n, stream);
#else
    return no_cuda_code;
#endif
  };
  return on_->enqueue(stream_, either("cast", cpu, gpu));
}

// --- reductions

result<void> device_ops::fold(folding which, const device_tensor& x, const device_tensor& out) {
  static constexpr const char* names[] = {"sum", "mean", "max_element", "l2_norm"};
  const char* op = names[static_cast<int>(which)];
  if (auto why = check_here(op, *on_, {{"x", x}, {"out", out}}))
    return *why;
  if (auto why = which == folding::l2_norm ? check_type(op, {"x", x}, {dtype::f32})
                                           : check_type(op, {"x", x}, number_types))
    return *why;
  const bool integral = x.type() == dtype::i32 || x.type() == dtype::i64;
  const auto out_type = which == folding::max_element ? x.type()
                        : which == folding::sum       ? (integral ? dtype::i64 : x.type())
                                                      : dtype::f64;
  if (auto why = check_type(op, {"out", out}, {out_type}))
    return *why;
  if (auto why = check_size(op, {"out", out}, 1))
    return *why;
  auto got = scratch_for(*on_, stream_, reduce_scratch(x.size()));
  if (!got)
    return got.error();
  const auto scratch = *got;
  result<void> done;
  with_number(x.type(), [&]<class T>(std::type_identity<T>) {
    auto cpu = [=] {
      const auto in = span_of<const T>(x);
      switch (which) {
        case folding::sum:
          *static_cast<kernels::sum_t<T>*>(out.data()) = kernels::sum<T>(in);
          break;
        case folding::mean: *static_cast<double*>(out.data()) = kernels::mean<T>(in); break;
        case folding::max_element:
          *static_cast<T*>(out.data()) = kernels::max_element<T>(in);
          break;
        case folding::l2_norm:
          if constexpr (std::is_same_v<T, float>)
            *static_cast<double*>(out.data()) = kernels::l2_norm<T>(in);
          break;
      }
    };
    auto gpu = [=]([[maybe_unused]] void* stream) -> int {
#ifdef TROUPE_HAS_CUDA
      namespace cuda = kernels::cuda;
      const auto n = static_cast<std::size_t>(x.size());
      const auto* in = x.as<T>();
      switch (which) {
        case folding::sum:
          return cuda::sum<T>(in, n, static_cast<kernels::sum_t<T>*>(out.data()), scratch.data(),
                              stream);
        case folding::mean:
          return cuda::mean<T>(in, n, static_cast<double*>(out.data()), scratch.data(), stream);
        case folding::max_element:
          return cuda::max_element<T>(in, n, static_cast<T*>(out.data()), scratch.data(), stream);
        case folding::l2_norm:
          if constexpr (std::is_same_v<T, float>)
            return cuda::l2_norm<T>(in, n, static_cast<double*>(out.data()), scratch.data(),
                                    stream);
      }
#endif
      return no_cuda_code;
    };
    done = on_->enqueue(stream_, either(op, cpu, gpu));
  });
  return done;
}

result<void> device_ops::sum(const device_tensor& x, const device_tensor& out) {
  return fold(folding::sum, x, out);
}
result<void> device_ops::mean(const device_tensor& x, const device_tensor& out) {
  return fold(folding::mean, x, out);
}
result<void> device_ops::max_element(const device_tensor& x, const device_tensor& out) {
  return fold(folding::max_element, x, out);
}
result<void> device_ops::l2_norm(const device_tensor& x, const device_tensor& out) {
  return fold(folding::l2_norm, x, out);
}

} // namespace troupe
