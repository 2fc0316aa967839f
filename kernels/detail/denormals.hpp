// Numbers below the smallest normal one count as zero while a guard lives.
#pragma once

#include <cstdint>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace troupe::kernels::detail {

/// Has the processor take and give denormal numbers as zero, on this thread, until the scope ends.
///
/// A slot that decays (Adam's m of a weight whose input is nearly always 0) halves its way down to
/// the denormal numbers, and rounding keeps it there for good: 0.9 times the smallest one is the
/// smallest one. Arithmetic on them costs a trap into microcode, a hundred and more cycles each,
/// and an update that takes 50 us at the start of a training took 600 us after two thousand steps.
/// Processors without such a mode pay that; the parameters agree to 1e-38 or so all the same.
class denormals_as_zero {
public:
  denormals_as_zero() : before_{get()} { set(before_ | mask); }
  ~denormals_as_zero() { set(before_); }
  denormals_as_zero(const denormals_as_zero&) = delete;
  denormals_as_zero& operator=(const denormals_as_zero&) = delete;

private:
#if defined(__SSE2__)
  using word = unsigned;
  static constexpr word mask = 0x8040; // results (bit 15) and operands (bit 6)
  static word get() { return _mm_getcsr(); }
  static void set(word x) { _mm_setcsr(x); }
#elif defined(__aarch64__)
  using word = std::uint64_t;
  static constexpr word mask = word{1} << 24;
  static word get() {
    word x = 0;
    asm volatile("mrs %0, fpcr" : "=r"(x));
    return x;
  }
  static void set(word x) { asm volatile("msr fpcr, %0" : : "r"(x)); }
#else
  using word = unsigned;
  static constexpr word mask = 0;
  static word get() { return 0; }
  static void set(word) {}
#endif
  const word before_;
};

} // namespace troupe::kernels::detail
