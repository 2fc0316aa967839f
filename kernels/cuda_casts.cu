#include <troupe/kernels/cuda.hpp>

#include <troupe/kernels/detail/bf16.hpp>
#include <troupe/kernels/detail/cuda_map.cuh>
#include <troupe/kernels/detail/f16.hpp>

namespace troupe::kernels::cuda {

int cast_f32_to_bf16(const float* in, std::uint16_t* out, std::size_t n, void* stream) {
  return map(
    arrays<float, std::uint16_t, 1, 1>{{in}, {out}}, n, stream,
    [] __device__(const float(&x)[1], std::uint16_t(&y)[1]) { y[0] = detail::narrow_bf16(x[0]); });
}

int cast_bf16_to_f32(const std::uint16_t* in, float* out, std::size_t n, void* stream) {
  return map(
    arrays<std::uint16_t, float, 1, 1>{{in}, {out}}, n, stream,
    [] __device__(const std::uint16_t(&x)[1], float(&y)[1]) { y[0] = detail::widen_bf16(x[0]); });
}

int cast_f32_to_f16(const float* in, std::uint16_t* out, std::size_t n, void* stream) {
  return map(
    arrays<float, std::uint16_t, 1, 1>{{in}, {out}}, n, stream,
    [] __device__(const float(&x)[1], std::uint16_t(&y)[1]) { y[0] = detail::narrow_f16(x[0]); });
}

int cast_f16_to_f32(const std::uint16_t* in, float* out, std::size_t n, void* stream) {
  return map(
    arrays<std::uint16_t, float, 1, 1>{{in}, {out}}, n, stream,
    [] __device__(const std::uint16_t(&x)[1], float(&y)[1]) { y[0] = detail::widen_f16(x[0]); });
}

} // namespace troupe::kernels::cuda
