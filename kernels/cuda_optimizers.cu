#include <troupe/kernels/cuda.hpp>

#include <troupe/kernels/detail/cuda_map.cuh>

#include <cfloat>

namespace troupe::kernels::cuda {

namespace {

__device__ inline float root(float x) { return __fsqrt_rn(x); }
__device__ inline double root(double x) { return __dsqrt_rn(x); }
__device__ inline float smallest(float) { return FLT_MIN; }
__device__ inline double smallest(double) { return DBL_MIN; }

/// Replaces a denormal number by the zero of its sign, as the CPU does (detail/denormals.hpp).
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

// The compiler warns of a kind that has no case.
template <class T>
int update(const optimizer_spec& how, const update_step& step, const update_pointers<T>& at,
           const T* g, std::size_t n, void* stream) {
  const auto& in = at.slots_in;
  const auto& out = at.slots_out;
  switch (how.kind) {
    case optimizer_kind::none: break;
    case optimizer_kind::sgd: return sgd_update<T>(at.p_in, at.p_out, g, n, sgd_of(step), stream);
    case optimizer_kind::momentum:
      return momentum_update<T>(at.p_in, at.p_out, in[0], out[0], g, n, momentum_of(how, step),
                                stream);
    case optimizer_kind::adagrad:
      return adagrad_update<T>(at.p_in, at.p_out, in[0], out[0], g, n, adagrad_of(how, step),
                               stream);
    case optimizer_kind::adam:
      return adam_update<T>(at.p_in, at.p_out, in[0], out[0], in[1], out[1], g, n, step.t,
                            adam_of(how, step), stream);
  }
  return static_cast<int>(cudaErrorInvalidValue);
}

#define TROUPE_INSTANTIATE(T)                                                                  \
  template int sgd_update<T>(const T*, T*, const T*, std::size_t, const sgd_params&, void*);   \
  template int momentum_update<T>(const T*, T*, const T*, T*, const T*, std::size_t,           \
                                  const momentum_params&, void*);                              \
  template int adagrad_update<T>(const T*, T*, const T*, T*, const T*, std::size_t,            \
                                 const adagrad_params&, void*);                                \
  template int adam_update<T>(const T*, T*, const T*, T*, const T*, T*, const T*, std::size_t, \
                              std::uint64_t, const adam_params&, void*);                       \
  template int update<T>(const optimizer_spec&, const update_step&, const update_pointers<T>&, \
                         const T*, std::size_t, void*);

TROUPE_INSTANTIATE(float)
TROUPE_INSTANTIATE(double)
#undef TROUPE_INSTANTIATE

} // namespace troupe::kernels::cuda
