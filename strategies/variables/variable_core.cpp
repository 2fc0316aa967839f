#include <troupe/strategies/variables/detail/variable_core.hpp>

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include <troupe/strategies/variables/scopes.hpp>
#include <troupe/transport/collective_group.hpp>

namespace troupe {

std::string_view to_string(variable_synchronization x) {
  switch (x) {
    case variable_synchronization::automatic: return "automatic";
    case variable_synchronization::none: return "none";
    case variable_synchronization::on_write: return "on_write";
    case variable_synchronization::on_read: return "on_read";
  }
  return "variable_synchronization(?)";
}

std::string_view to_string(variable_aggregation x) {
  switch (x) {
    case variable_aggregation::none: return "none";
    case variable_aggregation::sum: return "sum";
    case variable_aggregation::mean: return "mean";
    case variable_aggregation::only_first_replica: return "only_first_replica";
  }
  return "variable_aggregation(?)";
}

namespace detail {

namespace {

bool is_integer(dtype type) { return type <= dtype::i64; }

const char* name_of(mutation_kind kind) {
  switch (kind) {
    case mutation_kind::assign: return "assign";
    case mutation_kind::assign_add: return "assign_add";
    case mutation_kind::assign_sub: return "assign_sub";
    case mutation_kind::scatter_add: return "scatter_add";
    case mutation_kind::scatter_sub: return "scatter_sub";
    case mutation_kind::scatter_mul: return "scatter_mul";
    case mutation_kind::scatter_div: return "scatter_div";
    case mutation_kind::scatter_min: return "scatter_min";
    case mutation_kind::scatter_max: return "scatter_max";
    case mutation_kind::scatter_update: return "scatter_update";
    default: return "apply";
  }
}

} // namespace

variable_core::variable_core(std::shared_ptr<sync_state> of,
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
  if (mode->kind == mode_kind::update) {
    if (copies_.size() > 1 && mode->update_index >= copies_.size()) // of update_non_slot
      throw_failure(complaint(errc::out_of_range, what,
                              "called for device " + std::to_string(mode->update_index)
                                + ", there are " + std::to_string(copies_.size()) + " copies"));
    return {.what = variable_caller::kind::update,
            .component = copies_.size() == 1 ? 0 : mode->update_index};
  }
  if (mode->kind != mode_kind::replica)
    return {};
  const auto local = mode->replica->replica_id_in_sync_group() - of_->first_id();
  return {.what = variable_caller::kind::replica,
          .component = is_shared() ? 0 : local,
          .ctx = mode->replica};
}

// --- reads

tensor variable_core::read() const {
  const auto by = caller("read");
  if (by.what != variable_caller::kind::cross
      || synchronization_ != variable_synchronization::on_read || of_->count() == 1 || is_shared())
    return copies_[by.component]->read().values;
  return combined();
}

/// What all copies of an `on_read` variable come to. Over several workers all of them ask.
tensor variable_core::combined() const {
  std::vector<tensor> own;
  for (const auto& each : copies_)
    own.push_back(each->read().values);
  const strategy s{of_};
  switch (aggregation_) {
    case variable_aggregation::sum: return s.reduce(reduce_op::sum, per_replica<tensor>{own});
    case variable_aggregation::mean: return s.reduce(reduce_op::mean, per_replica<tensor>{own});
    case variable_aggregation::only_first_replica:
      if (of_->options().workers == 1)
        return own[0];
      return s.run([](replica_context& ctx, const tensor& x) { return ctx.broadcast(x, 0); },
                   per_replica<tensor>{own})[0];
    case variable_aggregation::none: break;
  }
  throw_failure(
    complaint(errc::invalid_argument, "read",
              "an on_read variable with aggregation none has no value in cross-replica context"));
}

// --- writes

namespace {

/// A lane that was left behind changes nothing: the values are another run's by now.
class lanes_in_place final : public piece_gate {
public:
  lanes_in_place(const sync_state& of, std::uint32_t local) : of_{of}, local_{local} {}
  std::optional<failure> refuse(const mutation_piece&, const origin&) const override {
    return of_.why_not_in_place(local_);
  }

private:
  const sync_state& of_;
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
  const bool in_replica = mode && mode->kind == mode_kind::replica && mode->strategy == of_;
  const lanes_in_place gate{
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
  const bool on_read =
    synchronization_ == variable_synchronization::on_read && !is_shared() && of_->count() > 1;
  if (!on_read || aggregation_ != variable_aggregation::sum)
    return change_all(kind, value);
  if (kind != mutation_kind::assign)
    throw_failure(
      complaint(errc::invalid_argument, name_of(kind),
                "an on_read variable with aggregation sum supports this only inside replicas"));
  if (value.shape() != spec_->shape || value.type() != spec_->type) {
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
  by.ctx->tell_silent([self = shared_from_this(), kind, values, indices] {
    self->settle_here(self->caller(name_of(kind)), kind, values, indices);
  });
  if (is_shared())
    by.ctx->barrier(); // whoever reads next sees it
}

/// A replica's write: reduced, broadcast, the same number on all, or its own copy's, by
/// synchronization and aggregation.
void variable_core::write_replica(const variable_caller& by, mutation_kind kind,
                                  const tensor& value, bool is_literal) const {
  const char* what = name_of(kind);
  if (of_->count() == 1 || (synchronization_ == variable_synchronization::on_read && !is_shared()))
    return change(*copies_[by.component], kind, value);
  if (!value.defined() || value.shape() != spec_->shape || value.type() != spec_->type)
    return change(*copies_[by.component], kind, value); // says what does not fit, before any wait
  switch (aggregation_) {
    case variable_aggregation::none:
      if (is_shared())
        throw_failure(complaint(
          errc::invalid_argument, what,
          "the replicas share this variable: set an aggregation to combine their values"));
      if (!is_literal && !allow_divergence_)
        throw_failure(complaint(errc::invalid_argument, what,
                                "with aggregation none the copies could diverge: set an "
                                "aggregation, or create it with allow_divergence"));
      return is_literal ? settle(by, kind, value) : change(*copies_[by.component], kind, value);
    case variable_aggregation::sum:
      if (is_literal)
        throw_failure(complaint(errc::invalid_argument, what,
                                "a number is not distributed and cannot be reduced with sum"));
      return settle(by, kind, by.ctx->all_reduce(reduce_op::sum, value));
    case variable_aggregation::mean:
    case variable_aggregation::only_first_replica: break;
  }
  if (is_literal && is_shared())
    by.ctx->barrier(); // whoever reads before it must not see it
  if (is_literal)
    return settle(by, kind, value);
  settle(by, kind,
         aggregation_ == variable_aggregation::mean ? by.ctx->all_reduce(reduce_op::mean, value)
                                                    : by.ctx->broadcast(value, 0));
}

void variable_core::write(mutation_kind kind, const tensor& value, bool is_literal) const {
  const auto by = caller(name_of(kind));
  switch (by.what) {
    case variable_caller::kind::cross: return write_cross(kind, value);
    case variable_caller::kind::update: return change(*copies_[by.component], kind, value);
    case variable_caller::kind::replica: return write_replica(by, kind, value, is_literal);
  }
}

void variable_core::assign_each(const per_replica<tensor>& value) const {
  if (caller("assign").what != variable_caller::kind::cross)
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

// --- rows

namespace {

/// The same for the same rows; different ones hardly ever meet.
std::int64_t fingerprint(mutation_kind kind, const tensor& indices, const tensor& values) {
  const std::hash<std::string_view> hash_of{};
  auto out =
    hash_of(std::string{name_of(kind)} + to_string(values.type()) + to_string(values.shape()));
  for (const auto* each : {&indices, &values})
    out =
      out * 31 + hash_of({reinterpret_cast<const char*>(each->bytes().data()), each->size_bytes()});
  return static_cast<std::int64_t>(out);
}

} // namespace

/// With aggregation none every copy takes its replica's rows: the same ones, or it was made for
/// copies that differ (where TensorFlow lets them drift apart without a word).
void variable_core::scatter_own(const variable_caller& by, mutation_kind kind,
                                const tensor& indices, const tensor& values) const {
  if (allow_divergence_)
    return change(*copies_[by.component], kind, values, indices);
  const auto prints =
    by.ctx->all_gather(tensor::vector<std::int64_t>({fingerprint(kind, indices, values)}));
  const auto all = prints.as<std::int64_t>();
  if (std::any_of(all.begin(), all.end(), [&](auto x) { return x != all[0]; }))
    throw_failure(complaint(errc::invalid_argument, name_of(kind),
                            "the replicas' rows differ, and with aggregation none the copies would "
                            "diverge: set an aggregation, or create it with allow_divergence"));
  settle(by, kind, values, indices);
}

void variable_core::scatter(mutation_kind kind, const tensor& indices, const tensor& values) const {
  const char* what = name_of(kind);
  if (synchronization_ == variable_synchronization::on_read)
    throw_failure(complaint(errc::invalid_argument, what, "not supported for on_read variables"));
  const auto by = caller(what);
  if (of_->options().kind == strategy_kind::tpu && aggregation_ != variable_aggregation::none)
    throw_failure(complaint(errc::invalid_argument, what,
                            "aggregation is " + std::string{to_string(aggregation_)}
                              + "; variables of " + of_->text()
                              + " support row updates with aggregation none only"));
  if (by.what == variable_caller::kind::cross) {
    for (const auto& each : copies_)
      change(*each, kind, values, indices);
    return;
  }
  if (by.what == variable_caller::kind::update || of_->count() == 1)
    return change(*copies_[by.component], kind, values, indices);
  if (aggregation_ == variable_aggregation::none && !is_shared())
    return scatter_own(by, kind, indices, values);
  const bool arithmetic = kind <= mutation_kind::scatter_div;
  switch (aggregation_) {
    case variable_aggregation::none:
      throw_failure(complaint(errc::invalid_argument, what,
                              "the replicas share this variable: set an aggregation"));
    case variable_aggregation::sum:
    case variable_aggregation::mean: {
      if (!arithmetic)
        throw_failure(
          complaint(errc::invalid_argument, what,
                    "not supported with aggregation " + std::string{to_string(aggregation_)}));
      const bool mean = aggregation_ == variable_aggregation::mean;
      const auto all = by.ctx->all_reduce(mean ? reduce_op::mean : reduce_op::sum,
                                          sparse_gradient{.indices = indices, .values = values});
      return settle(by, kind, all.values, all.indices);
    }
    case variable_aggregation::only_first_replica: {
      const auto counts = by.ctx->all_gather(tensor::vector<std::int64_t>({indices.size()}));
      const auto first = counts.as<std::int64_t>()[0];
      const auto rows = by.ctx->all_gather(indices).rows(0, first);
      const auto with = by.ctx->all_gather(values).rows(0, first);
      return settle(by, kind, with, rows);
    }
  }
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
  if (by.what == variable_caller::kind::cross) {
    for (const auto& each : copies_)
      change(*each, mutation_kind::apply, gradient);
    return;
  }
  if (by.what == variable_caller::kind::update || of_->count() == 1)
    return change(*copies_[by.component], mutation_kind::apply, gradient);
  settle_here(by, mutation_kind::apply, gradient, {});
}

// --- checkpoints

tensor variable_core::saved_value() const {
  if (synchronization_ != variable_synchronization::on_read || is_shared() || of_->count() == 1)
    return copies_[0]->read().values;
  return combined();
}

void variable_core::restore_value(const tensor& value) const {
  if (caller("restore_value").what != variable_caller::kind::cross)
    throw_failure(
      complaint(errc::wrong_state, "restore_value", "must be called in cross-replica context"));
  write_cross(mutation_kind::assign, value);
}

} // namespace detail
} // namespace troupe
