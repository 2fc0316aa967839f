#pragma once

/// Marks a function that CPU and CUDA kernels share, so that they cannot drift apart.
#if defined(__CUDACC__)
#define TROUPE_HOST_DEVICE __host__ __device__
#else
#define TROUPE_HOST_DEVICE
#endif
