// What the CUDA kernels share: one map over arrays of equal length.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace troupe::kernels::cuda {

inline constexpr unsigned block_threads = 256;

inline cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }

inline unsigned blocks_for(std::size_t items, std::size_t per_block) {
  return static_cast<unsigned>((items + per_block - 1) / per_block);
}

/// The error number of the last launch. Clears it, so that the next launch does not report it.
inline int launched() { return static_cast<int>(cudaGetLastError()); }

template <class T, int Count>
struct alignas(sizeof(T) * Count) pack {
  T at[Count];
};

template <class In, class Out, int Ins, int Outs>
struct arrays {
  const In* in[Ins];
  Out* out[Outs];
};

/// One thread per aligned pack. All loads come before the first store, so an output may be an
/// input.
template <int Count, class In, class Out, int Ins, int Outs, class F>
__global__ void map_packs(arrays<In, Out, Ins, Outs> x, std::size_t n, F f) {
  std::size_t i = (blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x) * Count;
  if (i + Count <= n) {
    pack<In, Count> in[Ins];
    pack<Out, Count> out[Outs];
#pragma unroll
    for (int k = 0; k < Ins; ++k)
      in[k] = *reinterpret_cast<const pack<In, Count>*>(x.in[k] + i);
#pragma unroll
    for (int j = 0; j < Count; ++j) {
      In a[Ins];
      Out b[Outs];
#pragma unroll
      for (int k = 0; k < Ins; ++k)
        a[k] = in[k].at[j];
      f(a, b);
#pragma unroll
      for (int k = 0; k < Outs; ++k)
        out[k].at[j] = b[k];
    }
#pragma unroll
    for (int k = 0; k < Outs; ++k)
      *reinterpret_cast<pack<Out, Count>*>(x.out[k] + i) = out[k];
    return;
  }
  for (; i < n; ++i) {
    In a[Ins];
    Out b[Outs];
#pragma unroll
    for (int k = 0; k < Ins; ++k)
      a[k] = x.in[k][i];
    f(a, b);
#pragma unroll
    for (int k = 0; k < Outs; ++k)
      x.out[k][i] = b[k];
  }
}

template <class T>
bool is_aligned(const T* p, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(p) % bytes == 0;
}

/// f(in, out) for each i, with in[k] = x.in[k][i] and x.out[k][i] = out[k].
template <class In, class Out, int Ins, int Outs, class F>
int map(const arrays<In, Out, Ins, Outs>& x, std::size_t n, void* stream, F f) {
  if (n == 0)
    return 0;
  constexpr int count = 16 / (sizeof(In) > sizeof(Out) ? sizeof(In) : sizeof(Out));
  bool aligned = true;
  for (const auto* p : x.in)
    aligned = aligned && is_aligned(p, sizeof(In) * count);
  for (const auto* p : x.out)
    aligned = aligned && is_aligned(p, sizeof(Out) * count);
  if (aligned)
    map_packs<count>
      <<<blocks_for(n, block_threads * count), block_threads, 0, stream_of(stream)>>>(x, n, f);
  else
    map_packs<1><<<blocks_for(n, block_threads), block_threads, 0, stream_of(stream)>>>(x, n, f);
  return launched();
}

} // namespace troupe::kernels::cuda
