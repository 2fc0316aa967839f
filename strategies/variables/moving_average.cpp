#include <troupe/strategies/variables/moving_average.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

#include <troupe/strategies/replicas/detail/context_stack.hpp>
#include <troupe/strategies/variables/detail/variable_core.hpp>
#include <troupe/strategies/variables/strategy_extended.hpp>

namespace troupe {

namespace {

void check_decay(double decay) {
  if (!(decay >= 0 && decay <= 1))
    throw_failure(errc::invalid_argument,
                  "moving average: decay is " + std::to_string(decay) + ", expected 0 to 1");
}

void check_value(const distributed_variable& v, const tensor& value) {
  if (v.type() != dtype::f32 && v.type() != dtype::f64)
    throw_failure(errc::invalid_argument, "moving average of variable '" + v.name() + "': it is "
                                            + to_string(v.type()) + ", expected f32 or f64");
  if (!value.defined())
    throw_failure(errc::invalid_argument, "moving average of variable '" + v.name()
                                            + "': no value was given, expected "
                                            + to_string(v.type()) + to_string(v.shape()));
  if (value.shape() != v.shape())
    throw_failure(errc::shape_mismatch, "moving average of variable '" + v.name()
                                          + "': the value has shape " + to_string(value.shape())
                                          + ", expected " + to_string(v.shape()));
  if (value.type() != v.type())
    throw_failure(errc::dtype_mismatch, "moving average of variable '" + v.name()
                                          + "': the value is " + to_string(value.type())
                                          + ", expected " + to_string(v.type()));
}

/// Element-wise a * x + b * y, in double, rounded once.
tensor blend(double a, const tensor& x, double b, const tensor& y) {
  tensor out{x.type(), x.shape()};
  auto all = [&](auto zero) {
    using T = decltype(zero);
    auto to = out.mutable_as<T>();
    for (std::size_t i = 0; i < to.size(); ++i)
      to[i] = static_cast<T>(a * static_cast<double>(x.as<T>()[i])
                             + b * static_cast<double>(y.as<T>()[i]));
  };
  if (x.type() == dtype::f32)
    all(float{});
  else
    all(double{});
  return out;
}

/// A variable of its own right, placed as `v` is, whose name is not put below the name scope here
/// once more.
distributed_variable make_beside(const distributed_variable& v, std::string name, tensor initial) {
  const auto state = v.distribute_strategy().state();
  state->require_cross_replica("moving average");
  detail::cross_replica_here here{state, {}};
  return make_variable({.name = std::move(name),
                        .initial = std::move(initial),
                        .trainable = false,
                        .logical_device = v.core()->logical_device()});
}

/// Has `step` change each copy of `v` with the value that the caller's context makes of `value`.
template <class Step>
void update_with(const distributed_variable& v, const tensor& value, Step step) {
  check_value(v, value);
  const auto by = v.core()->caller("moving average");
  using kind = detail::variable_context;
  switch (by.what) {
    case kind::update: return step(v, value);
    case kind::cross: v.distribute_strategy().extended().update(v, step, value); return;
    case kind::replica: by.ctx->update(v, step, by.ctx->all_reduce(reduce_op::mean, value)); return;
  }
}

} // namespace

void assign_moving_average(const distributed_variable& v, const tensor& value, double decay) {
  check_decay(decay);
  update_with(v, value, [decay](const distributed_variable& x, const tensor& y) {
    x.assign(blend(decay, x.read(), 1 - decay, y));
  });
}

// --- debiased

debiased_average::debiased_average(distributed_variable v, double decay)
  : average_{std::move(v)}, decay_{decay} {
  check_decay(decay);
  if (decay == 1)
    throw_failure(errc::invalid_argument,
                  "moving average: decay is 1, must be below 1 for bias correction");
  check_value(average_, tensor::zeros(average_.type(), average_.shape()));
  biased_ = make_beside(average_, average_.name() + "/biased",
                        tensor::zeros(average_.type(), average_.shape()));
  steps_ = make_beside(average_, average_.name() + "/steps", tensor::scalar<std::int64_t>(0));
}

void debiased_average::update(const tensor& value) const {
  update_with(average_, value, [self = *this](const distributed_variable& x, const tensor& y) {
    auto sum = blend(self.decay_, self.biased_.read(), 1 - self.decay_, y);
    const auto n = self.steps_.item<std::int64_t>() + 1;
    self.biased_.assign(sum);
    self.steps_.assign(tensor::scalar(n));
    const auto share = 1 - std::pow(self.decay_, static_cast<double>(n));
    x.assign(blend(1 / share, sum, 0, sum));
  });
}

// --- shadows

struct exponential_moving_average::shadows {
  /// By the variable's address, which the shadow's entry keeps alive.
  std::map<const void*, std::pair<distributed_variable, distributed_variable>> all{};
};

exponential_moving_average::exponential_moving_average(double decay)
  : decay_{decay}, shadows_{std::make_shared<shadows>()} {
  check_decay(decay);
}

void exponential_moving_average::apply(const distributed_variables& variables,
                                       std::optional<std::uint64_t> num_updates) {
  auto decay = decay_;
  if (num_updates) {
    const auto n = static_cast<double>(*num_updates);
    decay = std::min(decay, (1 + n) / (10 + n));
  }
  auto* mode = detail::innermost_mode();
  if (!mode || mode->kind != detail::context_kind::replica)
    return apply_here(variables, decay);
  mode->replica->merge_call(
    [self = *this, variables, decay](strategy&) mutable { self.apply_here(variables, decay); });
}

void exponential_moving_average::apply_here(const distributed_variables& variables, double decay) {
  for (const auto& each : variables) {
    const auto now = each.distribute_strategy().extended().read_var(each);
    check_value(each, now);
    auto at = shadows_->all.find(each.core().get());
    if (at == shadows_->all.end()) {
      auto shadow = make_beside(each, average_name(each), now.clone());
      at = shadows_->all.emplace(each.core().get(), std::pair{each, std::move(shadow)}).first;
    }
    assign_moving_average(at->second.second, now, decay);
  }
}

const distributed_variable& exponential_moving_average::average(
  const distributed_variable& of) const {
  auto at = shadows_->all.find(of.core().get());
  if (at == shadows_->all.end())
    throw_failure(errc::unknown_name,
                  "moving average: variable '" + of.name() + "' was never applied");
  return at->second.second;
}

std::string exponential_moving_average::average_name(const distributed_variable& of) {
  return of.name() + "/ExponentialMovingAverage";
}

} // namespace troupe
