// Learning-rate schedules: pure functions of the step number.
//
// `step` is the number of updates applied before this one: 0 for the first. Computed in double,
// rounded once to float. Any thread, no allocation. Source: the formulas of the Keras pages on
// ExponentialDecay, CosineDecay, PiecewiseConstantDecay, InverseTimeDecay and PolynomialDecay
// (power 1).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace troupe::kernels {

/// The shape of a schedule. The numbers are part of messages: don't renumber.
enum class schedule_kind : std::uint8_t {
  constant = 0,          ///< initial
  linear_decay = 1,      ///< from initial at begin_step straight to end at end_step, flat outside
  exponential_decay = 2, ///< initial * rate^(step / decay_steps)
  cosine_decay =
    3, ///< initial * (alpha + (1 - alpha) * (1 + cos(pi * min(step / decay_steps, 1))) / 2)
  piecewise_constant = 4, ///< values[i] for boundaries[i - 1] < step <= boundaries[i]
  inverse_time = 5,       ///< initial / (1 + rate * step / decay_steps)
};

inline constexpr std::size_t schedule_boundaries_max = 8;

/// A schedule and its numbers; a kind reads only the fields named beside it.
struct schedule_spec {
  schedule_kind kind = schedule_kind::constant;
  bool staircase = false; ///< exponential_decay, inverse_time: step / decay_steps is rounded down
  float initial = 0.001f; ///< all but piecewise_constant
  float end = 0;          ///< linear_decay
  float rate = 0.96f;     ///< exponential_decay, inverse_time
  float alpha = 0;        ///< cosine_decay: the part of initial that is left at the end
  std::uint64_t begin_step = 0;    ///< linear_decay
  std::uint64_t end_step = 0;      ///< linear_decay
  std::uint64_t decay_steps = 1;   ///< exponential_decay, cosine_decay, inverse_time
  std::uint8_t boundary_count = 0; ///< piecewise_constant
  std::array<std::uint64_t, schedule_boundaries_max>
    boundaries{}; ///< the first boundary_count count, rising
  std::array<float, schedule_boundaries_max + 1> values{}; ///< the first boundary_count + 1 count
};

/// A schedule that is always `rate`.
schedule_spec constant_schedule(float rate);

/// The reason why `spec` is not usable, none when it is: a text naming the field and its value.
std::optional<std::string> invalid_schedule(const schedule_spec& spec);

/// The learning rate at `step`. @pre !invalid_schedule(spec); any other spec gives some number,
/// never undefined behaviour.
float evaluate(const schedule_spec& spec, std::uint64_t step);

} // namespace troupe::kernels
