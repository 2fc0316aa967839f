#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <troupe/core/device_port.hpp>
#include <troupe/core/environment.hpp>

/// A device that is made up: for tests on any machine, and for the simulator.
namespace troupe {

namespace detail {
struct fake_world;
}

/// Something that goes wrong, once planted.
struct device_fault {
  /// The function of the backend that it hits: "allocate", "run", "comm_abort", ...; or
  /// "execute:NAME", an operation of that name when its turn comes on the stream.
  std::string function{};
  std::optional<std::uint32_t> device{}; ///< none: any
  std::uint64_t nth = 1;                 ///< the call that it hits, counted from now
  std::uint64_t times = 1;               ///< calls in a row that it hits
  /// The answer of the call. Of an operation: the answer with which the device is broken from then
  /// on.
  device_answer answer{.status = device_status::failed, .text = "fault on demand"};
  /// The call does not return, or the operation does not end, before `release_hangs`.
  bool hang = false;
  bool breaks = true; ///< a final answer of a call ends the device; else only this call fails
};

struct fake_options {
  std::uint32_t devices = 1;
  device_kind kind = device_kind::gpu;
  std::uint64_t memory_bytes = std::uint64_t{1} << 30;
  std::uint64_t host_bytes = std::uint64_t{1} << 30;
  duration operation = std::chrono::microseconds{10}; ///< what one costs
  std::uint64_t copy_bytes_per_s = 20'000'000'000;
  /// Number of the hardware in the devices' identities: backends of one number are several
  /// processes' views of the same hardware. 0: drawn, hardware of its own.
  std::uint64_t hardware = 0;
};

/// Counts of what exists now; all 0 after a clean teardown.
struct fake_census {
  std::uint64_t streams = 0;
  std::uint64_t events = 0;
  std::uint64_t blocks = 0;
  std::uint64_t host_blocks = 0;
  std::uint64_t comms = 0;
  std::uint64_t bytes = 0;
  friend bool operator==(const fake_census&, const fake_census&) = default;
};

/// Behaves like a GPU of the runtime that `cuda_backend.hpp` speaks to: operations are queued and
/// run later, in stream order, each for its duration of the environment's clock; they really move
/// and compute, on host memory. One that breaks breaks its device: each later call answers the
/// same. Nothing runs by itself: streams move on whenever something is asked. The ports outlive it.
class fake_backend final : public device_backend, public collective_backend {
public:
  explicit fake_backend(const environment& env, fake_options options = {});
  ~fake_backend() override;

  // --- the tester's side
  void plant(device_fault fault);
  /// Loses the device, as when it fell off its bus.
  void lose(std::uint32_t device);
  /// Lets calls and operations that hang go on; nothing else that was planted will hang.
  void release_hangs();
  /// Sets the duration of operations of that name.
  void set_duration(const std::string& operation, duration d);
  std::uint64_t calls(const std::string& function) const;
  /// Number of calls that hang now.
  std::uint64_t hanging() const;
  fake_census census() const;

  // --- device_backend
  device_kind kind() const override;
  result<std::uint32_t> count() override;
  result<device_facts> describe(std::uint32_t device) override;
  device_answer bind(std::uint32_t device) override;
  device_answer health(std::uint32_t device) override;
  device_answer allocate(std::uint32_t device, std::size_t bytes, void*& out) override;
  device_answer release(std::uint32_t device, void* memory) override;
  device_answer allocate_host(std::size_t bytes, void*& out) override;
  device_answer release_host(void* memory) override;
  device_answer make_stream(std::uint32_t device, const std::string& name,
                            native_stream& out) override;
  device_answer drop_stream(native_stream stream) override;
  device_answer make_event(std::uint32_t device, native_event& out) override;
  device_answer drop_event(native_event event) override;
  device_answer record(native_stream stream, native_event event) override;
  device_answer depend(native_stream stream, native_event event) override;
  device_answer query(native_event event) override;
  device_answer await(native_event event, time_point deadline) override;
  device_answer run(native_stream stream, const device_op& op) override;
  device_answer copy(native_stream stream, void* to, const void* from, std::size_t bytes,
                     copy_kind kind) override;
  device_answer post(native_stream stream, void (*call)(void*), void* argument) override;
  collective_backend* collectives() override { return this; }

  // --- collective_backend
  device_answer get_unique_id(unique_id& out) override;
  device_answer open(std::uint32_t device, const unique_id& key, std::uint32_t size,
                     std::uint32_t rank, native_comm& out) override;
  device_answer status(native_comm comm) override;
  device_answer all_reduce(native_comm comm, void* data, std::uint64_t count, bool bf16,
                           native_stream stream) override;
  device_answer close(native_comm comm) override;
  device_answer abort(native_comm comm) override;

private:
  const std::unique_ptr<detail::fake_world> world_;
};

} // namespace troupe
