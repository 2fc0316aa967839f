#include <troupe/kernels/cuda.hpp>

#include <troupe/kernels/detail/cuda_map.cuh>

#include <cfloat>

namespace troupe::kernels::cuda {

namespace {

__device__ inline float root(float x) { return __fsqrt_rn(x); }
__device__ inline double root(double x) { return __dsqrt_rn(x); }
__device__ inline float smallest(float) { return FLT_MIN; }
__device__ inline double smallest(double) { return DBL_MIN; }

/// A denormal number as the zero of its sign, as detail/denormals.hpp has the CPU do it.
template <class T>
__device__ inline T z(T x) {
  return x > -smallest(x) && x < smallest(x) ? x * T(0) : x;
}

} // namespace

template <class T>
int sgd_update(const T* p_in, T* p_out, const T* g, std::size_t n, const sgd_params& params,
               void* stream) {
  const T lr = static_cast<T>(params.learning_rate);
  return map(arrays<T, T, 2, 1>{{p_in, g}, {p_out}}, n, stream,
             [lr] __device__(const T(&in)[2], T(&out)[1]) { out[0] = in[0] - lr * in[1]; });
}

template <class T>
int momentum_update(const T* p_in, T* p_out, const T* v_in, T* v_out, const T* g, std::size_t n,
                    const momentum_params& params, void* stream) {
  const T lr = static_cast<T>(params.learning_rate);
  const T mu = static_cast<T>(params.momentum);
  const bool nesterov = params.nesterov;
  return map(arrays<T, T, 3, 2>{{p_in, v_in, g}, {p_out, v_out}}, n, stream,
             [=] __device__(const T(&in)[3], T(&out)[2]) {
               const T step = z(lr * z(in[2]));
               const T v = z(z(mu * z(in[1])) - step);
               out[1] = v;
               out[0] = z(z(in[0]) + (nesterov ? z(z(mu * v) - step) : v));
             });
}

template <class T>
int adagrad_update(const T* p_in, T* p_out, const T* acc_in, T* acc_out, const T* g, std::size_t n,
                   const adagrad_params& params, void* stream) {
  const T lr = static_cast<T>(params.learning_rate);
  const T eps = static_cast<T>(params.epsilon);
  return map(arrays<T, T, 3, 2>{{p_in, acc_in, g}, {p_out, acc_out}}, n, stream,
             [=] __device__(const T(&in)[3], T(&out)[2]) {
               const T acc = in[1] + in[2] * in[2];
               out[1] = acc;
               out[0] = in[0] - lr * in[2] / (root(acc) + eps);
             });
}

template <class T>
int adam_update(const T* p_in, T* p_out, const T* m_in, T* m_out, const T* v_in, T* v_out,
                const T* g, std::size_t n, std::uint64_t t, const adam_params& params,
                void* stream) {
  const T lr = static_cast<T>(adam_corrected_rate(params, t));
  const T b1 = static_cast<T>(params.beta1);
  const T b2 = static_cast<T>(params.beta2);
  const T r1 = static_cast<T>(1.0 - params.beta1);
  const T r2 = static_cast<T>(1.0 - params.beta2);
  const T eps = static_cast<T>(params.epsilon);
  return map(arrays<T, T, 4, 3>{{p_in, m_in, v_in, g}, {p_out, m_out, v_out}}, n, stream,
             [=] __device__(const T(&in)[4], T(&out)[3]) {
               const T grad = z(in[3]);
               const T m = z(z(b1 * z(in[1])) + z(r1 * grad));
               const T v = z(z(b2 * z(in[2])) + z(r2 * z(grad * grad)));
               out[1] = m;
               out[2] = v;
               out[0] = z(z(in[0]) - z(z(lr * m) / z(root(v) + eps)));
             });
}

#define TROUPE_INSTANTIATE(T)                                                                  \
  template int sgd_update<T>(const T*, T*, const T*, std::size_t, const sgd_params&, void*);   \
  template int momentum_update<T>(const T*, T*, const T*, T*, const T*, std::size_t,           \
                                  const momentum_params&, void*);                              \
  template int adagrad_update<T>(const T*, T*, const T*, T*, const T*, std::size_t,            \
                                 const adagrad_params&, void*);                                \
  template int adam_update<T>(const T*, T*, const T*, T*, const T*, T*, const T*, std::size_t, \
                              std::uint64_t, const adam_params&, void*);

TROUPE_INSTANTIATE(float)
TROUPE_INSTANTIATE(double)
#undef TROUPE_INSTANTIATE

} // namespace troupe::kernels::cuda
