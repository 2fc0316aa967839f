#include <troupe/strategies/replicas/detail/worker_calls.hpp>

#include <utility>

#include <troupe/actors/replicas/worker_meeting.hpp>
#include <troupe/core/failure_codec.hpp>
#include <troupe/strategies/replicas/detail/tensor_reduce.hpp>
#include <troupe/transport/collective_group.hpp>

namespace troupe::detail {

namespace {

void call(const replica_engine& of, const std::string& what, const worker_operation& body) {
  of.require_cross_replica(what.c_str());
  const auto& options = of.options();
  if (options.links)
    options.links->run(what, after(of.env().clock.now(), options.collective_timeout), body)
      .value_or_throw();
}

} // namespace

void worker_barrier(const replica_engine& of, const std::string& what) {
  call(of, what,
       [](collective_group& group, const collective_options& how) { return group.barrier(how); });
}

std::vector<std::string> exchange_texts(const replica_engine& of, const std::string& mine,
                                        const std::string& what) {
  std::vector<std::string> out{mine};
  call(of, what, [&](collective_group& group, const collective_options& how) -> result<void> {
    auto got = gather_texts(group, mine, how);
    if (!got)
      return got.error();
    out = std::move(*got);
    return {};
  });
  return out;
}

void take_from_chief(const replica_engine& of, tensor& x, const std::string& what) {
  call(of, what, [&](collective_group& group, const collective_options& how) {
    return group.broadcast(x, 0, how);
  });
}

std::int64_t largest_of(const replica_engine& of, std::int64_t mine, const std::string& what) {
  auto x = tensor::scalar(mine);
  call(of, what, [&](collective_group& group, const collective_options& how) {
    return group.all_reduce(x, reduce_op::max, how);
  });
  return x.item<std::int64_t>();
}

std::string encode_outcome(const replica_engine& of, const std::optional<failure>& why,
                           const std::string& made) {
  return why ? "1" + encode_failure(replica_engine::from(of.own_origin(), *why)) : "0" + made;
}

result<std::string> decode_outcome(const std::string& text) {
  if (text.starts_with('0'))
    return text.substr(1);
  auto why =
    text.starts_with('1') ? decode_failure(std::string_view{text}.substr(1)) : std::nullopt;
  if (!why || why->code == errc::none)
    return make_failure(errc::bad_frame,
                        "malformed outcome of a worker, " + std::to_string(text.size()) + " bytes");
  return std::move(*why);
}

failure of_worker(std::size_t worker, failure why) {
  const auto name =
    to_string(task_id{.job = job_kind::worker, .index = static_cast<std::uint32_t>(worker)});
  if (!why.text.starts_with(name))
    why.text = name + ": " + why.text;
  return why;
}

std::string chiefs_outcome(const replica_engine& of, const std::optional<failure>& why,
                           const std::string& made, const std::string& what) {
  return decode_outcome(exchange_texts(of, encode_outcome(of, why, made), what)[0])
    .value_or_throw();
}

void agree(const replica_engine& of, const std::optional<failure>& why, const std::string& what) {
  const auto told = exchange_texts(of, encode_outcome(of, why), what);
  for (std::size_t w = 0; w < told.size(); ++w)
    if (auto end = decode_outcome(told[w]); !end)
      throw_failure(told.size() > 1 ? of_worker(w, std::move(end.error()))
                                    : std::move(end.error()));
}

tensor reduce_over_workers(const replica_engine& of, const reduction& op, const tensor& value,
                           std::optional<std::vector<std::int64_t>> axis) {
  const bool mean = op.op == reduce_op::mean;
  std::int64_t elements = 1;
  auto own = axis   ? reduce_axes("reduce", op, value, *axis, elements)
             : mean ? mean_summand(value)
                    : value;
  auto total = own.clone();
  auto count = tensor::scalar(elements);
  const auto how = mean ? reduction{reduce_op::sum} : op;
  const auto& options = of.options();
  const replica_call call{
    .kind = "reduce of host values",
    .how = op.op == reduce_op::user ? op.user.name : std::string{to_string(op.op)},
    .type = value.type(),
    .shapes = {mean ? shape_of_summand(own, value.type()) : own.shape()}};
  options.links
    ->run(troupe::to_string(call), after(of.env().clock.now(), options.collective_timeout),
          [&](collective_group& group, const collective_options& with) -> result<void> {
            if (auto done = group.all_reduce(total, how, with); !done || !mean)
              return done;
            return group.all_reduce(count, reduce_op::sum, with);
          })
    .value_or_throw();
  return mean ? mean_of(total, value.type(), count.item<std::int64_t>()) : total;
}

} // namespace troupe::detail
