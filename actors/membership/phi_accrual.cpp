#include <troupe/actors/membership/phi_accrual.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace troupe {

namespace {

constexpr duration ms(std::int64_t n) { return std::chrono::milliseconds{n}; }

/// Longer intervals say no more, and their squares must fit.
constexpr std::uint64_t sample_us_max = 60'000'000;

} // namespace

phi_accrual::phi_accrual(phi_options options, time_point now) : options_{options}, last_{now} {
  for (std::size_t i = 0; i < window_len; ++i)
    add(static_cast<std::uint64_t>(options_.interval_ms) * 1000);
}

void phi_accrual::add(std::uint64_t interval_us) {
  std::uint64_t& slot = window_us_[next_];
  next_ = (next_ + 1) % window_len;
  sum_us_ -= slot;
  sum_squares_us_ -= slot * slot;
  slot = std::min(interval_us, sample_us_max);
  sum_us_ += slot;
  sum_squares_us_ += slot * slot;
}

void phi_accrual::heartbeat(time_point now) {
  if (heard_)
    add(static_cast<std::uint64_t>(silence(now).count() / 1000));
  heard_ = true;
  last_ = std::max(last_, now);
}

void phi_accrual::note_delay(duration d, time_point now) {
  last_ = std::min(last_ + d, std::max(last_, now));
}

double phi_accrual::mean_ms() const { return static_cast<double>(sum_us_) / window_len / 1000.0; }

double phi_accrual::deviation_ms() const {
  const double mean_us = static_cast<double>(sum_us_) / window_len;
  const double variance = static_cast<double>(sum_squares_us_) / window_len - mean_us * mean_us;
  return std::max(std::sqrt(std::max(variance, 0.0)) / 1000.0,
                  static_cast<double>(options_.deviation_ms_min));
}

double phi_accrual::phi(time_point now) const {
  const double silent_ms = static_cast<double>(silence(now).count()) / 1e6;
  const double later = 0.5 * std::erfc((silent_ms - mean_ms()) / (deviation_ms() * std::sqrt(2.0)));
  return later > 0.0 ? -std::log10(later) : std::numeric_limits<double>::infinity();
}

bool phi_accrual::suspicious(time_point now) const {
  const duration silent = silence(now);
  if (!heard_)
    return silent >= ms(options_.first_ms);
  if (silent < ms(options_.floor_ms))
    return false;
  return silent >= ms(options_.ceiling_ms) || phi(now) >= options_.threshold;
}

duration phi_accrual::patience() const {
  if (!heard_)
    return ms(options_.first_ms);
  duration low = ms(options_.floor_ms);
  duration high = ms(options_.ceiling_ms);
  if (suspicious(last_ + low))
    return low;
  while (high - low > duration{1}) {
    const duration middle = low + (high - low) / 2;
    (suspicious(last_ + middle) ? high : low) = middle;
  }
  return high;
}

} // namespace troupe
