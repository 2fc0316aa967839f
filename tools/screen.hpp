#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "report.hpp"

/// Standard output of the process that trains: a bar that is drawn again in place on a terminal,
/// plain lines every few seconds elsewhere.
namespace tool {

class screen {
public:
  /// Looks at standard output once.
  explicit screen(std::uint32_t batch_size);
  ~screen();
  screen(const screen&) = delete;
  screen& operator=(const screen&) = delete;
  /// Draws when it is time to.
  void progress(std::uint64_t steps, double fraction, double loss);
  /// A line of its own, above the bar.
  void say(const std::string& line);
  /// Leaves the last bar standing.
  void close();

private:
  struct sample {
    double seconds = 0;
    std::uint64_t steps = 0;
  };
  double now() const;
  double recent_rate(double seconds, std::uint64_t steps);

  std::uint32_t batch_size_;
  bool terminal_;
  bool drawn_ = false;
  bool finished_ = false; ///< the last look was at the end
  double begin_;
  double next_ = 0;
  double loss_sum_ = 0; ///< since the last draw
  std::uint64_t losses_ = 0;
  double last_loss_ = 0; ///< drawn, for looks without a new result
  std::deque<sample> samples_{};
};

} // namespace tool
