#include <troupe/kernels/cuda.hpp>

#include <troupe/kernels/detail/bf16.hpp>
#include <troupe/kernels/detail/cuda_map.cuh>

#include <algorithm>

namespace troupe::kernels::cuda {

namespace {

constexpr std::size_t parts_max = 128; // of one launch: the list is a kernel argument
constexpr std::size_t chunk_len = 2048;

/// Part k occupies elements [begin[k], begin[k + 1]) of the bucket and chunks [chunk[k],
/// chunk[k + 1]). No chunk crosses the border of a part, so each block works on one part only.
struct part_list {
  float* data[parts_max];
  std::uint64_t begin[parts_max + 1];
  std::uint32_t chunk[parts_max + 1];
  std::uint32_t count = 0;
};

__device__ inline float load(const float* p, std::size_t i) { return p[i]; }
__device__ inline float load(const std::uint16_t* p, std::size_t i) {
  return detail::widen_bf16(p[i]);
}
__device__ inline void store(float* p, std::size_t i, float x) { p[i] = x; }
__device__ inline void store(std::uint16_t* p, std::size_t i, float x) {
  p[i] = detail::narrow_bf16(x);
}

template <bool Packs, class Wire>
__global__ void move(part_list parts, Wire* bucket, float factor) {
  std::uint32_t k = 0; // the last part whose first chunk is at or before this one
  for (std::uint32_t width = parts.count; width > 1;) {
    const std::uint32_t half = width / 2;
    if (parts.chunk[k + half] <= blockIdx.x)
      k += half;
    width -= half;
  }
  const std::size_t first = (blockIdx.x - parts.chunk[k]) * chunk_len;
  const std::size_t size = parts.begin[k + 1] - parts.begin[k];
  const std::size_t end = size - first < chunk_len ? size - first : chunk_len;
  float* part = parts.data[k] + first;
  Wire* at = bucket + parts.begin[k] + first;
#pragma unroll 8
  for (std::size_t i = threadIdx.x; i < end; i += block_threads) {
    if constexpr (Packs)
      store(at, i, part[i]);
    else
      part[i] = factor * load(at, i);
  }
}

template <bool Packs, class Wire>
int move_all(std::span<const bucket_part> parts, Wire* bucket, float factor, void* stream) {
  while (!parts.empty()) {
    part_list list{};
    std::size_t taken = 0;
    for (; taken < parts.size() && list.count < parts_max; ++taken) {
      if (parts[taken].count == 0)
        continue;
      const auto k = list.count++;
      list.data[k] = parts[taken].data;
      list.begin[k + 1] = list.begin[k] + parts[taken].count;
      list.chunk[k + 1] =
        list.chunk[k]
        + static_cast<std::uint32_t>((parts[taken].count + chunk_len - 1) / chunk_len);
    }
    if (list.count > 0) {
      move<Packs>
        <<<list.chunk[list.count], block_threads, 0, stream_of(stream)>>>(list, bucket, factor);
      if (const int failed = launched(); failed != 0)
        return failed;
    }
    bucket += list.begin[list.count];
    parts = parts.subspan(taken);
  }
  return 0;
}

} // namespace

int pack_bucket(std::span<const bucket_part> parts, float* bucket, void* stream) {
  return move_all<true>(parts, bucket, 1.0f, stream);
}

int pack_bucket_bf16(std::span<const bucket_part> parts, std::uint16_t* bucket, void* stream) {
  return move_all<true>(parts, bucket, 1.0f, stream);
}

int unpack_bucket(const float* bucket, std::span<const bucket_part> parts, float scale,
                  void* stream) {
  return move_all<false>(parts, bucket, scale, stream);
}

int unpack_bucket_bf16(const std::uint16_t* bucket, std::span<const bucket_part> parts, float scale,
                       void* stream) {
  return move_all<false>(parts, bucket, scale, stream);
}

} // namespace troupe::kernels::cuda
