#pragma once

namespace troupe::detail {

/// Lets the other hardware thread of a core run, for the time of a few instructions.
inline void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

} // namespace troupe::detail
