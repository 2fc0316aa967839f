#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include <troupe/troupe.hpp>

/// Child processes by task. They die with this process; only they are ever signalled.
namespace tool {

/// A task and the process that fills it.
struct child {
  troupe::task_id task{};
  pid_t pid = -1; ///< -1: none lives
  std::uint32_t starts = 0;
  std::uint32_t deaths_in_row = 0;    ///< soon after the start, by itself
  std::uint32_t seen_incarnation = 0; ///< as the coordinator counts
  std::int64_t started_ms = 0;
  std::optional<std::int64_t> start_at_ms{};
  std::optional<int> status{}; ///< of the last process, as waitpid tells it
  bool hit = false;            ///< this process was killed on purpose
  bool lives() const { return pid > 0; }
  /// The coordinator's count once it knows this process, else the number of starts.
  std::uint32_t incarnation() const { return std::max(starts, seen_incarnation); }
};

class children {
public:
  children();
  /// Kills and collects what is left.
  ~children();
  children(const children&) = delete;
  children& operator=(const children&) = delete;

  child& add(troupe::task_id task);
  std::vector<child>& all() { return all_; }
  const std::vector<child>& all() const { return all_; }
  child& at(troupe::task_id task);
  /// Starts this program again with `arguments`. `keep_fd`: a descriptor that it inherits, or -1.
  /// Throws `unavailable` when the system has no process left.
  void start(child& c, const std::vector<std::string>& arguments, int keep_fd);
  void signal(const child& c, int number) const;
  /// Collects children that ended; they have a status then.
  std::vector<child*> reap();
  bool any_lives() const;

private:
  std::vector<child> all_{};
  pid_t self_;
};

/// Time on the machine's steady clock.
std::int64_t steady_ns();

} // namespace tool
