#include <troupe/strategies/variables/distributed_variable.hpp>

#include <cmath>
#include <limits>
#include <utility>

#include <troupe/core/environment.hpp>
#include <troupe/strategies/replicas/detail/context_stack.hpp>
#include <troupe/strategies/topology/logical_devices.hpp>
#include <troupe/strategies/variables/detail/variable_core.hpp>
#include <troupe/strategies/variables/scopes.hpp>

namespace troupe {

using detail::context_kind;
using detail::innermost_mode;
using detail::replica_engine;
using detail::variable_core;

// --- the handle

const std::string& distributed_variable::name() const { return core_->spec().name; }
const shape_t& distributed_variable::shape() const { return core_->spec().shape; }
troupe::dtype distributed_variable::type() const { return core_->spec().type; }
variable_synchronization distributed_variable::synchronization() const {
  return core_->synchronization();
}
variable_aggregation distributed_variable::aggregation() const { return core_->aggregation(); }
bool distributed_variable::trainable() const { return core_->trainable(); }
troupe::strategy distributed_variable::distribute_strategy() const {
  return troupe::strategy{core_->of()};
}
std::size_t distributed_variable::components() const { return core_->components(); }
std::string distributed_variable::component_name(std::size_t i) const {
  (void)core_->component(i);
  return i == 0 ? name() : name() + "/replica_" + std::to_string(i);
}
tensor distributed_variable::component(std::size_t i) const {
  return core_->component(i).read().values;
}
const std::vector<std::string>& distributed_variable::devices() const { return core_->devices(); }

const std::string& distributed_variable::device() const {
  const auto here = short_name(resolve_device(""));
  for (const auto& each : devices())
    if (each == here)
      return each;
  return devices().front();
}

tensor distributed_variable::component_on(const std::string& device) const {
  std::string there;
  for (std::size_t i = 0; i < devices().size(); ++i) {
    if (devices()[i] == device)
      return component(i);
    there += (i == 0 ? "" : ", ") + devices()[i];
  }
  throw_failure(core_->complaint(errc::device_unavailable, "component_on",
                                 "no copy on '" + device + "'; the copies are on " + there));
}

tensor distributed_variable::read() const { return core_->read(); }
const std::function<tensor(const tensor&)>& distributed_variable::constraint() const {
  return core_->constraint();
}
const distributed_variable& distributed_variable::apply_constraint() const {
  core_->apply_constraint();
  return *this;
}

tensor distributed_variable::saved_value() const { return core_->saved_value(); }
void distributed_variable::restore_value(const tensor& value) const { core_->restore_value(value); }

const distributed_variable& distributed_variable::change(write how, const tensor& value,
                                                         bool is_literal) const {
  constexpr mutation_kind kinds[] = {mutation_kind::assign, mutation_kind::assign_add,
                                     mutation_kind::assign_sub};
  core_->write(kinds[static_cast<std::size_t>(how)], value, is_literal);
  return *this;
}

const distributed_variable& distributed_variable::assign(const tensor& value) const {
  return change(write::assign, value, false);
}
const distributed_variable& distributed_variable::assign_add(const tensor& value) const {
  return change(write::add, value, false);
}
const distributed_variable& distributed_variable::assign_sub(const tensor& value) const {
  return change(write::sub, value, false);
}
const distributed_variable& distributed_variable::assign(const per_replica<tensor>& value) const {
  core_->assign_each(value);
  return *this;
}
const distributed_variable& distributed_variable::assign(const distributed_variable& value) const {
  // Without an aggregation, one whose copies are equal is as good as a number.
  const bool as_number =
    aggregation() == variable_aggregation::none && value.core_->keeps_copies_equal();
  return change(write::assign, value.read(), as_number);
}

namespace {

template <class T>
tensor filled(const shape_t& shape, T value) {
  tensor out{dtype_of<T>::value, shape};
  for (auto& each : out.mutable_as<T>())
    each = value;
  return out;
}

} // namespace

namespace {

/// Whether a number is one of T's.
template <class T>
bool fits(std::int64_t x) {
  return x >= std::int64_t{std::numeric_limits<T>::min()}
         && x <= std::int64_t{std::numeric_limits<T>::max()};
}

template <class T>
bool fits(double x) { // false for what is no number
  constexpr double limit = static_cast<double>(std::int64_t{1} << (8 * sizeof(T) - 2)) * 2;
  return x >= -limit && x < limit && std::trunc(x) == x;
}

} // namespace

const distributed_variable& distributed_variable::literal(write how, any_number value) const {
  auto set = [&](auto zero) -> const distributed_variable& {
    using T = decltype(zero);
    return std::visit(
      [&](auto x) -> const distributed_variable& {
        if constexpr (std::is_integral_v<T>)
          if (!fits<T>(x))
            throw_failure(
              core_->complaint(errc::dtype_mismatch, "assign",
                               std::to_string(x) + " does not fit " + to_string(type())));
        return change(how, filled(shape(), static_cast<T>(x)), true);
      },
      value);
  };
  switch (type()) {
    case dtype::f32: return set(float{});
    case dtype::f64: return set(double{});
    case dtype::i32: return set(std::int32_t{});
    case dtype::i64: return set(std::int64_t{});
    default: break;
  }
  throw_failure(core_->complaint(errc::dtype_mismatch, "assign",
                                 "cannot assign a number to a variable of " + to_string(type())));
}

const distributed_variable& distributed_variable::scatter_add(const tensor& indices,
                                                              const tensor& values) const {
  core_->scatter(mutation_kind::scatter_add, indices, values);
  return *this;
}
const distributed_variable& distributed_variable::scatter_sub(const tensor& indices,
                                                              const tensor& values) const {
  core_->scatter(mutation_kind::scatter_sub, indices, values);
  return *this;
}
const distributed_variable& distributed_variable::scatter_mul(const tensor& indices,
                                                              const tensor& values) const {
  core_->scatter(mutation_kind::scatter_mul, indices, values);
  return *this;
}
const distributed_variable& distributed_variable::scatter_div(const tensor& indices,
                                                              const tensor& values) const {
  core_->scatter(mutation_kind::scatter_div, indices, values);
  return *this;
}
const distributed_variable& distributed_variable::scatter_min(const tensor& indices,
                                                              const tensor& values) const {
  core_->scatter(mutation_kind::scatter_min, indices, values);
  return *this;
}
const distributed_variable& distributed_variable::scatter_max(const tensor& indices,
                                                              const tensor& values) const {
  core_->scatter(mutation_kind::scatter_max, indices, values);
  return *this;
}
const distributed_variable& distributed_variable::scatter_update(const tensor& indices,
                                                                 const tensor& values) const {
  core_->scatter(mutation_kind::scatter_update, indices, values);
  return *this;
}

// --- creation

namespace {

[[noreturn]] void refuse(const std::string& name, errc code, const std::string& text) {
  throw_failure(code, "variable '" + name + "': " + text);
}

void check(const distributed_variable_options& o) {
  if (o.synchronization == variable_synchronization::none)
    refuse(o.name, errc::invalid_argument, "synchronization none is not supported");
  if (o.synchronization > variable_synchronization::on_read)
    refuse(o.name, errc::invalid_argument,
           "synchronization is " + std::to_string(static_cast<int>(o.synchronization))
             + ", which is unknown");
  if (o.aggregation > variable_aggregation::only_first_replica)
    refuse(
      o.name, errc::invalid_argument,
      "aggregation is " + std::to_string(static_cast<int>(o.aggregation)) + ", which is unknown");
}

/// In cross-replica context of `of`.
distributed_variable make_for(const std::shared_ptr<replica_engine>& of,
                              distributed_variable_options options) {
  if (options.name.empty())
    options.name = "variable_" + std::to_string(of->next_variable());
  else
    (void)of->next_variable();
  options.name = detail::name_prefix() + options.name;
  check_logical_device(options.logical_device.value_or(0), of->logical_count()).value_or_throw();
  if (options.partitioner && !of->is_standard() && of->warn_once())
    trace(of->env(), "strategy.partitioner_dropped",
          {{"strategy", of->text()}, {"variable", options.name}});
  check(options);
  tensor whole;
  if (auto* value = std::get_if<tensor>(&options.initial)) {
    whole = *value;
    if (!whole.defined())
      refuse(options.name, errc::invalid_argument, "initial is a tensor without a value");
  } else if (auto* make = std::get_if<std::function<tensor()>>(&options.initial)) {
    whole = (*make)();
    if (!whole.defined())
      refuse(options.name, errc::invalid_argument, "initial returned a tensor without a value");
  }
  variable_spec spec{.name = options.name,
                     .type = options.type,
                     .shape = options.shape,
                     .optimizer = options.optimizer.spec()};
  if (whole.defined()) {
    if (!options.shape.empty() && options.shape != whole.shape())
      refuse(
        options.name, errc::shape_mismatch,
        "initial has shape " + to_string(whole.shape()) + ", shape is " + to_string(options.shape));
    spec.shape = whole.shape();
    spec.type = whole.type();
  } else {
    spec.initializer = std::get<initializer_spec>(options.initial);
  }
  if (options.aggregation == variable_aggregation::mean && spec.type <= dtype::i64)
    refuse(options.name, errc::invalid_argument,
           "aggregation mean takes a floating-point type, not " + to_string(spec.type));
  spec.shards = {{.row_begin = 0, .row_end = spec.rows()}};
  auto core = std::make_shared<variable_core>(
    of, std::make_shared<const variable_spec>(std::move(spec)), options);
  if (whole.defined())
    for (std::size_t i = 0; i < core->components(); ++i) {
      auto done = core->component(i).restore(whole, {}, 0);
      if (!done)
        throw_failure(std::move(done.error()));
    }
  if (of->options().workers > 1) // the first worker's values are everybody's
    strategy{of}.run([core](replica_context& ctx) {
      const auto local = ctx.replica_id_in_sync_group() - core->of()->first_id();
      auto& own = core->component(local);
      own.restore(ctx.broadcast(own.read().values, 0), {}, 0).value_or_throw();
    });
  return distributed_variable{std::move(core)};
}

} // namespace

namespace {

using creators = std::vector<std::shared_ptr<const detail::scoped_creator>>;

/// Of this thread, innermost first.
creators creators_here() {
  creators out;
  for (auto* at = detail::innermost_frame(); at; at = at->outer) {
    if (at->kind == context_kind::replica && !at->strategy->is_inline())
      break; // what is around the run is asked where the run was called
    if (at->kind == context_kind::creator)
      out.push_back(at->creator);
  }
  return out;
}

distributed_variable ask(const creators& all, std::size_t at, const next_creator& last,
                         distributed_variable_options options) {
  if (at == all.size())
    return last(std::move(options));
  return all[at]->make(
    [&](distributed_variable_options with) { return ask(all, at + 1, last, std::move(with)); },
    std::move(options));
}

/// The logical device of the scope around, on this thread.
void place_here(distributed_variable_options& options) {
  for (auto* at = detail::innermost_frame(); at && !options.logical_device; at = at->outer) {
    if (at->kind == context_kind::replica && !at->strategy->is_inline())
      break;
    options.logical_device = at->logical;
  }
}

distributed_variable make_in_cross(const std::shared_ptr<replica_engine>& of,
                                   distributed_variable_options options) {
  place_here(options);
  return ask(
    creators_here(), 0,
    [&of](distributed_variable_options with) { return make_for(of, std::move(with)); },
    std::move(options));
}

/// All replicas have called it: one variable, made where the run was called.
distributed_variable make_in_replica(replica_context& ctx, distributed_variable_options options) {
  struct wanted {
    distributed_variable_options options{};
    std::string prefix{};
  };
  return ctx.merge_call(
    [](strategy& in, const per_replica<std::shared_ptr<wanted>>& all) {
      auto name = [&](std::size_t i) { return all[i]->prefix + all[i]->options.name; };
      for (std::size_t i = 1; i < all.size(); ++i)
        if (name(i) != name(0))
          throw_failure(errc::mismatch, "make_variable: name is '" + name(i) + "' on device "
                                          + in.state()->options().devices[i] + ", '" + name(0)
                                          + "' on " + in.state()->options().devices[0]);
      return make_in_cross(in.state(), all[0]->options);
    },
    std::make_shared<wanted>(wanted{std::move(options), detail::name_prefix()}));
}

} // namespace

distributed_variable make_variable(distributed_variable_options options) {
  if (current_context().step)
    throw_failure(errc::wrong_state,
                  "make_variable: must not be called inside a dataset function or step");
  auto of = get_strategy().state();
  if (of->policy().variables_on_servers)
    throw_failure(errc::wrong_state, "make_variable: the variables of " + of->text()
                                       + " are on its servers; use create_variable");
  place_here(options);
  auto* mode = innermost_mode();
  if (!mode || mode->kind != context_kind::replica || of->is_inline())
    return make_in_cross(of, std::move(options));
  return ask(
    creators_here(), 0,
    [mode](distributed_variable_options with) {
      return make_in_replica(*mode->replica, std::move(with));
    },
    std::move(options));
}

} // namespace troupe
