#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <troupe/core/time.hpp>

namespace troupe {

struct phi_options {
  /// Suspicion from this phi on: 8 means one wrong suspicion in 10^8 looks, were the intervals
  /// normally distributed.
  double threshold = 8.0;
  /// Never suspected under this silence, whatever phi says.
  std::int64_t floor_ms = 1000;
  /// Always suspected from this silence on.
  std::int64_t ceiling_ms = 10'000;
  /// Suspected from this silence on, and not before, until the first heartbeat: the newcomer may
  /// still wait for its answer.
  std::int64_t first_ms = 6000;
  /// The intervals that the window is filled with at the start.
  std::int64_t interval_ms = 100;
  /// Least standard deviation, so that a perfectly regular sender is not suspected for one hiccup.
  std::int64_t deviation_ms_min = 50;
};

/// Adaptive failure detector of one sender: a window of the last heartbeat intervals, taken as
/// normally distributed, and phi(now) = -log10(probability that a heartbeat comes later than now).
/// Plain; one thread. Cost: constant a call. Source: Hayashibara, Defago, Yared, Katayama, "The phi
/// accrual failure detector", 2004.
class phi_accrual {
public:
  explicit phi_accrual(phi_options options = {}, time_point now = {});
  void heartbeat(time_point now);
  /// The judge itself was away for `d`: neither the silence nor the next interval counts it.
  void note_delay(duration d, time_point now);
  /// Grows with the silence; infinite when it leaves what a double can tell.
  double phi(time_point now) const;
  bool suspicious(time_point now) const;
  duration silence(time_point now) const { return now > last_ ? now - last_ : duration{0}; }
  /// The silence from which on `suspicious` holds, within a nanosecond of rounding: between floor
  /// and ceiling.
  duration patience() const;
  double mean_ms() const;
  double deviation_ms() const;

private:
  static constexpr std::size_t window_len = 64;
  void add(std::uint64_t interval_us);
  phi_options options_;
  std::array<std::uint64_t, window_len> window_us_{};
  std::size_t next_ = 0;
  // Integers: a sum of doubles would drift over days.
  std::uint64_t sum_us_ = 0;
  std::uint64_t sum_squares_us_ = 0;
  time_point last_;
  bool heard_ = false;
};

} // namespace troupe
