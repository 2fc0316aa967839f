#include <troupe/kernels/hash.hpp>

// g++ 12 takes the "undefined" operands of its own AVX-512 intrinsics for uninitialised reads once
// they are inlined.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <new>

namespace troupe::kernels {

static_assert(sizeof(XXH3_state_t) == 576, "hasher::state_ has another size");
static_assert(alignof(XXH3_state_t) <= 64, "hasher::state_ has a smaller alignment");

std::uint64_t hash64(const void* data, std::size_t size_bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(data, size_bytes, seed);
}

std::uint64_t hash64_text(std::string_view text, std::uint64_t seed) {
  return hash64(text.data(), text.size(), seed);
}

hasher::hasher(std::uint64_t seed) {
  ::new (static_cast<void*>(state_)) XXH3_state_t;
  XXH3_INITSTATE(reinterpret_cast<XXH3_state_t*>(state_));
  reset(seed);
}

void hasher::reset(std::uint64_t seed) {
  XXH3_64bits_reset_withSeed(reinterpret_cast<XXH3_state_t*>(state_), seed);
}

void hasher::update(const void* data, std::size_t size_bytes) {
  if (size_bytes != 0) // the library calls null an error even for no bytes
    XXH3_64bits_update(reinterpret_cast<XXH3_state_t*>(state_), data, size_bytes);
}

std::uint64_t hasher::digest() const {
  return XXH3_64bits_digest(reinterpret_cast<const XXH3_state_t*>(state_));
}

} // namespace troupe::kernels
