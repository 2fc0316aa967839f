#include <troupe/strategies/optimizer/learning_rate.hpp>

#include <cmath>
#include <string>

namespace troupe {

namespace {

constexpr std::size_t boundaries_max = 8;

failure bad(const std::string& field, const std::string& value, const std::string& rule) {
  return make_failure(errc::invalid_argument,
                      "learning rate: " + field + " is " + value + ", " + rule);
}

result<void> check_rate(const std::string& field, float value) {
  if (!std::isfinite(value) || value < 0)
    return bad(field, std::to_string(value), "must be finite and not negative");
  return {};
}

result<void> check_steps(const schedule_spec& x) {
  if (x.end_step <= x.begin_step)
    return bad("end_step", std::to_string(x.end_step),
               "must be above begin_step " + std::to_string(x.begin_step));
  return check_rate("end", x.end);
}

result<void> check_decay(const schedule_spec& x) {
  if (x.end_step == 0)
    return bad("decay_steps", "0", "must be at least 1");
  return check_rate("rate", x.rate);
}

result<void> check_pieces(const schedule_spec& x) {
  if (x.boundaries.size() > boundaries_max)
    return bad("boundaries.size()", std::to_string(x.boundaries.size()),
               "must be at most " + std::to_string(boundaries_max));
  if (x.values.size() != x.boundaries.size() + 1)
    return bad("values.size()", std::to_string(x.values.size()),
               "must be one more than boundaries.size() " + std::to_string(x.boundaries.size()));
  for (std::size_t i = 1; i < x.boundaries.size(); ++i)
    if (x.boundaries[i] <= x.boundaries[i - 1])
      return bad("boundaries[" + std::to_string(i) + "]", std::to_string(x.boundaries[i]),
                 "must be above the previous one, " + std::to_string(x.boundaries[i - 1]));
  for (std::size_t i = 0; i < x.values.size(); ++i)
    if (auto fine = check_rate("values[" + std::to_string(i) + "]", x.values[i]); !fine)
      return fine;
  return {};
}

} // namespace

result<void> validate(const schedule_spec& x) {
  if (x.kind == schedule_kind::piecewise_constant)
    return check_pieces(x);
  if (auto fine = check_rate("initial", x.initial); !fine)
    return fine;
  switch (x.kind) {
    case schedule_kind::constant: return {};
    case schedule_kind::linear_decay:
    case schedule_kind::cosine_decay: return check_steps(x);
    case schedule_kind::exponential_decay:
    case schedule_kind::inverse_time: return check_decay(x);
    case schedule_kind::piecewise_constant: break;
  }
  return bad("kind", std::to_string(static_cast<int>(x.kind)), "is not a schedule");
}

} // namespace troupe
