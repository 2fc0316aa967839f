// The program's operators new and delete: an allocation larger than any input asks for by right is
// a broken decoder. In a file of their own, so that no caller can be compiled with one of a pair
// inlined and the other not (g++ 12 then warns of a mismatched pair).
#include <cstdlib>
#include <new>

#include "fuzz.hpp"

namespace {

constexpr std::size_t allocation_bytes_max = std::size_t{16} << 20;

void* allocated(std::size_t bytes, std::size_t alignment) {
  if (bytes > allocation_bytes_max)
    throw fuzz::broken{"an allocation of " + std::to_string(bytes) + " bytes"};
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

void* allocated_or_throw(std::size_t bytes, std::size_t alignment) {
  void* out = allocated(bytes == 0 ? 1 : bytes, alignment);
  if (out == nullptr)
    throw std::bad_alloc{};
  return out;
}

} // namespace

void* operator new(std::size_t bytes) { return allocated_or_throw(bytes, 16); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocated_or_throw(bytes, static_cast<std::size_t>(alignment));
}
// A temporary buffer of the standard library's, which does with less if there is none.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return bytes > allocation_bytes_max ? nullptr : std::aligned_alloc(16, (bytes + 16) / 16 * 16);
}
void operator delete(void* at) noexcept { std::free(at); }
void operator delete(void* at, std::size_t) noexcept { std::free(at); }
void operator delete(void* at, std::align_val_t) noexcept { std::free(at); }
void operator delete(void* at, std::size_t, std::align_val_t) noexcept { std::free(at); }
void operator delete(void* at, const std::nothrow_t&) noexcept { std::free(at); }
