#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/core/fields.hpp>
#include <troupe/core/result.hpp>
#include <troupe/core/time.hpp>

/// The device plane's port: a thin backend for each kind of device, with what a vendor's runtime
/// offers. What decides (order, pools, health, time-outs) stands above it in device/ and runs the
/// same on CPU devices, CUDA and a device that a test or the simulator made up.
namespace troupe {

enum class device_kind : std::uint8_t { cpu = 0, gpu = 1 };

/// A device of this process: `gpu:0`.
struct device_id {
  device_kind kind = device_kind::cpu;
  std::uint32_t index = 0;
  friend auto operator<=>(const device_id&, const device_id&) = default;
  TROUPE_FIELDS(device_id, kind, index)
};

/// "gpu:0".
std::string to_string(const device_id& id);
/// The device called "cpu:1" or "gpu:0"; `invalid_argument` quotes the text.
result<device_id> parse_device(std::string_view text);

/// How a call of a backend went. `lost`, `launch_failed` and `failed` are final for the device; the
/// others only say no to this call.
enum class device_status : std::uint8_t {
  ok = 0,
  not_ready = 1,     ///< still runs; or would have to wait
  out_of_memory = 2, ///< of the device, or pinned memory of the host
  invalid = 3,       ///< the runtime refuses the arguments
  unavailable = 4,   ///< no such device or library
  launch_failed = 5, ///< an operation broke, now or one submitted before
  lost = 6,          ///< the device is gone
  failed = 7         ///< anything else
};

/// "out_of_memory".
std::string_view to_string(device_status status);

struct [[nodiscard]] device_answer {
  device_status status = device_status::ok;
  int native = 0;              ///< the runtime's own number
  const char* text = nullptr;  ///< the runtime's own name for it; static
  const char* blame = nullptr; ///< the operation that broke, where the backend knows; static
  bool ok() const { return status == device_status::ok; }
};

/// "launch_failed (cudaErrorIllegalAddress, 700)".
std::string to_string(const device_answer& answer);

/// Facts that a backend knows of one device.
struct device_facts {
  std::string name{}; ///< "NVIDIA H100 80GB HBM3"
  std::string arch{}; ///< "sm_90"; empty for a CPU
  std::uint64_t memory_bytes = 0;
  /// The hardware's identity, the same in every process that sees it; zeros: unknown.
  std::array<std::uint64_t, 2> identity{};
};

/// A device of this process, opened or not.
struct device_info {
  device_id id{};
  device_facts facts{};
};

/// Handles of the runtime below; null: none.
struct native_stream {
  void* handle = nullptr;
};
struct native_event {
  void* handle = nullptr;
};
struct native_comm {
  void* handle = nullptr;
};

/// The place where an operation runs: `stream` is a `cudaStream_t` on a GPU, null on a CPU device.
struct launch_site {
  device_id device{};
  void* stream = nullptr;
};

/// An operation for a stream. On a GPU `run` is called at once, on the submitting thread, and only
/// enqueues; on a CPU it is called on the stream's thread and computes. What it works on stays
/// alive until the operation has ended: by what `run` owns on a CPU, by the pool's stream order on
/// a GPU.
struct device_op {
  const char* name = "op"; ///< static; errors quote it
  std::function<device_answer(const launch_site&)> run{};
};

enum class copy_kind : std::uint8_t {
  host_to_device = 0,
  device_to_host = 1,
  device_to_device = 2,
  host_to_host = 3
};

/// The key of a new communicator: drawn by one member, told to all.
struct unique_id {
  std::uint8_t bytes[128] = {};
};

/// Collectives among devices, as NCCL offers them. None waits, but `abort`, which may hang.
class collective_backend {
public:
  virtual ~collective_backend() = default;
  virtual device_answer get_unique_id(unique_id& out) = 0;
  /// Opens a communicator. `not_ready`: opening continues by itself; ask `status`.
  virtual device_answer open(std::uint32_t device, const unique_id& key, std::uint32_t size,
                             std::uint32_t rank, native_comm& out) = 0;
  virtual device_answer status(native_comm comm) = 0;
  /// Sums `count` elements of f32 (or bf16) in place, behind what the stream holds.
  virtual device_answer all_reduce(native_comm comm, void* data, std::uint64_t count, bool bf16,
                                   native_stream stream) = 0;
  /// Gives a healthy communicator back.
  virtual device_answer close(native_comm comm) = 0;
  /// Ends one that may be broken or in the middle of an operation. Waits; may hang.
  virtual device_answer abort(native_comm comm) = 0;
};

/// The functions of one kind of device. Any thread, after `bind` on it. Nothing here waits but
/// `await`, `run` on a CPU when the stream's queue is full, and what a broken driver hangs in.
class device_backend {
public:
  virtual ~device_backend() = default;
  virtual device_kind kind() const = 0;
  virtual result<std::uint32_t> count() = 0;
  virtual result<device_facts> describe(std::uint32_t device) = 0;
  /// Makes `device` the calling thread's.
  virtual device_answer bind(std::uint32_t device) = 0;
  /// The sticky error of the device, if it has one; does not wait.
  virtual device_answer health(std::uint32_t device) = 0;

  // --- memory
  virtual device_answer allocate(std::uint32_t device, std::size_t bytes, void*& out) = 0;
  virtual device_answer release(std::uint32_t device, void* memory) = 0;
  /// Allocates host memory that copies need not stage.
  virtual device_answer allocate_host(std::size_t bytes, void*& out) = 0;
  virtual device_answer release_host(void* memory) = 0;

  // --- streams and events
  virtual device_answer make_stream(std::uint32_t device, const std::string& name,
                                    native_stream& out) = 0;
  virtual device_answer drop_stream(native_stream stream) = 0;
  virtual device_answer make_event(std::uint32_t device, native_event& out) = 0;
  virtual device_answer drop_event(native_event event) = 0;
  /// The event passes when all that the stream holds now has ended.
  virtual device_answer record(native_stream stream, native_event event) = 0;
  /// Makes the stream wait until the event, as last recorded, has passed.
  virtual device_answer depend(native_stream stream, native_event event) = 0;
  /// Whether the event has passed: `ok` or `not_ready`.
  virtual device_answer query(native_event event) = 0;
  /// Waits for the event until `deadline` (`not_ready`).
  virtual device_answer await(native_event event, time_point deadline) = 0;

  // --- work
  virtual device_answer run(native_stream stream, const device_op& op) = 0;
  virtual device_answer copy(native_stream stream, void* to, const void* from, std::size_t bytes,
                             copy_kind kind) = 0;
  /// Calls `call(argument)` once the stream got there. The call may use neither the backend nor
  /// actors. Never called on a device that failed.
  virtual device_answer post(native_stream stream, void (*call)(void*), void* argument) = 0;

  /// The collectives of this kind of device; null: there are none, and `why_no_collectives` says
  /// why.
  virtual collective_backend* collectives() { return nullptr; }
  virtual std::string why_no_collectives() const { return "not supported by this kind of device"; }
};

/// The devices that a process may use.
class device_port {
public:
  virtual ~device_port() = default;
  /// A backend for each kind of device, CPUs first.
  virtual std::vector<std::shared_ptr<device_backend>> backends() = 0;
};

} // namespace troupe
