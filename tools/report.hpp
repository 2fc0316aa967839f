#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/troupe.hpp>

#include "fashion_mnist.hpp"

/// The output of a run, in the end and while it goes on. Pure functions, except for the screen.
namespace tool {

/// Facts that only a launcher knows.
struct process_report {
  std::uint64_t kills = 0; ///< processes that ended by SIGKILL before the end
  std::uint32_t ended_well = 0;
  std::uint32_t tasks = 0;
};

/// The closing lines, in their fixed order.
std::vector<std::string> final_lines(const training_report& report,
                                     const std::optional<process_report>& processes);

/// "train: 9370 steps in 4.2 s, 2231 steps/s, 142784 examples/s".
std::string time_line(const training_report& report, std::uint32_t batch_size);

/// The state of a running training.
struct progress_state {
  std::uint64_t steps = 0;
  double fraction = 0; ///< of the run, in [0, 1]
  double loss = 0;
  double seconds = 0;     ///< since the start
  double steps_per_s = 0; ///< of late
  std::uint32_t batch_size = 0;
};

/// "[#########...........]  45 %  4217 steps  2231 steps/s  142784 examples/s  loss 0.312  2 s
/// left", with the bar shortened or left out so that it fits into `columns`.
std::string progress_bar(const progress_state& x, std::size_t columns);
/// "step 4217 (45 %): 2231 steps/s, 142784 examples/s, loss 0.312, 2 s left".
std::string progress_text(const progress_state& x);
/// "3 s", "2 min 05 s".
std::string readable_seconds(double seconds);

/// Seconds left when a fraction took so long; 0 before anything is known.
double seconds_left(double fraction, double seconds);

/// Numbers as `key value` lines, through the pipe from the coordinator to its launcher.
std::string encode_report(const training_report& report);
/// The report of such lines. `corrupt` names the line.
troupe::result<training_report> decode_report(std::string_view text);

/// From a process's death to the first attempt of a lost closure elsewhere, in milliseconds: for
/// each death the first re-run that began after it and before the next death. Both sorted.
std::vector<double> recovery_ms(const std::vector<std::int64_t>& death_ns,
                                const std::vector<std::int64_t>& rerun_begin_ns);

/// Middle value, of two the lower; 0 without any.
double median(std::vector<double> values);

} // namespace tool
