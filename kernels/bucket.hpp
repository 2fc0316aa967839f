// Many small arrays as one: what is sent together lies together.
//
// The bucket holds the parts one after the other. With bfloat16 the wire is half as long: rounded
// as in casts.hpp. One pass, the cast and the factor on the way. Pure functions, any thread, no
// allocation. Errors: std::invalid_argument naming the argument when the bucket's size is not the
// sum of the parts'; nothing is written then.
#pragma once

#include <cstdint>
#include <span>

namespace troupe::kernels {

/// bucket = part 0, part 1, ...
void pack_bucket(std::span<const std::span<const float>> parts, std::span<float> bucket);
void pack_bucket_bf16(std::span<const std::span<const float>> parts,
                      std::span<std::uint16_t> bucket);

/// Each part = `scale` times its place in the bucket.
void unpack_bucket(std::span<const float> bucket, std::span<const std::span<float>> parts,
                   float scale);
void unpack_bucket_bf16(std::span<const std::uint16_t> bucket,
                        std::span<const std::span<float>> parts, float scale);

} // namespace troupe::kernels
