#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <troupe/troupe.hpp>

#include "process/child_process.hpp"
#include "restart_policy.hpp"

/// Child processes by task. They die with this process; only they are ever signalled.
namespace tool {

/// A task and the process that fills it.
struct child {
  troupe::task_id task{};
  child_process process{};
  std::uint32_t starts = 0;
  std::uint32_t seen_incarnation = 0; ///< as the coordinator counts
  std::int64_t started_ms = 0;
  std::optional<std::int64_t> start_at_ms{};
  restart_policy restarts{};
  bool hit = false; ///< this process was killed on purpose
  bool lives() const { return process.pid() > 0; }
  /// Of the last process, once it has been collected.
  const std::optional<exit_status>& status() const { return process.status(); }
  /// The coordinator's count once it knows this process, else the number of starts.
  std::uint32_t incarnation() const { return std::max(starts, seen_incarnation); }
};

class children {
public:
  children() = default;
  /// Kills and collects what is left.
  ~children();
  children(const children&) = delete;
  children& operator=(const children&) = delete;

  child& add(troupe::task_id task);
  std::vector<child>& all() { return all_; }
  const std::vector<child>& all() const { return all_; }
  child& at(troupe::task_id task);
  /// Starts this program again with `arguments`, and with `environment` beside this process's
  /// variables. The terminal's signals don't reach it: the launcher passes them on. Throws
  /// `unavailable` when the system has no process left.
  void start(child& c, const std::vector<std::string>& arguments,
             const std::map<std::string, std::string>& environment = {});
  void signal_all(int number) const;
  /// Collects children that ended; they have a status then.
  std::vector<child*> reap();
  bool any_lives() const;
  /// The tasks whose processes live.
  std::vector<troupe::task_id> living() const;
  /// When the next planned start is due.
  std::optional<std::int64_t> next_start_ms() const;

private:
  std::vector<child> all_{};
};

/// Time on the machine's steady clock.
std::int64_t steady_ns();

} // namespace tool
