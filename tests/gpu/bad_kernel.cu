// A kernel that writes where it must not: see faults_gpu.cpp.

#include <cuda_runtime.h>

namespace {

__global__ void write(float* to) { to[threadIdx.x] = 1.0f; }

__global__ void spin(long long cycles) {
  const long long begin = clock64();
  while (clock64() - begin < cycles) {
  }
}

} // namespace

namespace gpu_test {

int launch_bad_write(void* stream) {
  write<<<1, 32, 0, static_cast<cudaStream_t>(stream)>>>(reinterpret_cast<float*>(16));
  return static_cast<int>(cudaGetLastError());
}

int launch_spin(long long cycles, void* stream) {
  spin<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(cycles);
  return static_cast<int>(cudaGetLastError());
}

} // namespace gpu_test
