#include <algorithm>
#include <bit>
#include <utility>

#include <troupe/device/bucket_reducer.hpp>
#include <troupe/device/context.hpp>
#include <troupe/strategies/replicas/detail/replica_calls.hpp>
#include <troupe/strategies/replicas/detail/replica_engine.hpp>
#include <troupe/strategies/replicas/detail/tensor_reduce.hpp>
#include <troupe/strategies/replicas/gradient_reducer.hpp>
#include <troupe/strategies/replicas/replica_context.hpp>
#include <troupe/transport/collective_group.hpp>

namespace troupe {

namespace detail {

/// One collective of a replica's device tensors: on the devices, else through the host. On the
/// replica's thread. Whatever communicator is used, its operations all run on one stream: those of
/// CPUs take one at a time, and no other stream stands behind a group that may break.
class device_operation {
public:
  device_operation(replica_engine& state, std::uint32_t local, device_context& here,
                   collective_options with)
    : state_{state},
      local_{local},
      here_{here},
      on_{here.on()},
      stream_{here.stream("collectives")},
      with_{std::move(with)},
      deadline_{after(state.env().clock.now(), with_.deadline)} {}

  /// None: what is to be brought together goes through the host.
  result<device_comm> join(collective_group& group) const {
    return state_.join_devices(local_, group, on_, stream_, left());
  }

  /// Other processes compare what they call here: no library does it for them.
  result<void> compare(collective_group& group, const std::string& what) const {
    if (!state_.options().links)
      return {};
    auto with = left();
    with.what = what;
    return group.barrier(with);
  }

  /// The sum of f32 or bf16 becomes that of all replicas, or their mean (f32).
  result<void> all_reduce(const device_comm& comm, const device_tensor& x,
                          std::uint32_t divisor) const;
  /// The same through the host.
  result<void> all_reduce(collective_group& group, std::span<const device_tensor> xs,
                          const reduction& how, kernels::encoding wire) const;
  result<void> reduce(const device_comm& comm, std::span<const device_tensor> bucket,
                      const bucket_options& options) const;
  /// Waits for all that the communicator was given.
  result<void> finish(const device_comm& comm) const;

private:
  collective_options left() const {
    return {.deadline = deadline_ - state_.env().clock.now(), .what = with_.what};
  }
  result<void> divide(const device_tensor& x, std::uint32_t by) const;

  replica_engine& state_;
  const std::uint32_t local_;
  device_context& here_;
  const std::shared_ptr<device> on_;
  const device_stream stream_;
  const collective_options with_;
  const time_point deadline_;
};

result<void> device_operation::all_reduce(const device_comm& comm, const device_tensor& x,
                                          std::uint32_t divisor) const {
  auto ready = on_->record_event(here_.stream());
  if (!ready)
    return ready.error();
  if (auto done = on_->wait_event(stream_, *ready); !done)
    return done;
  x.used_on(stream_);
  auto summed = on_->comms().all_reduce(comm, stream_, x.data(),
                                        static_cast<std::uint64_t>(x.size()), x.type());
  if (!summed)
    return summed.error();
  if (divisor > 1)
    if (auto done = divide(x, divisor); !done)
      return done;
  return finish(comm);
}

/// The bits of a division, as in host memory.
result<void> device_operation::divide(const device_tensor& x, std::uint32_t by) const {
  device_ops ops{on_, stream_};
  if (std::has_single_bit(by))
    return ops.scale(1.0 / by, x, x);
  auto denominator = device_tensor::make(on_, stream_, x.type(), x.shape());
  if (!denominator)
    return denominator.error();
  if (auto done = ops.fill(by, *denominator); !done)
    return done;
  return ops.div(x, *denominator, x);
}

result<void> device_operation::all_reduce(collective_group& group,
                                          std::span<const device_tensor> xs, const reduction& how,
                                          kernels::encoding wire) const {
  std::vector<tensor> host;
  for (const auto& x : xs) {
    auto got = x.to_host(here_.stream(), left().deadline);
    if (!got)
      return got.error();
    host.push_back(std::move(*got));
  }
  auto with = left();
  with.wire = wire;
  if (auto done = group.all_reduce(std::span{host}, how, with); !done)
    return done;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    auto back = device_tensor::from_host(on_, here_.stream(), host[i]);
    if (!back)
      return back.error();
    auto put = on_->copy(here_.stream(), xs[i].data(), back->data(), xs[i].size_bytes(),
                         copy_kind::device_to_device);
    if (!put)
      return put.error();
  }
  return {};
}

result<void> device_operation::reduce(const device_comm& comm,
                                      std::span<const device_tensor> bucket,
                                      const bucket_options& options) const {
  bucket_reducer reducer{on_, comm, stream_, options};
  return reducer.reduce(bucket, here_.stream());
}

/// A group that a member is missing from ends when its time is over, and so does what waits for it:
/// the deadline is what the caller is told.
result<void> device_operation::finish(const device_comm& comm) const {
  auto last = on_->comms().record_event(comm, stream_);
  if (!last)
    return last.error();
  auto done = on_->wait(*last, left().deadline);
  if (done || on_->why_failed() || state_.env().clock.now() < deadline_)
    return done;
  const auto code = done.error().code;
  if (code != errc::device_timeout && code != errc::collective_failed)
    return done;
  return make_failure(errc::deadline, "not done in " + std::to_string(to_ms(with_.deadline))
                                        + " ms; " + state_.status());
}

} // namespace detail

using detail::device_operation;

namespace {

/// What the devices' communicators do as the host's would.
bool stays_on_devices(const reduction& op, const device_tensor& x,
                      const collective_options& options) {
  const bool can = x.type() == dtype::f32 ? op.op == reduce_op::sum || op.op == reduce_op::mean
                                          : x.type() == dtype::bf16 && op.op == reduce_op::sum;
  return can && x.size() > 0 && options.wire == kernels::encoding::plain && !options.algorithm;
}

void mix(std::uint64_t& digest, const std::string& text) {
  for (const unsigned char c : text)
    digest = (digest ^ c) * 0x100000001b3; // FNV-1a
}

} // namespace

// --- tensors

void replica_context::check_place(const char* what, const device_tensor& x) {
  if (!x.on())
    throw_failure(errc::invalid_argument, std::string{what} + ": the device tensor has no value");
  if (x.on() != device().on())
    throw_failure(errc::invalid_argument, std::string{what} + ": the tensor is on "
                                            + to_string(x.where()) + ", the device of replica "
                                            + std::to_string(replica_id_in_sync_group()) + " is "
                                            + to_string(device().id()));
}

device_tensor replica_context::all_reduce(const reduction& op, const device_tensor& x,
                                          const collective_options& options) {
  check_current("all_reduce");
  check_place("all_reduce", x);
  auto& here = device();
  if (!stays_on_devices(op, x, options))
    return here.put(reduce_here(op, {here.get(x)}, options, true)[0]);
  auto out = here.empty(x.type(), x.shape());
  x.used_on(here.stream());
  here.check([&]() -> result<void> {
    auto put = here.on()->copy(here.stream(), out.data(), x.data(), x.size_bytes(),
                               copy_kind::device_to_device);
    return put ? result<void>{} : put.error();
  }());
  if (state_->count() == 1)
    return out;
  auto call =
    detail::described({.kind = operation_kind::all_reduce, .op = op.op}, x.type(), {x.shape()});
  call.on_devices = true;
  call.options = options;
  auto with = state_->own_deadline(options);
  with.what = state_->words_for(call, with.what);
  const bool mean = op.op == reduce_op::mean;
  state_->collective(local_, std::move(call), [&](collective_group& group) -> result<void> {
    const device_operation operation{*state_, local_, here, with};
    auto comm = operation.join(group);
    if (!comm)
      return comm.error();
    if (*comm) {
      if (auto same = operation.compare(group, with.what); !same)
        return same;
      return operation.all_reduce(*comm, out, mean ? divisor() : 1);
    }
    const bool apart = mean && divisor() != state_->count();
    auto done = operation.all_reduce(group, {&out, 1}, apart ? reduction{reduce_op::sum} : op,
                                     kernels::encoding::plain);
    if (done && apart)
      out = here.put(detail::divide(here.get(out), divisor()));
    return done;
  });
  return out;
}

device_tensor replica_context::all_gather(const device_tensor& x, std::int64_t axis,
                                          const collective_options& options) {
  check_current("all_gather");
  check_place("all_gather", x);
  return device().put(gather_here(device().get(x), axis, options, true, gathers_any_extent()));
}

device_tensor replica_context::broadcast(const device_tensor& x, std::uint32_t root,
                                         const collective_options& options) {
  check_current("broadcast");
  check_place("broadcast", x);
  return device().put(broadcast_here(device().get(x), root, options, true));
}

// --- gradients

troupe::gradient_reducer replica_context::gradient_reducer(
  const gradient_reducer_options& options) {
  check_current("gradient_reducer");
  return troupe::gradient_reducer{*this, options};
}

namespace {

replica_call call_of(operation_kind kind, const gradient_reducer_options& options) {
  auto out =
    detail::described({.kind = kind, .op = options.op}, options.bf16 ? dtype::bf16 : dtype::f32);
  out.on_devices = true;
  out.options = {.deadline = options.deadline};
  return out;
}

} // namespace

void replica_context::reduce_bucket(const std::vector<device_tensor>& bucket,
                                    const gradient_reducer_options& options) {
  if (state_->count() == 1)
    return;
  auto call = call_of(operation_kind::reduce_gradients, options);
  for (const auto& each : bucket)
    call.shapes.push_back(each.shape());
  const auto scale = options.op == reduce_op::mean ? 1.0f / static_cast<float>(divisor()) : 1.0f;
  auto with = state_->own_deadline(call.options);
  with.what = state_->words_for(call, with.what);
  mix(buckets_digest_, with.what);
  auto& here = device();
  state_->collective(local_, std::move(call), [&](collective_group& group) -> result<void> {
    const device_operation operation{*state_, local_, here, with};
    auto comm = operation.join(group);
    if (!comm)
      return comm.error();
    if (*comm)
      return operation.reduce(*comm, bucket, {.bf16 = options.bf16, .scale = scale});
    auto done =
      operation.all_reduce(group, bucket, reduce_op::sum,
                           options.bf16 ? kernels::encoding::bf16 : kernels::encoding::plain);
    for (std::size_t i = 0; done && scale != 1 && i < bucket.size(); ++i)
      done = here.ops().scale(scale, bucket[i], bucket[i]);
    return done;
  });
}

void replica_context::finish_buckets(const gradient_reducer_options& options) {
  if (state_->count() == 1)
    return;
  auto call = call_of(operation_kind::finish_gradients, options);
  auto with = state_->own_deadline(call.options);
  with.what = state_->words_for(call, with.what);
  auto& here = device();
  state_->collective(local_, std::move(call), [&](collective_group& group) -> result<void> {
    const device_operation operation{*state_, local_, here, with};
    auto comm = operation.join(group);
    if (!comm)
      return comm.error();
    // Without words each bucket would have to be waited for, to know that it was the others' too.
    auto same = operation.compare(group, with.what + " of " + std::to_string(buckets_digest_));
    return same && *comm ? operation.finish(*comm) : same;
  });
}

gradient_reducer::gradient_reducer(replica_context& ctx, gradient_reducer_options options)
  : ctx_{&ctx}, options_{options}, filler_{options.bucket_bytes} {
  if (options.op != reduce_op::sum && options.op != reduce_op::mean)
    throw_failure(
      errc::invalid_argument,
      "gradient_reducer: op is " + std::string{to_string(options.op)} + ", expected sum or mean");
}

void gradient_reducer::send(const std::vector<device_tensor>& bucket) {
  ctx_->reduce_bucket(bucket, options_);
  ++buckets_;
}

void gradient_reducer::add(const device_tensor& gradient) {
  ctx_->check_current("gradient_reducer");
  ctx_->check_place("gradient_reducer", gradient);
  if (gradient.type() != dtype::f32)
    throw_failure(errc::dtype_mismatch, "gradient_reducer: a gradient is of "
                                          + to_string(gradient.type()) + ", expected f32");
  for (const auto& bucket : filler_.add(gradient))
    send(bucket);
}

void gradient_reducer::finish() {
  ctx_->check_current("gradient_reducer");
  if (const auto rest = filler_.rest(); !rest.empty())
    send(rest);
  ctx_->finish_buckets(options_);
}

} // namespace troupe
