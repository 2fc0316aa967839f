#include <troupe/device/detail/matrix_products.hpp>

#ifdef TROUPE_HAS_CUDA
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <troupe/device/detail/shared_library.hpp>
#endif

namespace troupe::detail {

#ifndef TROUPE_HAS_CUDA

matrix_products::~matrix_products() = default;

device_answer matrix_products::prepare() {
  return {.status = device_status::unavailable, .text = "built without CUDA"};
}

device_answer matrix_products::run(const product&) { return prepare(); }

#else

namespace {

/// The functions that are used, as the loaded library has them.
struct functions {
  decltype(cublasCreate_v2)* create = nullptr;
  decltype(cublasDestroy_v2)* destroy = nullptr;
  decltype(cublasSetStream_v2)* set_stream = nullptr;
  decltype(cublasSgemm_v2)* sgemm = nullptr;
  decltype(cublasDgemm_v2)* dgemm = nullptr;
  bool all = false;
};

const functions& library() {
  static const functions found = [] {
    functions f;
    constexpr int major = CUBLAS_VER_MAJOR;
    static_assert(major >= 11 && major < 100);
    constexpr char name[] = {'l',
                             'i',
                             'b',
                             'c',
                             'u',
                             'b',
                             'l',
                             'a',
                             's',
                             '.',
                             's',
                             'o',
                             '.',
                             static_cast<char>('0' + major / 10),
                             static_cast<char>('0' + major % 10),
                             '\0'};
    void* at = load_library({name, "libcublas.so"});
    f.all = at && find_function(at, "cublasCreate_v2", f.create)
            && find_function(at, "cublasDestroy_v2", f.destroy)
            && find_function(at, "cublasSetStream_v2", f.set_stream)
            && find_function(at, "cublasSgemm_v2", f.sgemm)
            && find_function(at, "cublasDgemm_v2", f.dgemm);
    return f;
  }();
  return found;
}

device_answer answer_of(cublasStatus_t code) {
  switch (code) {
    case CUBLAS_STATUS_SUCCESS: return {};
    case CUBLAS_STATUS_ALLOC_FAILED:
      return {.status = device_status::out_of_memory, .native = code, .text = "cuBLAS"};
    case CUBLAS_STATUS_INVALID_VALUE:
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return {.status = device_status::invalid, .native = code, .text = "cuBLAS"};
    case CUBLAS_STATUS_NOT_INITIALIZED:
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return {.status = device_status::unavailable, .native = code, .text = "cuBLAS"};
    default: return {.status = device_status::launch_failed, .native = code, .text = "cuBLAS"};
  }
}

} // namespace

matrix_products::~matrix_products() {
  if (handle_ && is_well_() && cudaSetDevice(static_cast<int>(device_)) == cudaSuccess)
    (void)library().destroy(static_cast<cublasHandle_t>(handle_));
}

device_answer matrix_products::prepare() {
  if (handle_)
    return {};
  if (!library().all)
    return {.status = device_status::unavailable, .text = "cuBLAS is not found"};
  cublasHandle_t made = nullptr;
  if (auto answer = answer_of(library().create(&made)); !answer.ok())
    return answer;
  handle_ = made;
  return answer_of(library().set_stream(made, static_cast<cudaStream_t>(stream_.handle)));
}

/// cuBLAS counts columns first: what it computes is the transposed product of swapped operands.
device_answer matrix_products::run(const product& what) {
  if (auto answer = prepare(); !answer.ok())
    return answer;
  const auto handle = static_cast<cublasHandle_t>(handle_);
  const auto m = static_cast<int>(what.cols), n = static_cast<int>(what.rows),
             k = static_cast<int>(what.inner);
  const auto op_b = what.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  const auto op_a = what.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  const int ldb = what.b_transposed ? k : m;
  const int lda = what.a_transposed ? n : k;
  if (what.type == dtype::f64) {
    const double one = 1, beta = what.beta;
    return answer_of(library().dgemm(
      handle, op_b, op_a, m, n, k, &one, static_cast<const double*>(what.b), ldb,
      static_cast<const double*>(what.a), lda, &beta, static_cast<double*>(what.c), m));
  }
  const float one = 1, beta = static_cast<float>(what.beta);
  return answer_of(
    library().sgemm(handle, op_b, op_a, m, n, k, &one, static_cast<const float*>(what.b), ldb,
                    static_cast<const float*>(what.a), lda, &beta, static_cast<float*>(what.c), m));
}

#endif

} // namespace troupe::detail
