#include <troupe/strategies/replicas/strategy.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

#include <troupe/device/context.hpp>
#include <troupe/strategies/replicas/detail/mode_stack.hpp>
#include <troupe/strategies/replicas/detail/sync_state.hpp>

namespace troupe {

using detail::innermost_frame;
using detail::innermost_mode;
using detail::mode_frame;
using detail::mode_kind;
using detail::sync_state;

// --- scopes

strategy_scope::strategy_scope(const strategy& of)
  : frame_{
    std::make_unique<mode_frame>(mode_frame{.kind = mode_kind::scope, .strategy = of.state()})} {
  auto* mode = innermost_mode();
  if (mode && mode->strategy != of.state()) {
    if (of.state()->is_standard())
      throw_failure(errc::wrong_state,
                    "scope: the default strategy's scope cannot be nested in that of "
                      + mode->strategy->text());
    throw_failure(errc::wrong_state, "scope: two strategies are mixed: " + mode->strategy->text()
                                       + " is active, the scope is of " + of.to_string());
  }
  if (mode && mode->kind == mode_kind::replica && !of.state()->is_standard())
    throw_failure(errc::wrong_state, "scope: called inside a replica of " + of.to_string());
  push_frame(*frame_);
}

strategy_scope::~strategy_scope() {
  if (!frame_)
    return;
  detail::drop_frame(*frame_);
}

void strategy_scope::exit() {
  if (!frame_)
    return;
  auto* inner = innermost_frame();
  if (inner != frame_.get()) {
    const char* what = "another scope";
    switch (inner ? inner->kind : mode_kind::scope) {
      case mode_kind::device: what = "a device scope"; break;
      case mode_kind::creator: what = "a variable creator's scope"; break;
      case mode_kind::names: what = "a variable name scope"; break;
      default: break;
    }
    throw_failure(errc::wrong_state,
                  "scope of " + frame_->strategy->text() + " exits while " + what
                    + (inner && !inner->text.empty() ? " (" + inner->text + ")" : std::string{})
                    + " inside it is still active");
  }
  pop_frame(*frame_);
  frame_ = nullptr;
}

namespace detail {

cross_replica_here::cross_replica_here(const std::shared_ptr<sync_state>& of, std::string names)
  : frame_{std::make_unique<mode_frame>(
    mode_frame{.kind = mode_kind::cross_replica, .strategy = of, .text = std::move(names)})} {
  push_frame(*frame_);
}

cross_replica_here::~cross_replica_here() { (void)exchange_lane_local(frame_->outer); }

void run_replicas(const std::shared_ptr<sync_state>& state,
                  std::function<void(replica_context&, std::uint32_t)> body) {
  state->run(body);
}

bool is_standard(const sync_state& state) { return state.is_standard(); }

value_context value_context_of(const sync_state& state, std::uint32_t local) {
  return {.replica_id_in_sync_group = state.first_id() + local,
          .num_replicas_in_sync = state.count()};
}

void require_cross_replica(const sync_state& state, const char* what) {
  state.require_cross_replica(what);
}

} // namespace detail

// --- strategy

strategy::strategy() : state_{detail::standard_state()} {}

std::uint32_t strategy::num_replicas_in_sync() const { return state_->count(); }
std::shared_ptr<const cluster_resolver> strategy::cluster_resolver() const {
  return state_->options().resolver;
}
std::uint32_t strategy::num_local_replicas() const { return state_->local_count(); }
std::string strategy::to_string() const { return state_->text(); }
std::string strategy::status() const { return state_->status(); }

namespace {

bool is_zero(const tensor& x) {
  const auto bytes = x.bytes();
  return std::all_of(bytes.begin(), bytes.end(),
                     [](std::byte each) { return each == std::byte{}; });
}

[[noreturn]] void refuse_shape(const sync_state& state, const char* what, std::size_t i,
                               const shape_t& shape, const shape_t& first) {
  throw_failure(errc::shape_mismatch, std::string{what} + ": component " + std::to_string(i)
                                        + " has shape " + to_string(shape) + ", component 0 "
                                        + to_string(first) + "; " + state.text()
                                        + " requires equal shapes");
}

bool is_integer(dtype type) { return type <= dtype::i64; }

void check_count(const sync_state& state, const char* what, std::size_t components) {
  if (components != state.local_count())
    throw_failure(errc::invalid_argument,
                  std::string{what} + ": the value has " + std::to_string(components)
                    + " components, " + state.text() + " has " + std::to_string(state.local_count())
                    + " replicas here");
}

/// What an absent component holds is nothing.
per_replica<tensor> present(const per_replica<tensor>& value) {
  if (value.absent().empty())
    return value;
  std::vector<tensor> out;
  for (std::size_t i = 0; i < value.size(); ++i)
    out.push_back(value.is_absent(i) ? tensor{} : value[i]);
  return per_replica<tensor>{std::move(out), value.is_mirrored()};
}

/// The components that have a value.
std::vector<tensor> with_value(const char* what, const per_replica<tensor>& value) {
  std::vector<tensor> out;
  for (const auto& each : value)
    if (each.defined())
      out.push_back(each);
  if (out.empty())
    throw_failure(errc::invalid_argument, std::string{what} + ": no component has a value");
  return out;
}

/// As one row.
tensor row_of(const tensor& x) {
  auto shape = x.shape();
  shape.insert(shape.begin(), 1);
  return x.reshaped(std::move(shape));
}

/// No row of such.
tensor no_row_like(const tensor& x) {
  auto shape = x.shape();
  shape.insert(shape.begin(), 0);
  return tensor{x.type(), std::move(shape)};
}

/// A user's reduction has nothing that stands for no value: rows of those that have one are brought
/// together, and reduced in order.
tensor reduce_rows(const reduction& op, const tensor& rows) {
  const auto shape = shape_t(rows.shape().begin() + 1, rows.shape().end());
  std::vector<tensor> parts;
  for (std::int64_t i = 0; i < rows.rows(); ++i)
    parts.push_back(rows.rows(i, i + 1).reshaped(shape));
  if (parts.empty())
    throw_failure(errc::invalid_argument, "reduce " + op.user.name + ": no replica has a value");
  return detail::reduce_tensors("reduce", op, parts);
}

/// One replica's part in a reduction over several workers. `x`: undefined where the replica had no
/// data; `like`: has the type and shape that it would have.
tensor reduce_over_replicas(replica_context& ctx, const reduction& op, const tensor& x,
                            const tensor& like,
                            const std::optional<std::vector<std::int64_t>>& axis) {
  const bool mean = op.op == reduce_op::mean, there = x.defined();
  if (op.op == reduce_op::user && !axis) {
    const auto count = ctx.all_reduce(reduce_op::sum, std::int64_t{there ? 1 : 0});
    return count == ctx.num_replicas_in_sync()
             ? ctx.all_reduce(op, x)
             : reduce_rows(op, ctx.all_gather(there ? row_of(x) : no_row_like(like)));
  }
  auto mine = there ? x : detail::neutral(like.type(), like.shape(), op.op);
  if (!axis && !mean)
    return ctx.all_reduce(op, mine);
  std::int64_t elements = 1;
  auto part =
    axis ? detail::reduce_axes("reduce", op, mine, *axis, elements) : detail::mean_summand(mine);
  if (!mean)
    return ctx.all_reduce(op, part);
  const auto total = ctx.all_reduce(reduce_op::sum, there ? elements : 0);
  return detail::mean_of(ctx.all_reduce(reduce_op::sum, part), mine.type(), total);
}

} // namespace

/// A component without a value is that of a replica that had no data: it counts for nothing.
tensor strategy::reduce(const reduction& op, const per_replica<tensor>& components,
                        std::optional<std::vector<std::int64_t>> axis) const {
  state_->require_cross_replica("reduce");
  check_count(*state_, "reduce", components.size());
  const auto value = present(components);
  const bool one = state_->count() == 1;
  if (value.is_mirrored() && !axis && !one) {
    if (op.op == reduce_op::mean)
      return value[0];
    if (op.op == reduce_op::sum)
      throw_failure(errc::invalid_argument,
                    "reduce: a mirrored value cannot be reduced with sum: its components are equal "
                    "already");
  }
  const bool mean = op.op == reduce_op::mean;
  if (state_->options().workers > 1) {
    const auto like = with_value("reduce", components)[0];
    auto all = run( // nothing by reference: a lane that is left behind may outlive this call
      [op, axis, like](replica_context& ctx, const tensor& x) {
        return reduce_over_replicas(ctx, op, x, like, axis);
      },
      value);
    return all[0];
  }
  const auto there = with_value("reduce", value);
  if (!axis)
    return detail::reduce_tensors("reduce", op, there);
  detail::require_one_type("reduce", there);
  std::vector<tensor> parts;
  std::int64_t total = 0;
  for (const auto& each : there) {
    std::int64_t elements = 0;
    parts.push_back(detail::reduce_axes("reduce", op, each, *axis, elements));
    total += elements;
  }
  if (!mean)
    return detail::reduce_tensors("reduce", op, parts);
  return detail::mean_of(detail::reduce_tensors("reduce", reduce_op::sum, parts), there[0].type(),
                         total);
}

tensor strategy::reduce(const reduction& op, const per_replica<tensor>& value,
                        std::int64_t axis) const {
  return reduce(op, value, std::vector<std::int64_t>{axis});
}

tensor strategy::reduce(const reduction& op, const tensor& value,
                        std::optional<std::vector<std::int64_t>> axis) const {
  state_->require_cross_replica("reduce");
  if (state_->options().links)
    return detail::reduce_over_workers(*state_, op, value, std::move(axis));
  auto own = value;
  if (axis) {
    std::int64_t elements = 0;
    own = detail::reduce_axes("reduce", op, value, *axis, elements);
    if (op.op == reduce_op::mean)
      own = detail::mean_of(own, value.type(), elements);
  }
  if (state_->count() == 1 || op.op == reduce_op::mean)
    return own;
  if (state_->options().workers == 1 && is_zero(own))
    return own; // zeros stay zeros, whatever the number of replicas
  if (op.op == reduce_op::min || op.op == reduce_op::max)
    return own; // of equal values
  throw_failure(errc::invalid_argument, "reduce: a non-distributed value cannot be reduced with "
                                          + std::string{troupe::to_string(op.op)} + " over "
                                          + std::to_string(state_->count()) + " replicas");
}

tensor strategy::gather(const per_replica<tensor>& value, std::int64_t axis) const {
  state_->require_cross_replica("gather");
  check_count(*state_, "gather", value.size());
  if (state_->options().kind == detail::strategy_kind::tpu)
    for (std::size_t i = 1; i < value.size(); ++i)
      if (value[i].shape() != value[0].shape()) // TPUs gather equal shapes only
        refuse_shape(*state_, "gather", i, value[i].shape(), value[0].shape());
  if (state_->options().workers > 1) {
    auto like = with_value("gather", value)[0];
    return run(
      [axis, like](replica_context& ctx, const tensor& x) {
        if (x.defined())
          return ctx.all_gather(x, axis);
        auto shape = like.shape(); // of a replica that had no data
        if (axis >= 0 && axis < static_cast<std::int64_t>(shape.size()))
          shape[static_cast<std::size_t>(axis)] = 0;
        return ctx.all_gather(tensor{like.type(), shape}, axis);
      },
      value)[0];
  }
  return detail::concatenate_along("gather", with_value("gather", value), axis);
}

tensor strategy::gather(const tensor& value, std::int64_t) const {
  state_->require_cross_replica("gather");
  return value;
}

// --- what is ambient

namespace {

std::shared_ptr<sync_state> chosen() { return lane_kept<sync_state>(); }

/// Of the default strategy, for who asks outside any run.
replica_context& standard_replica() {
  static auto& one = *new replica_context{detail::standard_state(), 0};
  return one;
}

} // namespace

strategy get_strategy() {
  if (auto* mode = innermost_mode())
    return strategy{mode->strategy};
  auto own = chosen();
  return own ? strategy{own} : strategy{};
}

bool has_strategy() { return !get_strategy().state()->is_standard(); }

bool in_cross_replica_context() {
  auto* mode = innermost_mode();
  if (!mode)
    return chosen() != nullptr;
  // The default strategy's scope changes nothing.
  return mode->kind != mode_kind::replica
         && !(mode->kind == mode_kind::scope && mode->strategy->is_standard());
}

replica_context* get_replica_context() {
  if (in_cross_replica_context())
    return nullptr;
  auto* mode = innermost_mode();
  return mode && mode->replica ? mode->replica : &standard_replica();
}

std::optional<strategy> get_cross_replica_context() {
  if (!in_cross_replica_context())
    return std::nullopt;
  return get_strategy();
}

void experimental_set_strategy(std::optional<strategy> to) {
  if (innermost_mode())
    throw_failure(errc::wrong_state,
                  "experimental_set_strategy: must not be called inside a strategy's scope");
  keep_on_lane<sync_state>(to && !to->state()->is_standard() ? to->state() : nullptr);
}

// --- replica_context

replica_context::replica_context(std::shared_ptr<sync_state> state, std::uint32_t local)
  : state_{std::move(state)}, local_{local} {}

std::uint32_t replica_context::replica_id_in_sync_group() const {
  return state_->first_id() + local_;
}
std::uint32_t replica_context::num_replicas_in_sync() const { return state_->count(); }
troupe::strategy replica_context::strategy() const { return troupe::strategy{state_}; }
std::vector<std::string> replica_context::devices() const {
  return {state_->options().devices[local_]};
}

device_context& replica_context::device() {
  if (!device_)
    device_ = state_->device_of(local_);
  return *device_;
}

/// Throws `wrong_state` outside the function of this replica, naming the context that is active.
void replica_context::check_current(const char* what) const {
  auto* mode = innermost_mode();
  if (mode ? mode->kind == mode_kind::replica && mode->replica == this
           : this == &standard_replica() || state_->is_standard())
    return;
  std::string text = std::string{what} + ": ";
  if (!mode || mode->kind != mode_kind::replica)
    text += "must be called inside a function that a strategy runs on its replicas";
  else if (mode->strategy != state_)
    text += "the replica context belongs to another strategy, " + state_->text() + ", "
            + mode->strategy->text() + " is active";
  else
    text += "the replica context belongs to another replica";
  throw_failure(errc::wrong_state, text);
}

namespace {

replica_call described(const char* kind, const reduction& op, const tensor& x) {
  auto how = std::string{to_string(op.op)};
  if (op.op == reduce_op::user)
    how = op.user.name;
  return {.kind = kind, .how = std::move(how), .type = x.type(), .shapes = {x.shape()}};
}

/// Makes copies of tensors of one type. Those that fit into one bucket are parts of one block,
/// which is the result: the reduction then packs and unpacks nothing.
tensor copied(std::span<tensor> xs, std::size_t bucket_bytes) {
  std::int64_t elements = 0;
  for (const auto& x : xs)
    elements += x.size();
  const auto type = xs[0].type();
  if (xs.size() == 1 || static_cast<std::size_t>(elements) * size_of(type) > bucket_bytes) {
    for (auto& x : xs)
      x = x.clone();
    return {};
  }
  tensor bucket{type, {elements}};
  const auto owner = std::make_shared<tensor>(bucket);
  auto* at = bucket.mutable_bytes().data();
  for (auto& x : xs) {
    if (x.size_bytes() > 0)
      std::memcpy(at, x.bytes().data(), x.size_bytes());
    x = tensor{type, x.shape(), owner, at};
    at += x.size_bytes();
  }
  return bucket;
}

} // namespace

tensor replica_context::all_reduce(const reduction& op, const tensor& x,
                                   const collective_options& options) {
  check_current("all_reduce");
  return reduce_here(op, {x}, options, false)[0];
}

std::vector<tensor> replica_context::all_reduce(const reduction& op, const std::vector<tensor>& xs,
                                                const collective_options& options) {
  check_current("all_reduce");
  return reduce_here(op, xs, options, false);
}

std::vector<tensor> replica_context::reduce_here(const reduction& op, const std::vector<tensor>& xs,
                                                 const collective_options& options,
                                                 bool of_devices) {
  if (xs.empty())
    return {};
  for (std::size_t i = 0; i < xs.size(); ++i)
    if (!xs[i].defined())
      throw_failure(errc::invalid_argument,
                    "all_reduce: tensor " + std::to_string(i) + " of this replica has no value");
  std::vector<tensor> out;
  if (state_->count() == 1) {
    for (const auto& x : xs)
      out.push_back(detail::reduce_tensors("all_reduce", op, {&x, 1}));
    return out;
  }
  if (op.op == reduce_op::user && divisor() != state_->count()) {
    for (const auto& x : xs)
      out.push_back(reduce_rows(op, gather_here(row_of(x), 0, options, of_devices, true)));
    return out;
  }
  // One call for each run of tensors of a type: a mean of integers is another operation.
  for (std::size_t at = 0; at < xs.size();) {
    std::size_t end = at + 1;
    while (end < xs.size() && xs[end].type() == xs[at].type())
      ++end;
    for (auto& each : reduce_alike(op, std::span{xs}.subspan(at, end - at), options, of_devices))
      out.push_back(std::move(each));
    at = end;
  }
  return out;
}

/// Tensors of one type.
std::vector<tensor> replica_context::reduce_alike(const reduction& op, std::span<const tensor> xs,
                                                  const collective_options& options,
                                                  bool of_devices) {
  const auto type = xs[0].type();
  // The group divides by all its members, and integers in their own type.
  const bool apart = op.op == reduce_op::mean && (is_integer(type) || divisor() != state_->count());
  const auto how = apart ? reduction{reduce_op::sum} : op;
  auto with = state_->own_deadline(options);
  auto call = described("all_reduce", op, xs[0]);
  call.on_devices = of_devices;
  std::vector<tensor> own;
  for (const auto& x : xs)
    own.push_back(apart ? detail::mean_summand(x) : x);
  for (const auto& x : xs.subspan(1))
    call.shapes.push_back(x.shape());
  with.what = state_->words_for(call, options.what);
  call.options = options;
  auto bucket = copied(own, with.bucket_bytes);
  state_->collective(local_, std::move(call), [&](collective_group& group) {
    return bucket.defined() ? group.all_reduce(bucket, how, with)
                            : group.all_reduce(std::span{own}, how, with);
  });
  for (auto& each : own)
    if (apart)
      each = detail::mean_of(each, type, divisor());
  return own;
}

tensor replica_context::all_gather(const tensor& x, std::int64_t axis,
                                   const collective_options& options) {
  check_current("all_gather");
  return gather_here(x, axis, options, false, gathers_any_extent());
}

bool replica_context::gathers_any_extent() const {
  return state_->options().kind != detail::strategy_kind::tpu; // TPUs gather equal shapes only
}

tensor replica_context::gather_here(const tensor& x, std::int64_t axis,
                                    const collective_options& options, bool of_devices,
                                    bool any_extent) {
  if (!x.defined())
    throw_failure(errc::invalid_argument, "all_gather: the tensor of this replica has no value");
  if (state_->count() == 1)
    return detail::concatenate_along("all_gather", {&x, 1}, axis);
  const auto rank = static_cast<std::int64_t>(x.rank());
  if (rank == 0)
    throw_failure(errc::invalid_argument,
                  "all_gather: a scalar has no axis to gather along; add a dimension first");
  if (axis < 0 || axis >= rank)
    throw_failure(errc::out_of_range, "all_gather: axis is " + std::to_string(axis)
                                        + ", expected 0 to " + std::to_string(rank - 1));
  replica_call call{
    .kind = "all_gather", .how = "axis " + std::to_string(axis), .on_devices = of_devices};
  auto with = state_->own_deadline(options);
  with.what = state_->words_for(call, options.what);
  const auto named = to_string(call).size();
  call.type = x.type();
  call.shapes = {x.shape()};
  if (any_extent)
    call.shapes[0][static_cast<std::size_t>(axis)] = -1;
  with.detail = to_string(call).substr(named); // workers compare it by what they tell each other
  call.options = options;
  std::vector<tensor> parts;
  state_->collective(local_, std::move(call), [&](collective_group& group) {
    return detail::gather_parts(group, x, static_cast<std::size_t>(axis), any_extent, with, parts);
  });
  return detail::concatenate_along("all_gather", parts, axis);
}

sparse_gradient replica_context::all_reduce(const reduction& op, const sparse_gradient& x) {
  if (op.op != reduce_op::sum && op.op != reduce_op::mean)
    throw_failure(errc::invalid_argument, "all_reduce: sparse values support sum and mean, not "
                                            + std::string{to_string(op.op)});
  sparse_gradient out{.indices = all_gather(x.indices, 0), .values = all_gather(x.values, 0)};
  if (op.op == reduce_op::mean)
    out.values = detail::divide(out.values, divisor());
  return out;
}

tensor replica_context::broadcast(const tensor& x, std::uint32_t root,
                                  const collective_options& options) {
  check_current("broadcast");
  return broadcast_here(x, root, options, false);
}

tensor replica_context::broadcast_here(const tensor& x, std::uint32_t root,
                                       const collective_options& options, bool of_devices) {
  if (root >= state_->count())
    throw_failure(errc::out_of_range, "broadcast: root is " + std::to_string(root) + " of "
                                        + std::to_string(state_->count()) + " replicas");
  if (!x.defined())
    throw_failure(errc::invalid_argument, "broadcast: the tensor of this replica has no value");
  auto out = x.clone();
  if (state_->count() == 1)
    return out;
  auto with = state_->own_deadline(options);
  replica_call call{.kind = "broadcast",
                    .how = "from " + std::to_string(root),
                    .type = x.type(),
                    .shapes = {x.shape()},
                    .on_devices = of_devices};
  with.what = state_->words_for(call, options.what);
  call.options = options;
  state_->collective(local_, std::move(call),
                     [&](collective_group& group) { return group.broadcast(out, root, with); });
  return out;
}

void replica_context::set_placed(std::vector<std::shared_ptr<const detail::placed_input>> inputs) {
  placed_ = std::move(inputs);
}

void replica_context::barrier() {
  check_current("barrier");
  if (state_->count() == 1)
    return;
  state_->collective(local_, {.kind = "barrier"}, [&](collective_group& group) {
    return group.barrier({.deadline = state_->options().collective_timeout});
  });
}

std::shared_ptr<void> replica_context::merge(std::string what, std::shared_ptr<void> arguments,
                                             detail::merge_body body) {
  check_current("merge_call");
  return state_->merge(*this, local_, std::move(what), std::move(arguments), std::move(body));
}

} // namespace troupe
