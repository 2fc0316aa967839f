#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/troupe.hpp>

/// The plan of `--kill`: when which process is hit. Plain; times are in milliseconds since the
/// plan's start.
namespace tool {

enum class fault_signal : std::uint8_t { kill = 0, stop = 1 };

/// A `--kill JOB:every=TIME[,signal=KILL|STOP][,resume=TIME]`.
struct kill_spec {
  troupe::job_kind job = troupe::job_kind::worker;
  std::optional<std::uint32_t> index{}; ///< only this task; none: a random one
  std::int64_t every_ms = 0;
  fault_signal signal = fault_signal::kill;
  std::int64_t resume_ms = 0; ///< a stopped process goes on after so long
  friend bool operator==(const kill_spec&, const kill_spec&) = default;
};

/// "2s", "250ms", "1.5s", "2m". `bad_config` names `field` and the value.
troupe::result<std::int64_t> parse_duration_ms(std::string_view text, const std::string& field);

/// Parses the value of `--kill`. `bad_config` names the field and the value.
troupe::result<kill_spec> parse_kill_spec(std::string_view text);

/// "MARK:N": the N-th hit of a mark, from 1.
struct mark_spec {
  std::string mark{};
  int nth = 0;
  friend bool operator==(const mark_spec&, const mark_spec&) = default;
};

/// `flag` for messages: "--kill-at-mark".
troupe::result<mark_spec> parse_mark_spec(std::string_view text, const std::string& flag);

/// "worker:MARK:N", "worker:1:MARK:N": the same in the first incarnation of one task.
struct task_mark_spec {
  troupe::task_id task{.job = troupe::job_kind::worker, .index = 0};
  mark_spec at{};
  friend bool operator==(const task_mark_spec&, const task_mark_spec&) = default;
};
troupe::result<task_mark_spec> parse_task_mark_spec(std::string_view text, const std::string& flag);

/// A signal that is due now.
struct due_fault {
  troupe::task_id task{};
  fault_signal signal = fault_signal::kill;
  bool resume = false; ///< let a stopped process go on
  friend bool operator==(const due_fault&, const due_fault&) = default;
};

/// Decides which process gets which signal when. A process that is stopped is not hit again before
/// it goes on. One thread.
class kill_plan {
public:
  /// `seed` picks the victims.
  kill_plan(std::vector<kill_spec> specs, std::uint64_t seed);
  /// The signals due at `now_ms`, given the tasks that live and have been admitted.
  std::vector<due_fault> due(std::int64_t now_ms, const std::vector<troupe::task_id>& living);
  /// The time to call `due` again; none: never.
  std::optional<std::int64_t> next_ms() const;
  /// Ends the plan: the signals by which stopped processes go on, at once.
  std::vector<due_fault> end();

private:
  struct stopped {
    troupe::task_id task{};
    std::int64_t until_ms = 0;
  };
  std::optional<troupe::task_id> pick(const kill_spec& spec,
                                      const std::vector<troupe::task_id>& living);
  bool is_stopped(const troupe::task_id& task) const;
  std::vector<kill_spec> specs_;
  std::vector<std::int64_t> next_; ///< of each spec
  std::vector<stopped> stopped_{};
  std::uint64_t state_;
  bool ended_ = false;
};

} // namespace tool
