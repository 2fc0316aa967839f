#include <troupe/kernels/detail/strict_math.hpp>

#include <troupe/kernels/bucket.hpp>

#include <troupe/kernels/detail/bf16_loops.hpp>
#include <troupe/kernels/detail/check.hpp>

#include <cstddef>
#include <cstring>

namespace troupe::kernels {

namespace {

template <class T>
void expect_sum(const char* function, std::span<const std::span<T>> parts, std::size_t size) {
  std::size_t all = 0;
  for (const auto part : parts)
    all += part.size();
  detail::expect_size(function, "bucket.size()", size, all);
}

} // namespace

void pack_bucket(std::span<const std::span<const float>> parts, std::span<float> bucket) {
  expect_sum("pack_bucket", parts, bucket.size());
  float* to = bucket.data();
  for (const auto part : parts) {
    if (!part.empty())
      std::memcpy(to, part.data(), part.size_bytes());
    to += part.size();
  }
}

void pack_bucket_bf16(std::span<const std::span<const float>> parts,
                      std::span<std::uint16_t> bucket) {
  expect_sum("pack_bucket_bf16", parts, bucket.size());
  std::uint16_t* to = bucket.data();
  for (const auto part : parts) {
    detail::narrow_all_bf16(part.data(), to, part.size());
    to += part.size();
  }
}

void unpack_bucket(std::span<const float> bucket, std::span<const std::span<float>> parts,
                   float scale) {
  expect_sum("unpack_bucket", parts, bucket.size());
  const float* from = bucket.data();
  for (const auto part : parts) {
    float* to = part.data();
    const std::size_t n = part.size();
    TROUPE_INDEPENDENT_LOOP
    for (std::size_t i = 0; i < n; ++i)
      to[i] = scale * from[i];
    from += n;
  }
}

void unpack_bucket_bf16(std::span<const std::uint16_t> bucket,
                        std::span<const std::span<float>> parts, float scale) {
  expect_sum("unpack_bucket_bf16", parts, bucket.size());
  const std::uint16_t* from = bucket.data();
  for (const auto part : parts) {
    detail::widen_all_bf16(from, part.data(), part.size(),
                           [scale](auto x) { return decltype(x)::of(scale) * x; });
    from += part.size();
  }
}

} // namespace troupe::kernels
