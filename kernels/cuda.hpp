// The CUDA half of the kernels: launches on raw device pointers and a stream. Plain C++, so that
// who calls them needs no nvcc; there is nothing behind it where Troupe was built without CUDA.
//
// Each function enqueues and returns; it gives CUDA's error number (0: started). `stream` is a
// `cudaStream_t`. All pointers are the device's, but the lists of `bucket_part`. Sizes are not
// checked: the callers in device/ do. Meanings, element types and aliasing are those of the CPU
// kernel of the same name, which is the reference: same bits for all element-wise arithmetic,
// reductions, casts, row moves and buckets; softmax within a few units in the last place; where the
// CPU takes denormal numbers as zero the result may differ by less than the smallest normal number.
// Errors that a CPU kernel throws cannot be seen at the launch: a row or label out of range is not
// touched, and shows as said below. Scratch memory is the caller's, of the size that the function
// beside tells, aligned to 256 bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <troupe/kernels/optimizers.hpp>
#include <troupe/kernels/reduce.hpp>

namespace troupe::kernels::cuda {

// -- element-wise: float, double, std::int32_t, std::int64_t --------------------------------------

template <class T>
int add(const T* a, const T* b, T* out, std::size_t n, void* stream);
template <class T>
int sub(const T* a, const T* b, T* out, std::size_t n, void* stream);
template <class T>
int mul(const T* a, const T* b, T* out, std::size_t n, void* stream);
template <class T>
int div(const T* a, const T* b, T* out, std::size_t n, void* stream);
template <class T>
int min(const T* a, const T* b, T* out, std::size_t n, void* stream);
template <class T>
int max(const T* a, const T* b, T* out, std::size_t n, void* stream);
/// y[i] += alpha * x[i].
template <class T>
int axpy(T alpha, const T* x, T* y, std::size_t n, void* stream);
/// out[i] = alpha * x[i].
template <class T>
int scale(T alpha, const T* x, T* out, std::size_t n, void* stream);
template <class T>
int fill(T value, T* out, std::size_t n, void* stream);

// -- reductions in the order of reduce.hpp: float, double, std::int32_t, std::int64_t -------------

/// Bytes of scratch memory for a reduction of `n` elements.
std::size_t reduce_scratch_bytes(std::size_t n);
template <class T>
int sum(const T* x, std::size_t n, sum_t<T>* out, void* scratch, void* stream);
template <class T>
int mean(const T* x, std::size_t n, double* out, void* scratch, void* stream);
template <class T>
int max_element(const T* x, std::size_t n, T* out, void* scratch, void* stream);
/// T: float.
template <class T>
int l2_norm(const T* x, std::size_t n, double* out, void* scratch, void* stream);

// -- layers: float, double; labels std::uint8_t, std::int32_t, std::int64_t -----------------------

/// y[r, c] += bias[c]. y: [rows, cols].
template <class T>
int add_bias(const T* bias, T* y, std::size_t rows, std::size_t cols, void* stream);
/// y[r, c] = bias[c]: what a product is then added to.
template <class T>
int spread_bias(const T* bias, T* y, std::size_t rows, std::size_t cols, void* stream);
/// db[c] = the sum of dy[r, c] over r, from the first row to the last.
template <class T>
int bias_gradient(const T* dy, T* db, std::size_t rows, std::size_t cols, void* stream);
template <class T>
int relu_forward(const T* x, T* y, std::size_t n, void* stream);
template <class T>
int relu_backward(const T* y, const T* dy, T* dx, std::size_t n, void* stream);
std::size_t softmax_scratch_bytes(std::size_t batch);
/// `loss`: one double. `dlogits` may be null, and may be `logits`. A label out of range makes the
/// loss and its row of `dlogits` NaN.
template <class T, class Label>
int softmax_cross_entropy(const T* logits, const Label* labels, std::size_t batch,
                          std::size_t classes, T* dlogits, double* loss, void* scratch,
                          void* stream);
/// `correct`: one std::int64_t. Scratch as for softmax.
template <class T, class Label>
int accuracy_count(const T* logits, const Label* labels, std::size_t batch, std::size_t classes,
                   std::int64_t* correct, void* scratch, void* stream);

// -- update rules: float, double ------------------------------------------------------------------

template <class T>
int sgd_update(const T* p_in, T* p_out, const T* g, std::size_t n, const sgd_params& params,
               void* stream);
template <class T>
int momentum_update(const T* p_in, T* p_out, const T* v_in, T* v_out, const T* g, std::size_t n,
                    const momentum_params& params, void* stream);
template <class T>
int adagrad_update(const T* p_in, T* p_out, const T* acc_in, T* acc_out, const T* g, std::size_t n,
                   const adagrad_params& params, void* stream);
template <class T>
int adam_update(const T* p_in, T* p_out, const T* m_in, T* m_out, const T* v_in, T* v_out,
                const T* g, std::size_t n, std::uint64_t t, const adam_params& params,
                void* stream);
/// The arrays of an update by kind, as `update_arrays`: null for slots that the optimizer does not
/// have.
template <class T>
struct update_pointers {
  const T* p_in = nullptr;
  T* p_out = nullptr;
  std::array<const T*, optimizer_slots_max> slots_in{};
  std::array<T*, optimizer_slots_max> slots_out{};
};
/// The rule of `how.kind`; CUDA's "invalid value" for a kind without a rule.
template <class T>
int update(const optimizer_spec& how, const update_step& step, const update_pointers<T>& at,
           const T* g, std::size_t n, void* stream);

// -- rows: float, double, std::int32_t, std::int64_t, std::uint8_t --------------------------------

/// out row i = table row rows[i]; a row out of range gives zeros, and `bad_rows`, one std::int64_t
/// that the caller has set to 0, counts it.
template <class T>
int gather_rows(const T* table, std::size_t table_rows, std::size_t cols, const std::int64_t* rows,
                std::size_t n, T* out, std::int64_t* bad_rows, void* stream);
std::size_t scatter_scratch_bytes(std::size_t n);
/// table row rows[i] += values row i, for i in order, also where rows repeat. A row out of range is
/// left out and counted.
template <class T>
int scatter_add_rows(T* table, std::size_t table_rows, std::size_t cols, const std::int64_t* rows,
                     std::size_t n, const T* values, std::int64_t* bad_rows, void* scratch,
                     void* stream);

// -- casts ----------------------------------------------------------------------------------------

int cast_f32_to_bf16(const float* in, std::uint16_t* out, std::size_t n, void* stream);
int cast_bf16_to_f32(const std::uint16_t* in, float* out, std::size_t n, void* stream);
int cast_f32_to_f16(const float* in, std::uint16_t* out, std::size_t n, void* stream);
int cast_f16_to_f32(const std::uint16_t* in, float* out, std::size_t n, void* stream);

// -- buckets --------------------------------------------------------------------------------------

/// A piece of a bucket: `count` elements at the device's `data`.
struct bucket_part {
  float* data = nullptr;
  std::size_t count = 0;
};

/// The parts one after the other, as they are or narrowed to bfloat16. One launch for each 128
/// parts. The list is the host's, and read before the call returns.
int pack_bucket(std::span<const bucket_part> parts, float* bucket, void* stream);
int pack_bucket_bf16(std::span<const bucket_part> parts, std::uint16_t* bucket, void* stream);
/// Back into the parts, each element times `scale`.
int unpack_bucket(const float* bucket, std::span<const bucket_part> parts, float scale,
                  void* stream);
int unpack_bucket_bf16(const std::uint16_t* bucket, std::span<const bucket_part> parts, float scale,
                       void* stream);

} // namespace troupe::kernels::cuda
