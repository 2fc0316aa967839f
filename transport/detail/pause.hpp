#pragma once

#include <cstdint>

#include <unistd.h>

namespace troupe::detail {

/// Lets the other hardware thread of a core run, for the time of a few instructions.
inline void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Whether each of `members` of a host can have a core of its own.
inline bool have_cores(std::uint32_t members) {
  return static_cast<long>(members) <= ::sysconf(_SC_NPROCESSORS_ONLN);
}

/// How often one of `members` of a host looks at what the others have done before it yields. Where
/// they are more than cores, the one that is waited for may need this one's.
inline int tries_per_look(std::uint32_t members) {
  constexpr int many = 64;
  constexpr int few = 16; // measured: 2.5 us a barrier of four on two cores, 4.1 with many
  return have_cores(members) ? many : few;
}

} // namespace troupe::detail
