#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "../../tools/process/child_process.hpp"

namespace troupe::sim {

/// Limits of a child.
struct child_limits {
  std::chrono::milliseconds wall{60'000};
  /// Address space in bytes; 0: no limit. Ignored under a sanitizer, which maps terabytes.
  std::size_t memory_bytes = std::size_t{4} << 30;
};

/// The end of a child.
struct child_end {
  enum how_t : std::uint8_t {
    answered, ///< `answer` is whole
    died,     ///< by a signal or an exit of its own
    too_long, ///< killed at its limit
  };
  std::uint64_t key = 0;
  how_t how = answered;
  int signal = 0; ///< that ended it; 0: none
  int code = 0;   ///< it exited with
  std::string answer{};
  std::string errors{}; ///< the last of what it wrote to its standard error
};

/// Runs functions in forked children, several at a time: what aborts, overflows or hangs there ends
/// nothing else. Children share what the parent had warmed up. Linux; the parent has one thread.
class child_pool {
public:
  explicit child_pool(unsigned jobs, child_limits limits = {});
  /// Kills what still runs.
  ~child_pool();
  child_pool(const child_pool&) = delete;
  child_pool& operator=(const child_pool&) = delete;

  bool full() const { return running_.size() >= jobs_; }
  bool idle() const { return running_.empty(); }
  /// Has a child run `body` and answer what it returns. @pre not full.
  void start(std::uint64_t key, const std::function<std::string()>& body);
  /// Waits until a child ends. @pre not idle.
  child_end wait();

private:
  using steady = std::chrono::steady_clock;
  struct child {
    std::uint64_t key = 0;
    tool::child_process process{};
    tool::descriptor pipe{};
    tool::descriptor errors{};
    steady::time_point deadline{};
    bool killed = false;
    std::string answer{};
  };
  bool read_some(child& from);
  void kill_late(steady::time_point now);
  child_end finish(std::size_t at);
  tool::descriptor take_error_file();

  unsigned jobs_;
  child_limits limits_;
  std::vector<child> running_{};
  std::vector<tool::descriptor> error_files_{}; ///< that no child writes
};

} // namespace troupe::sim
