#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include <troupe/device/cuda_backend.hpp>
#include <troupe/device/ops.hpp>

/// Parts that the operations of `device_ops` share: checks, and the choice of the kernel.
namespace troupe::detail {

struct named_tensor {
  const char* name;
  const device_tensor& x;
};

/// Whether all tensors are defined and live on `on`.
std::optional<failure> check_here(const char* op, const device& on,
                                  std::initializer_list<named_tensor> all);
/// Whether all tensors have the first one's dtype and number of elements.
std::optional<failure> check_alike(const char* op, std::initializer_list<named_tensor> all);
std::optional<failure> check_type(const char* op, const named_tensor& x,
                                  std::initializer_list<dtype> allowed);
std::optional<failure> check_size(const char* op, const named_tensor& x, std::int64_t size);

template <class T>
std::span<T> span_of(const device_tensor& x) {
  return {static_cast<T*>(x.data()), static_cast<std::size_t>(x.size())};
}

/// f(std::type_identity<T>{}) for the element type; `check_type` came before.
template <class F>
void with_float(dtype type, F f) {
  if (type == dtype::f64)
    f(std::type_identity<double>{});
  else
    f(std::type_identity<float>{});
}

template <class F>
void with_number(dtype type, F f) {
  switch (type) {
    case dtype::f64: return f(std::type_identity<double>{});
    case dtype::i32: return f(std::type_identity<std::int32_t>{});
    case dtype::i64: return f(std::type_identity<std::int64_t>{});
    default: return f(std::type_identity<float>{});
  }
}

template <class F>
void with_label(dtype type, F f) {
  switch (type) {
    case dtype::u8: return f(std::type_identity<std::uint8_t>{});
    case dtype::i32: return f(std::type_identity<std::int32_t>{});
    default: return f(std::type_identity<std::int64_t>{});
  }
}

inline constexpr std::initializer_list<dtype> float_types = {dtype::f32, dtype::f64};
inline constexpr std::initializer_list<dtype> number_types = {dtype::f32, dtype::f64, dtype::i32,
                                                              dtype::i64};

/// Bytes of scratch memory that the CUDA kernels want.
std::size_t reduce_scratch(std::int64_t n);
std::size_t softmax_scratch(std::int64_t batch);
std::size_t scatter_scratch(std::int64_t n);
/// Scratch memory on a GPU; none on a CPU, whose kernels need none.
result<device_memory> scratch_for(device& on, const device_stream& stream, std::size_t bytes);

/// An operation with two forms. A GPU has a stream of its own; a CPU device, and a device that is
/// made up, have none. Both forms own what they work on. `on_gpu(stream)` gives CUDA's number.
template <class Cpu, class Gpu>
device_op either(const char* name, Cpu on_cpu, Gpu on_gpu) {
  return {.name = name,
          .run = [on_cpu = std::move(on_cpu), on_gpu = std::move(on_gpu)](const launch_site& at) {
            if (at.stream)
              return cuda_answer(on_gpu(at.stream));
            on_cpu();
            return device_answer{};
          }};
}

} // namespace troupe::detail

/// A launch of a CUDA kernel, in a build that has them.
#ifdef TROUPE_HAS_CUDA
#define TROUPE_CUDA_LAUNCH(...) (__VA_ARGS__)
#else
#define TROUPE_CUDA_LAUNCH(...) ::troupe::no_cuda_code
#endif
