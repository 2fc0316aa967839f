#include <troupe/actors/shards/detail/kernel_specs.hpp>

#include <algorithm>
#include <cstring>
#include <string>

#include <troupe/kernels/random_init.hpp>
#include <troupe/kernels/schedule.hpp>

namespace troupe::detail {

namespace {

std::uint64_t length_of(const schedule_spec& spec) {
  return spec.end_step > spec.begin_step ? spec.end_step - spec.begin_step : 1;
}

void convert_pieces(const schedule_spec& from, kernels::schedule_spec& to) {
  std::copy(from.boundaries.begin(), from.boundaries.end(), to.boundaries.begin());
  std::copy(from.values.begin(), from.values.end(), to.values.begin());
  to.boundary_count = static_cast<std::uint8_t>(from.boundaries.size());
}

kernels::schedule_spec convert(const schedule_spec& from) {
  kernels::schedule_spec to;
  to.initial = from.initial;
  to.end = from.end;
  to.rate = from.rate;
  to.decay_steps = from.end_step;
  switch (from.kind) {
    case schedule_kind::constant: to.kind = kernels::schedule_kind::constant; break;
    case schedule_kind::linear_decay:
      to.kind = kernels::schedule_kind::linear_decay;
      to.begin_step = from.begin_step;
      to.end_step = from.end_step;
      break;
    case schedule_kind::exponential_decay:
      to.kind = kernels::schedule_kind::exponential_decay;
      to.staircase = from.staircase;
      break;
    case schedule_kind::cosine_decay: // the fall from 1 to 0; `learning_rate_at` scales it
      to.kind = kernels::schedule_kind::cosine_decay;
      to.initial = 1.0f;
      to.decay_steps = length_of(from);
      break;
    case schedule_kind::piecewise_constant:
      to.kind = kernels::schedule_kind::piecewise_constant;
      convert_pieces(from, to);
      break;
    case schedule_kind::inverse_time: to.kind = kernels::schedule_kind::inverse_time; break;
  }
  return to;
}

result<void> check_schedule(const variable_spec& spec) {
  const auto& schedule = spec.optimizer.learning_rate;
  auto refuse = [&](const std::string& what) {
    return make_failure(errc::invalid_argument,
                        "variable '" + spec.name + "': learning rate: " + what);
  };
  if (schedule.kind > schedule_kind::inverse_time)
    return refuse("schedule kind " + std::to_string(static_cast<unsigned>(schedule.kind)));
  if (schedule.kind == schedule_kind::piecewise_constant) {
    if (schedule.boundaries.size() > kernels::schedule_boundaries_max)
      return refuse(std::to_string(schedule.boundaries.size()) + " boundaries, at most "
                    + std::to_string(kernels::schedule_boundaries_max));
    if (schedule.values.size() != schedule.boundaries.size() + 1)
      return refuse(std::to_string(schedule.values.size()) + " values for "
                    + std::to_string(schedule.boundaries.size())
                    + " boundaries, expected one more");
  }
  if (auto why = kernels::invalid_schedule(convert(schedule)))
    return refuse(*why);
  return {};
}

kernels::initializer_kind convert(initializer_kind kind) {
  switch (kind) {
    case initializer_kind::zeros: return kernels::initializer_kind::zeros;
    case initializer_kind::ones: return kernels::initializer_kind::ones;
    case initializer_kind::constant: return kernels::initializer_kind::constant;
    case initializer_kind::uniform: return kernels::initializer_kind::uniform;
    case initializer_kind::normal: return kernels::initializer_kind::normal;
    case initializer_kind::truncated_normal: return kernels::initializer_kind::truncated_normal;
    case initializer_kind::glorot_uniform: return kernels::initializer_kind::glorot_uniform;
    case initializer_kind::he_normal: return kernels::initializer_kind::he_normal;
    case initializer_kind::identity: return kernels::initializer_kind::identity;
  }
  return kernels::initializer_kind::zeros;
}

// Fans as Keras computes them: the last two axes are inputs and outputs, the others a receptive
// field.
kernels::initializer_spec initializer_of(const variable_spec& spec) {
  kernels::initializer_spec to;
  to.kind = convert(spec.initializer.kind);
  to.a = spec.initializer.a;
  to.b = spec.initializer.b;
  to.seed = spec.initializer.seed;
  const auto& shape = spec.shape;
  auto rank = shape.size();
  if (rank == 1) {
    to.fan_in = to.fan_out = static_cast<std::uint64_t>(shape[0]);
  } else if (rank > 1) {
    std::uint64_t field = 1;
    for (std::size_t i = 0; i + 2 < rank; ++i)
      field *= static_cast<std::uint64_t>(shape[i]);
    to.fan_in = field * static_cast<std::uint64_t>(shape[rank - 2]);
    to.fan_out = field * static_cast<std::uint64_t>(shape[rank - 1]);
  }
  return to;
}

template <class T>
void fill(const variable_spec& spec, std::int64_t row_begin, tensor& out) {
  kernels::row_shape shape{static_cast<std::size_t>(spec.rows()),
                           static_cast<std::size_t>(spec.row_size())};
  kernels::fill_rows<T>(initializer_of(spec), spec.name, shape, static_cast<std::size_t>(row_begin),
                        out.mutable_as<T>());
}

} // namespace

float learning_rate_at(const schedule_spec& spec, std::uint64_t applies) {
  if (spec.kind == schedule_kind::constant)
    return spec.initial;
  if (spec.kind != schedule_kind::cosine_decay)
    return kernels::evaluate(convert(spec), applies);
  auto since = applies > spec.begin_step ? applies - spec.begin_step : 0;
  return spec.end + (spec.initial - spec.end) * kernels::evaluate(convert(spec), since);
}

result<void> check_kernel_specs(const variable_spec& spec) {
  auto refuse = [&](const std::string& what) {
    return make_failure(errc::invalid_argument, "variable '" + spec.name + "': " + what);
  };
  bool is_float = spec.type == dtype::f32 || spec.type == dtype::f64;
  if (!find_optimizer(spec.optimizer.kind))
    return refuse("optimizer kind " + std::to_string(static_cast<unsigned>(spec.optimizer.kind)));
  if (spec.optimizer.kind != optimizer_kind::none) {
    if (!is_float)
      return refuse("optimizers support f32 and f64, not " + to_string(spec.type));
    if (auto ok = check_schedule(spec); !ok)
      return ok;
  }
  if (spec.initializer.kind > initializer_kind::identity)
    return refuse("initializer kind "
                  + std::to_string(static_cast<unsigned>(spec.initializer.kind)));
  bool is_integer = spec.type == dtype::i32 || spec.type == dtype::i64;
  if (!is_float && !is_integer) {
    if (spec.initializer.kind != initializer_kind::zeros)
      return refuse(to_string(spec.type) + " variables support only the zeros initializer");
    return {};
  }
  if (auto why = kernels::invalid_initializer(initializer_of(spec), is_integer))
    return refuse("initializer: " + *why);
  return {};
}

void fill_initial_rows(const variable_spec& spec, std::int64_t row_begin, tensor& out) {
  if (out.size() == 0)
    return;
  switch (spec.type) {
    case dtype::f32: return fill<float>(spec, row_begin, out);
    case dtype::f64: return fill<double>(spec, row_begin, out);
    case dtype::i32: return fill<std::int32_t>(spec, row_begin, out);
    case dtype::i64: return fill<std::int64_t>(spec, row_begin, out);
    default: std::memset(out.mutable_bytes().data(), 0, out.size_bytes());
  }
}

} // namespace troupe::detail
