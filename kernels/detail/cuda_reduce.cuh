// The summation tree of reduce.hpp on a GPU: one warp per block of 1024 elements, then pairs of
// blocks, level by level. An odd block at the end moves up a level unchanged, as on the CPU.
#pragma once

#include <troupe/kernels/detail/cuda_map.cuh>

namespace troupe::kernels::cuda {

inline constexpr std::size_t leaf_len = 1024;
inline constexpr unsigned leaves_per_block = 32; // one warp each: whole subtrees of five levels

/// Partial results of the first launch.
inline std::size_t partial_count(std::size_t n) {
  return (n + leaf_len * leaves_per_block - 1) / (leaf_len * leaves_per_block);
}

/// A sum of integers that does not overflow with 2^31 summands of any i64: `upper` counts units of
/// 2^32. An aggregate, so that it can be in shared memory.
struct two_words {
  std::int64_t upper;
  std::int64_t lower;
};

template <class T>
__device__ inline T from_lane_below(T x, int by) {
  return __shfl_down_sync(0xffffffffu, x, by);
}
__device__ inline two_words from_lane_below(two_words x, int by) {
  return {from_lane_below(x.upper, by), from_lane_below(x.lower, by)};
}

/// Folds the lanes of a warp in halves, as the CPU folds a block.
template <class Acc, class Merge>
__device__ inline Acc fold_warp(Acc x, Merge merge) {
#pragma unroll
  for (int half = 16; half > 0; half /= 2)
    x = merge(x, from_lane_below(x, half));
  return x;
}

/// Folds `count` <= 1024 values in shared memory, level by level, in place. All threads of the
/// block call it.
template <class Acc, class Merge>
__device__ inline Acc merge_levels(Acc* x, unsigned count, Merge merge) {
  while (count > 1) {
    const unsigned pairs = count / 2;
    Acc mine{};
    const bool has = threadIdx.x < (count + 1) / 2;
    if (has)
      mine = threadIdx.x < pairs ? merge(x[2 * threadIdx.x], x[2 * threadIdx.x + 1])
                                 : x[2 * threadIdx.x];
    __syncthreads();
    if (has)
      x[threadIdx.x] = mine;
    __syncthreads();
    count = (count + 1) / 2;
  }
  return x[0];
}

template <class Acc, class T, class Read, class Merge>
__global__ void reduce_leaves(const T* x, std::size_t n, Acc start, Acc* out, Read read,
                              Merge merge) {
  __shared__ Acc leaves[leaves_per_block];
  const unsigned warp = threadIdx.x / 32;
  const unsigned lane = threadIdx.x % 32;
  const std::size_t first =
    (static_cast<std::size_t>(blockIdx.x) * leaves_per_block + warp) * leaf_len;
  const std::size_t all_leaves = (n + leaf_len - 1) / leaf_len;
  const std::size_t left = all_leaves - static_cast<std::size_t>(blockIdx.x) * leaves_per_block;
  Acc sum = start;
  if (first < n) {
    const std::size_t end = n - first < leaf_len ? n - first : leaf_len;
    if (end == leaf_len) {
#pragma unroll 8
      for (unsigned i = 0; i < leaf_len / 32; ++i)
        sum = merge(sum, read(x[first + i * 32 + lane]));
    } else {
      for (std::size_t i = lane; i < end; i += 32)
        sum = merge(sum, read(x[first + i]));
    }
  }
  sum = fold_warp(sum, merge);
  if (lane == 0)
    leaves[warp] = sum;
  __syncthreads();
  const auto count = static_cast<unsigned>(left < leaves_per_block ? left : leaves_per_block);
  const Acc whole = merge_levels(leaves, count, merge);
  if (threadIdx.x == 0)
    out[blockIdx.x] = whole;
}

/// One block folds the rest of the tree: partial results in groups of 1024, each a whole subtree.
template <class Acc, class Out, class Merge, class Finish>
__global__ void reduce_partials(Acc* partials, std::size_t count, Acc start, Out* out, Merge merge,
                                Finish finish) {
  __shared__ Acc x[1024];
  if (count == 0) {
    if (threadIdx.x == 0)
      *out = finish(start);
    return;
  }
  while (true) {
    const std::size_t groups = (count + 1023) / 1024;
    for (std::size_t g = 0; g < groups; ++g) {
      const std::size_t first = g * 1024;
      const auto here = static_cast<unsigned>(count - first < 1024 ? count - first : 1024);
      if (threadIdx.x < here)
        x[threadIdx.x] = partials[first + threadIdx.x];
      __syncthreads();
      const Acc whole = merge_levels(x, here, merge);
      __syncthreads();
      if (threadIdx.x == 0)
        partials[g] = whole; // g <= first, which was read before
      __syncthreads();
    }
    if (groups == 1)
      break;
    count = groups;
  }
  if (threadIdx.x == 0)
    *out = finish(partials[0]);
}

/// *out = finish(the merged read(x[i])), in the fixed order.
template <class Acc, class T, class Out, class Read, class Merge, class Finish>
int reduce(const T* x, std::size_t n, Acc start, Out* out, void* scratch, void* stream, Read read,
           Merge merge, Finish finish) {
  auto* partials = static_cast<Acc*>(scratch);
  const std::size_t count = partial_count(n);
  if (count > 0)
    reduce_leaves<<<static_cast<unsigned>(count), leaves_per_block * 32, 0, stream_of(stream)>>>(
      x, n, start, partials, read, merge);
  if (const int failed = launched(); failed != 0)
    return failed;
  reduce_partials<<<1, 1024, 0, stream_of(stream)>>>(partials, count, start, out, merge, finish);
  return launched();
}

} // namespace troupe::kernels::cuda
