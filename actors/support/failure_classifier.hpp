#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string_view>

#include <troupe/core/error.hpp>
#include <troupe/core/ids.hpp>
#include <troupe/core/time.hpp>

namespace troupe {

/// The fate of a closure whose attempt failed, by the typed origin of the failure and not by its
/// text; the first match wins.
enum class verdict : std::uint8_t {
  put_back = 0,    ///< a fault of the way to a task, or a deadline; try again
  worker_lost = 1, ///< the worker is not usable; put back, and wait for it to return
  cancelled = 2,   ///< the batch was being cancelled
  fatal = 3,       ///< any other failure: the error of the batch
};

/// Whether the worker's device failed: other workers shall run the closure. Each time counts as a
/// failed attempt of the closure, which finds one that breaks one device after the other.
bool is_fault_of_the_device(errc code);

/// Whether an error is of the way to a task: the task may be well, and the next try reach it.
bool is_fault_of_the_way(errc code);

/// Counts hiccups in a sliding window, so that a long run is not ended by their sum. One hiccup
/// fails many attempts: all channels to a server end at once, on every thread of every worker. So
/// what comes within `hiccup` of its first failure is the same one. One thread.
class failure_classifier {
public:
  struct options {
    std::uint32_t server_faults_max = 3; ///< hiccups per server and window; that many are fatal
    std::uint32_t deadline_faults_max =
      3; ///< deadlines per window over all tasks; that many are fatal
    duration window = std::chrono::seconds{10};
    duration hiccup = std::chrono::milliseconds{500};
  };

  failure_classifier() = default;
  explicit failure_classifier(options opts) : options_{opts} {}

  /// `worker`: who reported. `server_lost`: the server named as origin is known to be gone.
  verdict classify(const failure& why, const task_id& worker, bool batch_cancelled,
                   bool server_lost, time_point now);

private:
  bool under(std::deque<time_point>& seen, std::uint32_t max, time_point now);
  options options_{};
  std::map<task_id, std::deque<time_point>> server_faults_{};
  std::deque<time_point> deadline_faults_{};
};

/// Whether a failure says that the way to a peer broke, and not what the peer answered.
bool is_lost_connection(errc code);

/// The end of an error about a server that cannot be reached: what its reader can do now.
inline constexpr std::string_view server_lost_advice =
  "; if the server has ended, its variables are lost: restart the cluster and restore() the last "
  "checkpoint";

/// The failure of a server that lacks variables that were made there: `unavailable`, naming its
/// loss. @pre `why` is `unknown_variable`, and a server's.
failure came_back_empty(failure why);

} // namespace troupe
