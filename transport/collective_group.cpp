#include <troupe/transport/collective_group.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

#include <troupe/core/mac.hpp>
#include <troupe/transport/detail/address.hpp>
#include <troupe/transport/detail/collective_engine.hpp>
#include <troupe/transport/detail/collective_plan.hpp>
#include <troupe/transport/detail/group_core.hpp>

namespace troupe {

namespace {

using detail::collective_task;

failure refuse(collective_kind kind, const std::string& what) {
  return make_failure(errc::invalid_argument, std::string{to_string(kind)} + ": " + what);
}

std::string size_text(const char* what, std::size_t got, std::size_t expected) {
  return std::string{what} + " has " + std::to_string(got) + " elements, expected "
         + std::to_string(expected);
}

std::size_t count_of(const tensor& x) { return static_cast<std::size_t>(x.size()); }

/// Whether everybody's elements have to be merged in one step: a user's operator may not commute,
/// and the sum that a mean of a narrow type is made of may not fit the type, in which partial sums
/// travel.
bool merges_at_once(const collective_task& task) {
  if (task.how == nullptr)
    return false;
  const bool narrow = task.type != dtype::f32 && task.type != dtype::f64;
  return task.how->op == reduce_op::user || (task.how->op == reduce_op::mean && narrow);
}

bool passes_partial_sums(collective_algorithm x) {
  return x == collective_algorithm::recursive_doubling
         || x == collective_algorithm::halving_doubling || x == collective_algorithm::ring;
}

class group_impl final : public collective_group {
public:
  group_impl(environment& env, std::uint64_t id, group_options options,
             std::unique_ptr<channel_listener> listener)
    : core_{env, id, std::move(options), std::move(listener)} {}

  std::string address() const override { return core_.address(); }

  result<void> form(group_epoch epoch, std::vector<collective_member> members,
                    duration deadline) override {
    return core_.form(epoch, std::move(members), deadline);
  }
  result<void> shrink(group_epoch epoch, std::span<const std::uint64_t> survivors,
                      duration deadline) override {
    std::vector<collective_member> left;
    for (const collective_member& m : core_.members())
      if (std::find(survivors.begin(), survivors.end(), m.id) != survivors.end())
        left.push_back(m);
    if (left.size() != survivors.size())
      return make_failure(errc::invalid_argument, "shrink: a survivor is not a member");
    return core_.form(epoch, std::move(left), deadline);
  }
  result<void> grow(group_epoch epoch, std::vector<collective_member> joined,
                    duration deadline) override {
    std::vector<collective_member> all = core_.members();
    all.insert(all.end(), std::make_move_iterator(joined.begin()),
               std::make_move_iterator(joined.end()));
    return core_.form(epoch, std::move(all), deadline);
  }
  using collective_group::revoke;
  void revoke(failure why, std::span<const std::uint64_t> missing) override {
    core_.revoke(std::move(why), missing);
  }
  std::optional<failure> why_ended() const override { return core_.ended(); }

  std::uint32_t rank() const override { return core_.rank(); }
  std::uint32_t size() const override { return core_.size(); }
  group_epoch epoch() const override { return core_.epoch(); }
  group_class carried_by() const override { return core_.carried_by(); }
  const std::vector<collective_member>& members() const override { return core_.members(); }
  collective_counters counters() const override { return core_.counters(); }
  std::vector<std::uint64_t> missing() const override { return core_.missing(); }
  group_epoch newest_epoch() const override { return core_.newest_epoch(); }

  tensor allocate(dtype type, shape_t shape) override {
    return core_.allocate(type, std::move(shape));
  }

  // --- operations

  result<void> all_reduce(tensor& x, const reduction& how,
                          const collective_options& options) override {
    return reduce_in_place(collective_kind::all_reduce, x.type(), x.mutable_bytes(), 0, how,
                           options);
  }

  result<void> all_reduce(std::span<tensor> xs, const reduction& how,
                          const collective_options& options) override {
    const time_point until = after(core_.now(), options.deadline);
    collective_options rest = options; // the deadline is that of all buckets together
    const bool by_progress = options.by_progress || options.deadline == no_deadline_given;
    for (std::size_t first = 0; first < xs.size();) {
      if (!by_progress)
        rest.deadline = std::max(duration{}, until - core_.now());
      std::size_t bytes = xs[first].size_bytes();
      std::size_t end = first + 1;
      while (end < xs.size() && xs[end].type() == xs[first].type()
             && bytes + xs[end].size_bytes() <= options.bucket_bytes)
        bytes += xs[end++].size_bytes();
      if (auto ok = reduce_bucket(xs.subspan(first, end - first), bytes, how, rest); !ok)
        return ok;
      first = end;
    }
    return {};
  }

  result<void> reduce_scatter(const tensor& in, tensor& out, const reduction& how,
                              const collective_options& options) override {
    constexpr auto kind = collective_kind::reduce_scatter;
    if (size() == 0)
      return core_.why_ended();
    const std::size_t own = detail::segment_begin(count_of(in), size(), rank() + 1)
                            - detail::segment_begin(count_of(in), size(), rank());
    if (out.type() != in.type())
      return refuse(kind, "out is " + to_string(out.type()) + ", in is " + to_string(in.type()));
    if (count_of(out) != own)
      return refuse(kind, size_text("out", count_of(out), own));
    collective_task task = task_for(kind, in.type(), options);
    task.count = count_of(in);
    task.input = in.bytes().data();
    task.output = out.mutable_bytes().data();
    return run_reduction(task, how);
  }

  result<void> reduce(tensor& x, std::uint32_t root, const reduction& how,
                      const collective_options& options) override {
    return reduce_in_place(collective_kind::reduce, x.type(), x.mutable_bytes(), root, how,
                           options);
  }

  result<void> all_gather(const tensor& mine, tensor& all, std::span<const std::size_t> counts,
                          const collective_options& options) override {
    return collect(collective_kind::all_gather, mine, all, 0, counts, options);
  }

  result<void> gather(const tensor& mine, tensor& all, std::uint32_t root,
                      std::span<const std::size_t> counts,
                      const collective_options& options) override {
    return collect(collective_kind::gather, mine, all, root, counts, options);
  }

  result<void> broadcast(tensor& x, std::uint32_t root,
                         const collective_options& options) override {
    collective_task task = task_for(collective_kind::broadcast, x.type(), options);
    task.count = count_of(x);
    task.root = root;
    task.output = x.mutable_bytes().data();
    task.input = task.output;
    return run(task);
  }

  result<void> barrier(const collective_options& options) override {
    collective_task task = task_for(collective_kind::barrier, dtype::u8, options);
    return run(task);
  }

private:
  static collective_task task_for(collective_kind kind, dtype type,
                                  const collective_options& options) {
    collective_task out;
    out.kind = kind;
    out.type = type;
    out.options = options;
    return out;
  }

  result<void> reduce_in_place(collective_kind kind, dtype type, mutable_bytes x,
                               std::uint32_t root, const reduction& how,
                               const collective_options& options) {
    collective_task task = task_for(kind, type, options);
    task.count = x.size() / size_of(type);
    task.root = root;
    task.input = x.data();
    task.output = x.data();
    return run_reduction(task, how);
  }

  result<void> reduce_bucket(std::span<tensor> xs, std::size_t bytes, const reduction& how,
                             const collective_options& options) {
    if (xs.size() == 1)
      return all_reduce(xs[0], how, options);
    std::byte* const bucket = core_.fusion(bytes);
    std::size_t at = 0;
    for (const tensor& x : xs) {
      std::memcpy(bucket + at, x.bytes().data(), x.size_bytes());
      at += x.size_bytes();
    }
    auto done =
      reduce_in_place(collective_kind::all_reduce, xs[0].type(), {bucket, bytes}, 0, how, options);
    at = 0;
    for (tensor& x : xs) {
      if (done)
        std::memcpy(x.mutable_bytes().data(), bucket + at, x.size_bytes());
      at += x.size_bytes();
    }
    return done;
  }

  result<void> collect(collective_kind kind, const tensor& mine, tensor& all, std::uint32_t root,
                       std::span<const std::size_t> counts, const collective_options& options) {
    if (size() == 0)
      return core_.why_ended();
    if (!counts.empty() && counts.size() != size())
      return refuse(
        kind, std::to_string(counts.size()) + " counts for " + std::to_string(size()) + " members");
    collective_task task = task_for(kind, mine.type(), options);
    task.root = root;
    task.parts.push_back(0);
    for (std::uint32_t i = 0; i < size(); ++i)
      task.parts.push_back(task.parts.back() + (counts.empty() ? count_of(mine) : counts[i]));
    task.count = task.parts.back();
    const std::size_t own = task.parts[rank() + 1] - task.parts[rank()];
    if (own != count_of(mine))
      return refuse(kind, size_text("mine", count_of(mine), own));
    task.input = mine.bytes().data();
    if (kind == collective_kind::all_gather || rank() == root) {
      if (all.type() != mine.type())
        return refuse(kind,
                      "all is " + to_string(all.type()) + ", mine is " + to_string(mine.type()));
      if (count_of(all) != task.count)
        return refuse(kind, size_text("all", count_of(all), task.count));
      task.output = all.mutable_bytes().data();
      std::byte* const place = task.output + task.parts[rank()] * size_of(task.type);
      if (own > 0 && place != task.input)
        std::memcpy(place, task.input, own * size_of(task.type));
    }
    return run(task);
  }

  result<void> run_reduction(collective_task& task, const reduction& how) {
    const bool is_user = how.op == reduce_op::user;
    if (is_user && (!how.user.merge || how.user.name.empty()))
      return refuse(task.kind, "a user-defined reduction needs a name and a function");
    if (task.options.wire != kernels::encoding::plain && (task.type != dtype::f32 || is_user))
      return refuse(task.kind, "encoding supports f32 and built-in reductions only, not "
                                 + to_string(task.type));
    task.how = &how;
    const bool mean_on_f16 =
      how.op == reduce_op::mean && task.options.wire == kernels::encoding::f16;
    if (merges_at_once(task) || mean_on_f16) // a sum may be out of the wire's range
      task.options.order = reduction_order::rank;
    return run(task);
  }

  result<void> run(collective_task& task) {
    if (size() > 0 && task.root >= size())
      return refuse(task.kind, "root " + std::to_string(task.root) + " of " + std::to_string(size())
                                 + " members");
    if (task.how == nullptr)
      task.options.wire = kernels::encoding::plain;
    const std::size_t bytes = task.count * size_of(task.type);
    task.algorithm = core_.options().table.pick(task.kind, task.options.order, size(), bytes);
    if (merges_at_once(task) && passes_partial_sums(task.algorithm)) // a table of the user's own
      task.algorithm = collective_algorithm::direct;
    if (const auto wanted = task.options.algorithm; wanted && size() > 1) {
      if (!detail::can_plan(task.kind, *wanted, size())
          || (merges_at_once(task) && passes_partial_sums(*wanted)))
        return refuse(task.kind, "algorithm " + std::string{to_string(*wanted)}
                                   + " does not support " + std::to_string(size()) + " members");
      task.algorithm = *wanted;
    }
    return core_.run(task);
  }

  detail::group_core core_;
};

/// Whether an address is one of a network, and not of this machine alone.
bool reaches_others(const std::string& address) {
  const auto at = detail::split_address(address);
  if (!at || address.starts_with("mem:"))
    return false; // no network's; or the transport refuses it
  return at->host != "localhost" && at->host != "::1" && !at->host.starts_with("127.");
}

} // namespace

result<std::unique_ptr<collective_group>> collective_group::make(environment& env, std::uint64_t id,
                                                                 group_options options) {
  if (options.token.empty() && !options.network_is_private && reaches_others(options.listen))
    return make_failure(errc::invalid_argument,
                        "group " + options.name + ": listen is " + options.listen
                          + ", which is reachable from other machines: a token is required; "
                          + std::string{token_advice});
  auto listener = env.transport.listen(options.listen);
  if (!listener)
    return listener.error();
  return std::unique_ptr<collective_group>{
    std::make_unique<group_impl>(env, id, std::move(options), std::move(*listener))};
}

std::size_t segment_begin(std::size_t count, std::uint32_t size, std::uint32_t rank) {
  return detail::segment_begin(count, size, rank);
}

} // namespace troupe
