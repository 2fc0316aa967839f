#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <troupe/core/device_port.hpp>
#include <troupe/core/environment.hpp>

/// Streams and events of a CPU.
namespace troupe::detail {

/// The state that all streams and events of a CPU backend share: one lock, since what they do under
/// it is a few moves.
struct cpu_shared {
  explicit cpu_shared(const environment& e) : env{e}, changed{e.waits.make_point()} {}
  const environment env;
  std::mutex mutex{};
  /// An event passed, a queue got shorter, or a stream failed.
  const std::unique_ptr<wait_point> changed;
};

/// A record of an event, which passes once. Recording anew makes another.
struct cpu_record {
  bool passed = false;
  device_answer failed{}; ///< of the stream that it stands in
};

struct cpu_event {
  std::shared_ptr<cpu_record> last{};
};

/// A queue with a thread that runs it.
class cpu_stream {
public:
  cpu_stream(std::shared_ptr<cpu_shared> shared, device_id device, std::uint32_t queue_len_max,
             duration full_max);
  /// Starts the thread. The stream stays until `stop`.
  void start(const std::string& name, const std::shared_ptr<cpu_stream>& self);
  /// Drops what is queued and ends the thread. False when it was in an operation: then it is
  /// abandoned, and goes once that has ended.
  bool stop();

  /// Puts an operation into the queue. Waits while the queue is full of operations.
  device_answer push(device_op op);
  // Events don't wait: memory that comes back records one, and the thread itself brings memory
  // back. There are no more of them than of handles.
  device_answer record(cpu_event& event);
  device_answer depend(const cpu_event& event);
  device_answer failed() const;

private:
  struct item {
    device_op op{};
    std::shared_ptr<cpu_record> record{}; ///< passes here
    std::shared_ptr<cpu_record> wait{};   ///< has to pass first
  };
  device_answer put(item what);
  void body();
  void run_one(item& what);
  void break_all(const device_answer& why);

  const std::shared_ptr<cpu_shared> shared_;
  const device_id device_;
  const std::uint32_t queue_len_max_;
  const duration full_max_;
  const std::unique_ptr<wait_point> work_;
  std::deque<item> queue_{};
  std::uint32_t operations_ = 0; ///< of those: what the bound counts
  std::unique_ptr<thread_handle> thread_{};
  device_answer failed_{};
  bool stopped_ = false;
  bool computing_ = false;
};

} // namespace troupe::detail
