#include <troupe/kernels/detail/strict_math.hpp>

#include <troupe/kernels/schedule.hpp>

#include <troupe/kernels/detail/portable_math.hpp>

#include <algorithm>
#include <cmath>

namespace troupe::kernels {

namespace {

double periods(const schedule_spec& spec, std::uint64_t step) {
  const std::uint64_t length = std::max<std::uint64_t>(spec.decay_steps, 1);
  if (spec.staircase)
    return static_cast<double>(step / length);
  return static_cast<double>(step) / static_cast<double>(length);
}

double linear(const schedule_spec& spec, std::uint64_t step) {
  if (step >= spec.end_step)
    return spec.end;
  if (step <= spec.begin_step)
    return spec.initial;
  const double part = static_cast<double>(step - spec.begin_step)
                      / static_cast<double>(spec.end_step - spec.begin_step);
  return spec.initial + part * (static_cast<double>(spec.end) - spec.initial);
}

double cosine(const schedule_spec& spec, std::uint64_t step) {
  const std::uint64_t length = std::max<std::uint64_t>(spec.decay_steps, 1);
  const double part = static_cast<double>(std::min(step, length)) / static_cast<double>(length);
  const double wave = 0.5 * (1.0 + detail::portable_sincos(0.5 * part).cosine);
  return spec.initial * ((1.0 - spec.alpha) * wave + spec.alpha);
}

float piecewise(const schedule_spec& spec, std::uint64_t step) {
  const std::size_t count = std::min<std::size_t>(spec.boundary_count, schedule_boundaries_max);
  std::size_t i = 0;
  while (i < count && step > spec.boundaries[i])
    ++i;
  return spec.values[i];
}

std::string bad_field(const std::string& field, const std::string& value, const char* expected) {
  return "schedule_spec." + field + " is " + value + ", expected " + expected;
}

std::string indexed(std::string field, std::size_t i) {
  field += '[';
  field += std::to_string(i);
  field += ']';
  return field;
}

std::optional<std::string> invalid_piecewise(const schedule_spec& spec) {
  if (spec.boundary_count > schedule_boundaries_max)
    return bad_field("boundary_count", std::to_string(spec.boundary_count), "at most 8");
  for (std::size_t i = 0; i <= spec.boundary_count; ++i) {
    if (!std::isfinite(spec.values[i]) || spec.values[i] < 0)
      return bad_field(indexed("values", i), std::to_string(spec.values[i]),
                       "finite and at least 0");
    if (i > 0 && i < spec.boundary_count && spec.boundaries[i] <= spec.boundaries[i - 1])
      return bad_field(indexed("boundaries", i), std::to_string(spec.boundaries[i]),
                       "more than the boundary before");
  }
  return std::nullopt;
}

} // namespace

schedule_spec constant_schedule(float rate) {
  schedule_spec spec;
  spec.initial = rate;
  return spec;
}

std::optional<std::string> invalid_schedule(const schedule_spec& spec) {
  const auto good_rate = [](float x) { return std::isfinite(x) && x >= 0; };
  if (spec.kind > schedule_kind::inverse_time)
    return bad_field("kind", std::to_string(static_cast<int>(spec.kind)), "0 to 5");
  if (spec.kind == schedule_kind::piecewise_constant)
    return invalid_piecewise(spec);
  if (!good_rate(spec.initial))
    return bad_field("initial", std::to_string(spec.initial), "finite and at least 0");
  if (spec.kind == schedule_kind::linear_decay) {
    if (!good_rate(spec.end))
      return bad_field("end", std::to_string(spec.end), "finite and at least 0");
    if (spec.end_step <= spec.begin_step)
      return bad_field("end_step", std::to_string(spec.end_step), "more than begin_step");
    return std::nullopt;
  }
  if (spec.kind == schedule_kind::constant)
    return std::nullopt;
  if (spec.decay_steps == 0)
    return bad_field("decay_steps", "0", "at least 1");
  if (spec.kind == schedule_kind::cosine_decay) {
    if (!(spec.alpha >= 0 && spec.alpha <= 1))
      return bad_field("alpha", std::to_string(spec.alpha), "0 to 1");
  } else if (!good_rate(spec.rate)) {
    return bad_field("rate", std::to_string(spec.rate), "finite and at least 0");
  }
  return std::nullopt;
}

float evaluate(const schedule_spec& spec, std::uint64_t step) {
  switch (spec.kind) {
    case schedule_kind::constant: return spec.initial;
    case schedule_kind::linear_decay: return static_cast<float>(linear(spec, step));
    case schedule_kind::exponential_decay:
      return static_cast<float>(spec.initial
                                * std::pow(static_cast<double>(spec.rate), periods(spec, step)));
    case schedule_kind::cosine_decay: return static_cast<float>(cosine(spec, step));
    case schedule_kind::piecewise_constant: return piecewise(spec, step);
    case schedule_kind::inverse_time:
      return static_cast<float>(spec.initial / (1.0 + spec.rate * periods(spec, step)));
  }
  return spec.initial;
}

} // namespace troupe::kernels
