#pragma once

#include <cmath>
#include <cstddef>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace troupe::kernels::detail {

// A loop over std::sqrt is not vectorised as long as sqrt may set errno, and that is a property of
// the whole build. So the vector instructions are named here. All of them round correctly: every
// path gives the same bits. (512-bit roots have the same throughput as 256-bit ones, so AVX is the
// widest path.)

/// out[i] = sqrt(x[i]); `out` may be `x`.
inline void roots(const float* x, float* out, std::size_t n) {
  std::size_t i = 0;
#if defined(__AVX__)
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(out + i, _mm256_sqrt_ps(_mm256_loadu_ps(x + i)));
#elif defined(__SSE2__)
  for (; i + 4 <= n; i += 4)
    _mm_storeu_ps(out + i, _mm_sqrt_ps(_mm_loadu_ps(x + i)));
#endif
  for (; i < n; ++i)
    out[i] = std::sqrt(x[i]);
}

/// out[i] = sqrt(x[i]); `out` may be `x`.
inline void roots(const double* x, double* out, std::size_t n) {
  std::size_t i = 0;
#if defined(__AVX__)
  for (; i + 4 <= n; i += 4)
    _mm256_storeu_pd(out + i, _mm256_sqrt_pd(_mm256_loadu_pd(x + i)));
#elif defined(__SSE2__)
  for (; i + 2 <= n; i += 2)
    _mm_storeu_pd(out + i, _mm_sqrt_pd(_mm_loadu_pd(x + i)));
#endif
  for (; i < n; ++i)
    out[i] = std::sqrt(x[i]);
}

} // namespace troupe::kernels::detail
