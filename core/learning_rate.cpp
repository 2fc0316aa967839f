#include <troupe/core/learning_rate.hpp>

namespace troupe {

namespace {

template <class Line>
schedule_spec between_steps(schedule_kind kind, const Line& x) {
  schedule_spec out;
  out.kind = kind;
  out.initial = x.initial;
  out.end = x.end;
  out.begin_step = x.begin_step;
  out.end_step = x.end_step;
  return out;
}

template <class Decay>
schedule_spec by_rate(schedule_kind kind, const Decay& x) {
  schedule_spec out;
  out.kind = kind;
  out.initial = x.initial;
  out.rate = x.rate;
  out.end_step = x.decay_steps;
  return out;
}

} // namespace

learning_rate_schedule::learning_rate_schedule(const linear_decay& x)
  : spec_{between_steps(schedule_kind::linear_decay, x)} {}

learning_rate_schedule::learning_rate_schedule(const cosine_decay& x)
  : spec_{between_steps(schedule_kind::cosine_decay, x)} {}

learning_rate_schedule::learning_rate_schedule(const exponential_decay& x)
  : spec_{by_rate(schedule_kind::exponential_decay, x)} {
  spec_.staircase = x.staircase;
}

learning_rate_schedule::learning_rate_schedule(piecewise_constant x) {
  spec_.kind = schedule_kind::piecewise_constant;
  spec_.boundaries = std::move(x.boundaries);
  spec_.values = std::move(x.values);
}

learning_rate_schedule::learning_rate_schedule(const inverse_time_decay& x)
  : spec_{by_rate(schedule_kind::inverse_time, x)} {}

} // namespace troupe
