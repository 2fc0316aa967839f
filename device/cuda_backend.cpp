#include <troupe/device/cuda_backend.hpp>

#ifdef TROUPE_HAS_CUDA
#include <algorithm>
#include <cstring>
#include <exception>
#include <mutex>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#include <troupe/device/detail/nccl.hpp>
#endif

namespace troupe {

#ifndef TROUPE_HAS_CUDA

result<std::shared_ptr<device_backend>> make_cuda_backend(const environment&) {
  return make_failure(errc::device_unavailable, "no GPU: Troupe was built without CUDA");
}

bool built_with_cuda() { return false; }

device_answer cuda_answer(int code) {
  if (code == 0)
    return {};
  return {.status = device_status::unavailable, .native = code, .text = "built without CUDA"};
}

#else

namespace {

device_status status_of(cudaError_t code) {
  switch (code) {
    case cudaSuccess: return device_status::ok;
    case cudaErrorNotReady: return device_status::not_ready;
    case cudaErrorMemoryAllocation: return device_status::out_of_memory;
    case cudaErrorInvalidValue:
    case cudaErrorInvalidConfiguration:
    case cudaErrorInvalidResourceHandle:
    case cudaErrorInvalidDevice:
    case cudaErrorLaunchOutOfResources:
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorNoKernelImageForDevice: return device_status::invalid;
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorSystemNotReady:
    case cudaErrorSystemDriverMismatch: return device_status::unavailable;
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc: return device_status::launch_failed;
    case cudaErrorDevicesUnavailable:
    case cudaErrorECCUncorrectable:
    case cudaErrorContained: return device_status::lost;
    default: return device_status::failed;
  }
}

device_answer answer_of(cudaError_t code) {
  if (code == cudaSuccess)
    return {};
  // What is not sticky must not be found by the next launch.
  if (status_of(code) != device_status::launch_failed)
    (void)cudaGetLastError();
  return {
    .status = status_of(code), .native = static_cast<int>(code), .text = cudaGetErrorName(code)};
}

cudaStream_t of(native_stream s) { return static_cast<cudaStream_t>(s.handle); }
cudaEvent_t of(native_event e) { return static_cast<cudaEvent_t>(e.handle); }

/// Waits and queries come from threads that may be bound to another device, which CUDA allows.
class cuda_backend final : public device_backend {
public:
  cuda_backend(const environment& env, std::uint32_t count)
    : env_{env},
      count_{count},
      changed_{env.waits.make_point()},
      probe_mutexes_(count),
      probes_(count) {}

  device_kind kind() const override { return device_kind::gpu; }
  result<std::uint32_t> count() override { return count_; }

  result<device_facts> describe(std::uint32_t device) override {
    cudaDeviceProp p{};
    if (auto answer = answer_of(cudaGetDeviceProperties(&p, static_cast<int>(device)));
        !answer.ok())
      return make_failure(errc::device_unavailable,
                          "gpu:" + std::to_string(device) + ": describe: " + to_string(answer));
    device_facts out{.name = p.name,
                     .arch = "sm_" + std::to_string(p.major) + std::to_string(p.minor),
                     .memory_bytes = p.totalGlobalMem};
    static_assert(sizeof out.identity == sizeof p.uuid);
    std::memcpy(out.identity.data(), &p.uuid, sizeof p.uuid);
    return out;
  }

  device_answer bind(std::uint32_t device) override {
    return answer_of(cudaSetDevice(static_cast<int>(device)));
  }

  device_answer health(std::uint32_t device) override {
    if (auto answer = bind(device); !answer.ok())
      return answer;
    std::lock_guard one_at_a_time{probe_mutexes_[device]}; // may hang, with nobody but this device
    auto& probe = probes_[device];
    if (!probe)
      if (auto answer = answer_of(cudaEventCreateWithFlags(&probe, cudaEventDisableTiming));
          !answer.ok())
        return answer;
    // Any call tells a sticky error; this one waits for nothing.
    auto answer = answer_of(cudaEventQuery(probe));
    return is_final_answer(answer) ? answer : device_answer{};
  }

  // --- memory

  device_answer allocate(std::uint32_t device, std::size_t bytes, void*& out) override {
    if (auto answer = bind(device); !answer.ok())
      return answer;
    return answer_of(cudaMalloc(&out, bytes));
  }
  device_answer release(std::uint32_t device, void* memory) override {
    if (auto answer = bind(device); !answer.ok())
      return answer;
    return answer_of(cudaFree(memory));
  }
  device_answer allocate_host(std::size_t bytes, void*& out) override {
    return answer_of(cudaHostAlloc(&out, bytes, cudaHostAllocPortable));
  }
  device_answer release_host(void* memory) override { return answer_of(cudaFreeHost(memory)); }

  // --- streams and events

  device_answer make_stream(std::uint32_t device, const std::string&, native_stream& out) override {
    if (auto answer = bind(device); !answer.ok())
      return answer;
    cudaStream_t made = nullptr;
    auto answer = answer_of(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
    out.handle = made;
    return answer;
  }
  device_answer drop_stream(native_stream stream) override {
    return answer_of(cudaStreamDestroy(of(stream)));
  }
  device_answer make_event(std::uint32_t device, native_event& out) override {
    if (auto answer = bind(device); !answer.ok())
      return answer;
    cudaEvent_t made = nullptr;
    auto answer = answer_of(cudaEventCreateWithFlags(&made, cudaEventDisableTiming));
    out.handle = made;
    return answer;
  }
  device_answer drop_event(native_event event) override {
    return answer_of(cudaEventDestroy(of(event)));
  }
  device_answer record(native_stream stream, native_event event) override {
    return answer_of(cudaEventRecord(of(event), of(stream)));
  }
  device_answer depend(native_stream stream, native_event event) override {
    return answer_of(cudaStreamWaitEvent(of(stream), of(event), 0));
  }
  device_answer query(native_event event) override { return answer_of(cudaEventQuery(of(event))); }

  /// Asks at once for as long as short work takes, then in growing pauses: CUDA's own wait knows no
  /// deadline.
  device_answer await(native_event event, time_point deadline) override {
    constexpr duration spin_max = std::chrono::microseconds{100};
    constexpr duration pause_max = std::chrono::milliseconds{1};
    const auto begin = env_.clock.now();
    duration pause = std::chrono::microseconds{20};
    for (;;) {
      auto answer = query(event);
      const auto now = env_.clock.now();
      if (answer.status != device_status::not_ready || now >= deadline)
        return answer;
      if (now - begin < spin_max)
        continue;
      std::unique_lock lock{mutex_};
      (void)changed_->wait_until(lock, std::min(deadline, after(now, pause)));
      pause = std::min(2 * pause, pause_max);
    }
  }

  // --- work

  device_answer run(native_stream stream, const device_op& op) override {
    int device = 0;
    (void)cudaGetDevice(&device);
    device_answer answer;
    try { // a user's operation
      answer = op.run({.device = {device_kind::gpu, static_cast<std::uint32_t>(device)},
                       .stream = stream.handle});
    } catch (...) { // of whatever type
      return {.status = device_status::invalid,
              .text = "the operation threw an exception",
              .blame = op.name};
    }
    const auto code = cudaPeekAtLastError();
    if (answer.ok() && code != cudaSuccess)
      return answer_of(code);
    return answer;
  }

  device_answer copy(native_stream stream, void* to, const void* from, std::size_t bytes,
                     copy_kind kind) override {
    return answer_of(cudaMemcpyAsync(to, from, bytes, direction(kind), of(stream)));
  }

  device_answer post(native_stream stream, void (*call)(void*), void* argument) override {
    return answer_of(cudaLaunchHostFunc(of(stream), call, argument));
  }

  collective_backend* collectives() override {
    std::lock_guard lock{mutex_};
    if (!nccl_ && why_no_nccl_.empty()) {
      auto made = detail::make_nccl_backend();
      if (made)
        nccl_ = std::move(*made);
      else
        why_no_nccl_ = made.error().text;
    }
    return nccl_.get();
  }
  std::string why_no_collectives() const override { return why_no_nccl_; }

private:
  static bool is_final_answer(const device_answer& a) {
    return a.status == device_status::launch_failed || a.status == device_status::lost;
  }
  static cudaMemcpyKind direction(copy_kind kind) {
    switch (kind) {
      case copy_kind::host_to_device: return cudaMemcpyHostToDevice;
      case copy_kind::device_to_host: return cudaMemcpyDeviceToHost;
      case copy_kind::device_to_device: return cudaMemcpyDeviceToDevice;
      case copy_kind::host_to_host: return cudaMemcpyHostToHost;
    }
    return cudaMemcpyDefault;
  }

  const environment env_;
  const std::uint32_t count_;
  std::mutex mutex_{};
  const std::unique_ptr<wait_point> changed_;
  std::vector<std::mutex> probe_mutexes_;
  std::vector<cudaEvent_t> probes_; ///< one a device, for its health; left to the process's end
  std::unique_ptr<collective_backend> nccl_{};
  std::string why_no_nccl_{};
};

} // namespace

result<std::shared_ptr<device_backend>> make_cuda_backend(const environment& env) {
  int count = 0;
  if (auto answer = answer_of(cudaGetDeviceCount(&count)); !answer.ok())
    return make_failure(errc::device_unavailable, "no GPU: " + to_string(answer));
  if (count == 0)
    return make_failure(errc::device_unavailable, "no GPU is visible to this process");
  return std::shared_ptr<device_backend>{
    std::make_shared<cuda_backend>(env, static_cast<std::uint32_t>(count))};
}

bool built_with_cuda() { return true; }

device_answer cuda_answer(int code) { return answer_of(static_cast<cudaError_t>(code)); }

#endif

} // namespace troupe
