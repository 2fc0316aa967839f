#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <troupe/core/field_lists.hpp>

/// Learning rates as functions of the number of updates applied before, counted by each shard.
/// Plain values.
namespace troupe {

enum class schedule_kind : std::uint8_t {
  constant = 0,          ///< initial
  linear_decay = 1,      ///< initial until begin_step, then a line to `end` at end_step, then `end`
  exponential_decay = 2, ///< initial * rate^(t / end_step); staircase: integer quotient
  cosine_decay = 3,      ///< initial until begin_step, then half a cosine down to `end` at end_step
  piecewise_constant =
    4,              ///< values[i] for the first i with t <= boundaries[i]; the last value after all
  inverse_time = 5, ///< initial / (1 + rate * t / end_step)
};

/// A learning rate as it travels.
struct schedule_spec {
  schedule_kind kind = schedule_kind::constant;
  float initial = 1e-3f;
  float end = 0.0f;
  float rate = 1.0f;
  std::uint64_t begin_step = 0;
  std::uint64_t end_step = 1;
  bool staircase = false;
  std::vector<std::uint64_t> boundaries{}; ///< ascending, at most 8
  std::vector<float> values{};             ///< one more than boundaries
  TROUPE_FLAT_FIELDS(schedule_spec, kind, initial, end, rate, begin_step, end_step, staircase,
                     boundaries, values)
};

/// The reason why `rate` can't be a learning rate that is set by hand; none: it can.
inline std::optional<std::string> complaint_of_rate(float rate) {
  if (rate >= 0 && std::isfinite(rate))
    return std::nullopt;
  return "the rate is " + std::to_string(rate) + ", expected a finite number of at least 0";
}

// --- as a user writes them

/// `initial` until `begin_step`, then a line to `end` at `end_step`, then `end`.
struct linear_decay {
  float initial = 1e-3f;
  float end = 0.0f;
  std::uint64_t begin_step = 0;
  std::uint64_t end_step = 1;
};

/// `initial` until `begin_step`, then half a cosine down to `end` at `end_step`, then `end`.
struct cosine_decay {
  float initial = 1e-3f;
  float end = 0.0f;
  std::uint64_t begin_step = 0;
  std::uint64_t end_step = 1;
};

/// initial * rate^(t / decay_steps); `staircase`: with the integer quotient.
struct exponential_decay {
  float initial = 1e-3f;
  float rate = 0.96f;
  std::uint64_t decay_steps = 1;
  bool staircase = false;
};

/// values[i] for the first i with t <= boundaries[i], the last value after all, as Keras'
/// PiecewiseConstantDecay: with boundary 1000 the first 1001 updates (t from 0 to 1000) have
/// values[0]. At most 8 boundaries, ascending; one value more than boundaries.
struct piecewise_constant {
  std::vector<std::uint64_t> boundaries{};
  std::vector<float> values{};
};

/// initial / (1 + rate * t / decay_steps).
struct inverse_time_decay {
  float initial = 1e-3f;
  float rate = 1.0f;
  std::uint64_t decay_steps = 1;
};

/// A number or one of the schedules above. Not checked before `validate` or an optimizer takes it.
class learning_rate_schedule {
public:
  template <class T>
  requires(std::is_arithmetic_v<T> && !std::same_as<T, bool>)
    learning_rate_schedule(T rate) { // NOLINT: a number is a schedule
    spec_.initial = static_cast<float>(rate);
  }
  learning_rate_schedule(const linear_decay& x);
  learning_rate_schedule(const cosine_decay& x);
  learning_rate_schedule(const exponential_decay& x);
  learning_rate_schedule(piecewise_constant x);
  learning_rate_schedule(const inverse_time_decay& x);
  learning_rate_schedule(schedule_spec spec) : spec_{std::move(spec)} {}
  const schedule_spec& spec() const noexcept { return spec_; }

private:
  schedule_spec spec_{};
};

} // namespace troupe
