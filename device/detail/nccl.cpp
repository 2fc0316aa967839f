#include <troupe/device/detail/nccl.hpp>

#ifdef TROUPE_HAS_NCCL
#include <cstring>
#include <utility>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <troupe/device/detail/shared_library.hpp>
#endif

namespace troupe::detail {

#ifndef TROUPE_HAS_NCCL

result<std::unique_ptr<collective_backend>> make_nccl_backend() {
  return make_failure(errc::device_unavailable, "Troupe was built without NCCL");
}

#else

namespace {

static_assert(sizeof(unique_id::bytes) == sizeof(ncclUniqueId));

/// The functions that are used, as the loaded library has them.
struct functions {
  decltype(ncclGetUniqueId)* get_unique_id = nullptr;
  decltype(ncclCommInitRankConfig)* init = nullptr;
  decltype(ncclCommGetAsyncError)* async_error = nullptr;
  decltype(ncclAllReduce)* all_reduce = nullptr;
  decltype(ncclCommFinalize)* finalize = nullptr;
  decltype(ncclCommDestroy)* destroy = nullptr;
  decltype(ncclCommAbort)* abort = nullptr;
  decltype(ncclGetErrorString)* text = nullptr;
};

device_status status_of(ncclResult_t code) {
  switch (code) {
    case ncclSuccess: return device_status::ok;
    case ncclInProgress: return device_status::not_ready;
    case ncclInvalidArgument:
    case ncclInvalidUsage: return device_status::invalid;
    default: return device_status::failed;
  }
}

ncclComm_t of(native_comm c) { return static_cast<ncclComm_t>(c.handle); }

class nccl_backend final : public collective_backend {
public:
  explicit nccl_backend(functions f) : f_{f} {}

  device_answer get_unique_id(unique_id& out) override {
    ncclUniqueId id{};
    auto answer = answer_of(f_.get_unique_id(&id));
    std::memcpy(out.bytes, &id, sizeof id);
    return answer;
  }

  device_answer open(std::uint32_t device, const unique_id& key, std::uint32_t size,
                     std::uint32_t rank, native_comm& out) override {
    if (cudaSetDevice(static_cast<int>(device)) != cudaSuccess)
      return {.status = device_status::invalid, .text = "cudaSetDevice"};
    ncclUniqueId id{};
    std::memcpy(&id, key.bytes, sizeof id);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t made = nullptr;
    auto answer =
      answer_of(f_.init(&made, static_cast<int>(size), id, static_cast<int>(rank), &config));
    out.handle = made;
    return answer;
  }

  device_answer status(native_comm comm) override {
    ncclResult_t now = ncclSuccess;
    if (auto code = f_.async_error(of(comm), &now); code != ncclSuccess)
      return answer_of(code);
    return answer_of(now);
  }

  device_answer all_reduce(native_comm comm, void* data, std::uint64_t count, bool bf16,
                           native_stream stream) override {
    return answer_of(f_.all_reduce(data, data, count, bf16 ? ncclBfloat16 : ncclFloat32, ncclSum,
                                   of(comm), static_cast<cudaStream_t>(stream.handle)));
  }

  device_answer close(native_comm comm) override {
    if (auto code = f_.finalize(of(comm)); code != ncclSuccess && code != ncclInProgress)
      return answer_of(code);
    return answer_of(f_.destroy(of(comm)));
  }

  device_answer abort(native_comm comm) override { return answer_of(f_.abort(of(comm))); }

private:
  device_answer answer_of(ncclResult_t code) const {
    if (code == ncclSuccess)
      return {};
    return {.status = status_of(code), .native = static_cast<int>(code), .text = f_.text(code)};
  }

  const functions f_;
};

} // namespace

result<std::unique_ptr<collective_backend>> make_nccl_backend() {
  void* library = load_library({"libnccl.so.2"});
  if (!library)
    return make_failure(errc::device_unavailable, "libnccl.so.2 is not found");
  functions f;
  const bool all = find_function(library, "ncclGetUniqueId", f.get_unique_id)
                   && find_function(library, "ncclCommInitRankConfig", f.init)
                   && find_function(library, "ncclCommGetAsyncError", f.async_error)
                   && find_function(library, "ncclAllReduce", f.all_reduce)
                   && find_function(library, "ncclCommFinalize", f.finalize)
                   && find_function(library, "ncclCommDestroy", f.destroy)
                   && find_function(library, "ncclCommAbort", f.abort)
                   && find_function(library, "ncclGetErrorString", f.text);
  if (!all)
    return make_failure(
      errc::device_unavailable,
      "libnccl.so.2 is older than 2.14, the first version with non-blocking communicators");
  return std::unique_ptr<collective_backend>{std::make_unique<nccl_backend>(f)};
}

#endif

} // namespace troupe::detail
