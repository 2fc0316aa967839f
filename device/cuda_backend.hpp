#pragma once

#include <memory>

#include <troupe/core/device_port.hpp>
#include <troupe/core/environment.hpp>

namespace troupe {

/// The GPUs of this machine, through the CUDA runtime and, for collectives, NCCL, which is loaded
/// when it is first asked for. `device_unavailable` says why there are none: Troupe was built
/// without CUDA, there is no driver, no GPU is visible. The ports outlive the backend.
result<std::shared_ptr<device_backend>> make_cuda_backend(const environment& env);

/// Whether this build can use a GPU at all.
bool built_with_cuda();

/// The answer that one of CUDA's numbers stands for, for operations that launch kernels and report
/// what they got.
device_answer cuda_answer(int code);

/// CUDA's number for "not supported": what a launch gives in a build without CUDA.
inline constexpr int no_cuda_code = 801;

} // namespace troupe
