#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <troupe/core/device_port.hpp>

/// The state of a device: well, or failed for good with the first error that it gave.
namespace troupe {

/// The code that a backend's answer means to a caller.
errc code_of(device_status status);

/// Whether a device that answered so is of no use any more.
bool is_final(device_status status);

/// "gpu:0 stream 'compute': operation 'adam' broke, or one before it: launch_failed (...)".
failure device_failure(const device_id& device, const std::string& stream, const char* operation,
                       const device_answer& answer);

/// Sticky: the first failure stays. Any thread.
class device_health {
public:
  /// Cheap: one load.
  bool is_well() const { return !failed_.load(std::memory_order_acquire); }
  /// The first failure; none while it is well.
  std::optional<failure> why() const;
  /// Keeps `why` if it is the first, then calls who listens, on the calling thread. True for the
  /// first.
  bool fail(failure why);
  /// Has `call` called with the failure, at once if there was one already.
  void listen(std::function<void(const failure&)> call);

private:
  std::atomic<bool> failed_{false};
  mutable std::mutex mutex_{};
  std::optional<failure> why_{};
  std::vector<std::function<void(const failure&)>> listeners_{};
};

} // namespace troupe
