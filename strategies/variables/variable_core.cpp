#include <troupe/strategies/variables/detail/variable_core.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include <troupe/strategies/replicas/detail/context_stack.hpp>
#include <troupe/strategies/replicas/detail/tensor_reduce.hpp>
#include <troupe/strategies/variables/scopes.hpp>
#include <troupe/transport/collective_group.hpp>

namespace troupe::detail {

variable_core::variable_core(std::shared_ptr<replica_engine> of,
                             std::shared_ptr<const variable_spec> spec,
                             const distributed_variable_options& options)
  : of_{std::move(of)},
    spec_{std::move(spec)},
    synchronization_{options.synchronization == variable_synchronization::automatic
                       ? variable_synchronization::on_write
                       : options.synchronization},
    aggregation_{options.aggregation},
    trainable_{options.trainable.value_or(synchronization_ != variable_synchronization::on_read)},
    allow_divergence_{options.allow_divergence},
    logical_device_{options.logical_device.value_or(0)},
    constraint_{options.constraint} {
  const bool one = of_->is_standard() || !of_->options().parameter_device.empty();
  for (std::uint32_t i = 0; i < (one ? 1 : of_->local_count()); ++i) {
    copies_.push_back(shard::create(spec_, shard_index{0}).value_or_throw());
    if (of_->is_standard())
      devices_.push_back(short_name(resolve_device("")));
    else
      devices_.push_back(one ? of_->options().parameter_device
                             : of_->logical_device(i, logical_device_));
  }
}

failure variable_core::complaint(errc code, const char* what, const std::string& text) const {
  return make_failure(code, "variable '" + spec_->name + "': " + what + ": " + text);
}

void variable_core::refuse(const char* what, variable_action how) const {
  throw_failure(complaint(errc::invalid_argument, what, refusal_of(how, aggregation_)));
}

variable_rules variable_core::rules() const {
  return {.synchronization = synchronization_,
          .aggregation = aggregation_,
          .placement = of_->count() == 1 ? variable_placement::single
                       : is_shared()     ? variable_placement::shared
                                         : variable_placement::copies,
          .allow_divergence = allow_divergence_};
}

bool variable_core::fits(const tensor& value) const {
  return value.defined() && value.shape() == spec_->shape && value.type() == spec_->type;
}

shard& variable_core::component(std::size_t i) const {
  if (i >= copies_.size())
    throw_failure(complaint(errc::out_of_range, "component",
                            std::to_string(i) + " of " + std::to_string(copies_.size())));
  return *copies_[i];
}

/// The caller by the active context. Outside any, a variable may be used by its own strategy's
/// rules; while another strategy is active, `wrong_state`.
variable_caller variable_core::caller(const char* what) const {
  auto* mode = innermost_mode();
  if (!mode || of_->is_standard()) // made outside any scope: one copy, whoever asks
    return {};
  if (mode->strategy != of_)
    throw_failure(complaint(errc::wrong_state, what,
                            "two strategies are mixed: the variable is of " + of_->text() + ", "
                              + mode->strategy->text() + " is active"));
  if (mode->kind == context_kind::update) {
    if (copies_.size() > 1 && mode->update_index >= copies_.size()) // of update_non_slot
      throw_failure(complaint(errc::out_of_range, what,
                              "called for device " + std::to_string(mode->update_index)
                                + ", there are " + std::to_string(copies_.size()) + " copies"));
    return {.what = variable_context::update,
            .component = copies_.size() == 1 ? 0 : mode->update_index};
  }
  if (mode->kind != context_kind::replica)
    return {};
  const auto local = mode->replica->replica_id_in_sync_group() - of_->first_id();
  return {
    .what = variable_context::replica, .component = is_shared() ? 0 : local, .ctx = mode->replica};
}

// --- reads

tensor variable_core::read() const {
  const auto by = caller("read");
  const auto how = rules().read(by.what);
  return how == variable_action::own_copy ? copies_[by.component]->read().values : combined(how);
}

/// What all copies of an `on_read` variable come to. Over several workers all of them ask.
tensor variable_core::combined(variable_action how) const {
  std::vector<tensor> own;
  for (const auto& each : copies_)
    own.push_back(each->read().values);
  const strategy s{of_};
  switch (how) {
    case variable_action::sum: return s.reduce(reduce_op::sum, per_replica<tensor>{own});
    case variable_action::mean: return s.reduce(reduce_op::mean, per_replica<tensor>{own});
    case variable_action::first:
      if (of_->options().workers == 1)
        return own[0];
      return s.run([](replica_context& ctx, const tensor& x) { return ctx.broadcast(x, 0); },
                   per_replica<tensor>{own})[0];
    default: refuse("read", how);
  }
}

// --- writes

namespace {

/// A thread that was left behind changes nothing: the values are another run's by now.
class threads_in_place final : public piece_gate {
public:
  threads_in_place(const replica_engine& of, std::uint32_t local) : of_{of}, local_{local} {}
  std::optional<failure> refuse(const mutation_piece&, const origin&) const override {
    return of_.why_not_in_place(local_);
  }

private:
  const replica_engine& of_;
  const std::uint32_t local_;
};

} // namespace

void variable_core::change(shard& at, mutation_kind kind, const tensor& values,
                           const tensor& indices) const {
  const mutation_piece piece{.variable = spec_->id,
                             .kind = kind,
                             .at_least_once = true,
                             .values = values,
                             .indices = indices};
  const auto* mode = innermost_mode();
  const bool in_replica = mode && mode->kind == context_kind::replica && mode->strategy == of_;
  const threads_in_place gate{
    *of_, in_replica ? mode->replica->replica_id_in_sync_group() - of_->first_id() : 0};
  auto done = at.mutate(piece, {}, in_replica ? &gate : nullptr);
  if (!done)
    throw_failure(std::move(done.error()));
}

void variable_core::change_all(mutation_kind kind, const tensor& value) const {
  for (const auto& each : copies_)
    change(*each, kind, value);
}

/// What each local copy holds of a total that their sum shall be; of integers component 0 gets the
/// rest, so that the sum is exact.
std::vector<tensor> variable_core::shares_of(const tensor& total) const {
  const auto n = static_cast<std::int64_t>(of_->count());
  std::vector<tensor> out;
  if (!is_integer(total.type())) {
    out.assign(copies_.size(), divide(total, n));
    return out;
  }
  for (std::size_t i = 0; i < copies_.size(); ++i) {
    const bool first = of_->first_id() + i == 0;
    auto part = total.clone();
    auto share = [&](auto elements) {
      for (auto& x : elements)
        x = static_cast<std::decay_t<decltype(x)>>(first ? x - x / n * (n - 1) : x / n);
    };
    if (total.type() == dtype::i32)
      share(part.mutable_as<std::int32_t>());
    else if (total.type() == dtype::i64)
      share(part.mutable_as<std::int64_t>());
    else
      throw_failure(
        complaint(errc::dtype_mismatch, "assign",
                  "sum over replicas is not supported for type " + to_string(total.type())));
    out.push_back(std::move(part));
  }
  return out;
}

void variable_core::write_cross(mutation_kind kind, const tensor& value) const {
  const auto how = rules().write(variable_context::cross, kind, false);
  if (how == variable_action::every_copy)
    return change_all(kind, value);
  if (how != variable_action::divide)
    refuse(name_of(kind), how);
  if (!fits(value)) {
    change(*copies_[0], kind, value); // says what does not fit
    return;
  }
  const auto shares = shares_of(value);
  for (std::size_t i = 0; i < copies_.size(); ++i)
    change(*copies_[i], kind, shares[i]);
}

void variable_core::settle_here(const variable_caller& by, mutation_kind kind, const tensor& values,
                                const tensor& indices) const {
  if (!is_shared() || by.ctx->replica_id_in_sync_group() == of_->first_id())
    change(*copies_[by.component], kind, values, indices);
}

void variable_core::settle(const variable_caller& by, mutation_kind kind, const tensor& values,
                           const tensor& indices) const {
  settle_here(by, kind, values, indices);
  by.ctx->tell_empty_replicas([self = shared_from_this(), kind, values, indices] {
    self->settle_here(self->caller(name_of(kind)), kind, values, indices);
  });
  if (is_shared())
    by.ctx->barrier(); // whoever reads next sees it
}

/// A replica's write: reduced, broadcast, the same number on all, or its own copy's.
void variable_core::write_replica(const variable_caller& by, mutation_kind kind,
                                  const tensor& value, bool is_number) const {
  const auto how = rules().write(variable_context::replica, kind, is_number);
  if (how == variable_action::own_copy || !fits(value)) // says what does not fit, before any wait
    return change(*copies_[by.component], kind, value);
  switch (how) {
    case variable_action::same_on_all:
      if (is_shared())
        by.ctx->barrier(); // whoever reads before it must not see it
      return settle(by, kind, value);
    case variable_action::sum: return settle(by, kind, by.ctx->all_reduce(reduce_op::sum, value));
    case variable_action::mean: return settle(by, kind, by.ctx->all_reduce(reduce_op::mean, value));
    case variable_action::first: return settle(by, kind, by.ctx->broadcast(value, 0));
    default: refuse(name_of(kind), how);
  }
}

void variable_core::write(mutation_kind kind, const tensor& value, bool is_number) const {
  const auto by = caller(name_of(kind));
  switch (by.what) {
    case variable_context::cross: return write_cross(kind, value);
    case variable_context::update: return change(*copies_[by.component], kind, value);
    case variable_context::replica: return write_replica(by, kind, value, is_number);
  }
}

void variable_core::assign_each(const per_replica<tensor>& value) const {
  if (caller("assign").what != variable_context::cross)
    throw_failure(complaint(errc::invalid_argument, "assign",
                            "a distributed value can be assigned in cross-replica context only"));
  if (value.size() != copies_.size())
    throw_failure(complaint(errc::invalid_argument, "assign",
                            "the value has " + std::to_string(value.size())
                              + " components, the variable " + std::to_string(copies_.size())));
  for (std::size_t i = 0; i < copies_.size(); ++i)
    if (!value[i].defined())
      throw_failure(no_value("assign", "component " + std::to_string(i)));
    else if (value[i].shape() != spec_->shape)
      throw_failure(complaint(errc::shape_mismatch, "assign",
                              "component " + std::to_string(i) + " has shape "
                                + to_string(value[i].shape()) + ", expected "
                                + to_string(spec_->shape)));
    else if (value[i].type() != spec_->type)
      throw_failure(complaint(errc::dtype_mismatch, "assign",
                              "component " + std::to_string(i) + " is " + to_string(value[i].type())
                                + ", expected " + to_string(spec_->type)));
  for (std::size_t i = 0; i < copies_.size(); ++i)
    change(*copies_[i], mutation_kind::assign, value[i]);
}

failure variable_core::no_value(const char* what, const std::string& of) const {
  return complaint(
    errc::invalid_argument, what,
    of + " has no value, expected " + to_string(spec_->type) + to_string(spec_->shape));
}

void variable_core::check_gradient(const tensor& gradient) const {
  (void)caller("apply");
  if (spec_->optimizer.kind == optimizer_kind::none)
    throw_failure(
      complaint(errc::wrong_state, "apply", "the variable has no optimizer; use assign"));
  if (!gradient.defined())
    throw_failure(no_value("apply", "the gradient"));
  if (gradient.shape() != spec_->shape)
    throw_failure(complaint(errc::shape_mismatch, "apply",
                            "the gradient's shape is " + to_string(gradient.shape()) + ", expected "
                              + to_string(spec_->shape)));
  if (gradient.type() != spec_->type)
    throw_failure(complaint(
      errc::dtype_mismatch, "apply",
      "the gradient is " + to_string(gradient.type()) + ", expected " + to_string(spec_->type)));
}

void variable_core::apply(const tensor& gradient) const {
  const auto by = caller("apply");
  if (by.what == variable_context::cross) {
    for (const auto& each : copies_)
      change(*each, mutation_kind::apply, gradient);
    return;
  }
  if (by.what == variable_context::update || of_->count() == 1)
    return change(*copies_[by.component], mutation_kind::apply, gradient);
  settle_here(by, mutation_kind::apply, gradient, {});
}

// --- checkpoints

tensor variable_core::saved_value() const {
  const auto how = rules().read(variable_context::cross);
  return how == variable_action::own_copy ? copies_[0]->read().values : combined(how);
}

void variable_core::restore_value(const tensor& value) const {
  if (caller("restore_value").what != variable_context::cross)
    throw_failure(
      complaint(errc::wrong_state, "restore_value", "must be called in cross-replica context"));
  write_cross(mutation_kind::assign, value);
}

} // namespace troupe::detail
