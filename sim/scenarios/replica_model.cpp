#include <troupe/sim/scenarios/replica_model.hpp>

#include <algorithm>
#include <functional>
#include <span>

#include <troupe/kernels/optimizers.hpp>
#include <troupe/sim/run_hash.hpp>

namespace troupe::sim {

namespace {

constexpr float light_rate = 0.5f;
constexpr float heavy_rate = 0.25f;
constexpr float heavy_momentum = 0.5f;

std::uint64_t digest_of(const tensor& x) {
  run_hash h;
  h.fold(to_string(x.shape()));
  h.fold(reinterpret_cast<const char*>(x.bytes().data()), x.size_bytes());
  return h.value();
}

bool same_bits(const tensor& a, const tensor& b) {
  return a.type() == b.type() && a.shape() == b.shape() && std::ranges::equal(a.bytes(), b.bytes());
}

} // namespace

// --- what must be there

tensor replica_audit::gradient(std::int64_t step, std::uint32_t replica) const {
  const auto draws = draws_.at(static_cast<std::uint64_t>(step)).at(replica);
  tensor out{dtype::f32, {width}};
  std::uint64_t i = 0;
  for (auto& x : out.mutable_as<float>())
    x = static_cast<float>(draw_stream::scaled(draws.value(i++), 9)) - 4;
  return out;
}

tensor replica_audit::summed(std::int64_t step) const {
  auto out = tensor::zeros(dtype::f32, {width});
  const auto to = out.mutable_as<float>();
  for (std::uint32_t r = 0; r < replicas_; ++r) {
    const auto of = gradient(step, r);
    for (std::size_t i = 0; i < to.size(); ++i)
      to[i] += of.as<float>()[i];
  }
  return out;
}

/// Replica r gives 2 r: the mean is n - 1.
double replica_audit::mean(std::int64_t steps) const {
  return static_cast<double>(steps) * (replicas_ - 1);
}

/// Replica r gives r + 1.
std::int64_t replica_audit::seen(std::int64_t steps) const {
  return steps * replicas_ * (replicas_ + 1) / 2;
}

auto replica_audit::after(std::int64_t steps) const -> const state& {
  if (states_.empty()) {
    const auto zero = tensor::zeros(dtype::f32, {width});
    states_.push_back({.light = zero, .heavy = zero, .velocity = zero});
  }
  while (static_cast<std::int64_t>(states_.size()) <= steps)
    states_.push_back(next(states_.back(), static_cast<std::int64_t>(states_.size()) - 1));
  return states_[static_cast<std::size_t>(steps)];
}

/// By the kernels that the product uses, on the sums of all replicas.
auto replica_audit::next(const state& before, std::int64_t step) const -> state {
  const auto g = summed(step);
  state out{.light = before.light.clone(),
            .heavy = before.heavy.clone(),
            .velocity = before.velocity.clone()};
  const auto light = out.light.mutable_as<float>();
  const auto heavy = out.heavy.mutable_as<float>();
  const auto velocity = out.velocity.mutable_as<float>();
  kernels::sgd_update<float>(light, light, g.as<float>(), {.learning_rate = light_rate});
  kernels::momentum_update<float>(heavy, heavy, velocity, velocity, g.as<float>(),
                                  {.learning_rate = heavy_rate, .momentum = heavy_momentum});
  return out;
}

// --- variables

replica_variables replica_variables::make() {
  const auto whole = [](const char* name, tensor initial, variable_synchronization when,
                        variable_aggregation how) {
    return make_variable(
      {.name = name, .initial = std::move(initial), .synchronization = when, .aggregation = how});
  };
  const auto trained = [](const char* name, optimizer by) {
    return make_variable({.name = name,
                          .initial = tensor::zeros(dtype::f32, {replica_audit::width}),
                          .aggregation = variable_aggregation::sum,
                          .optimizer = by});
  };
  using enum variable_synchronization;
  using agg = variable_aggregation;
  const auto zero = [] { return tensor::scalar<std::int64_t>(0); };
  return {.total = whole("total", zero(), on_write, agg::sum),
          .mean = whole("mean", tensor::scalar(0.0), on_write, agg::mean),
          .first = whole("first", zero(), on_write, agg::only_first_replica),
          .seen = whole("seen", zero(), on_read, agg::sum),
          .light = trained("light", sgd{light_rate}),
          .heavy = trained("heavy", momentum{heavy_rate, heavy_momentum})};
}

std::string replica_variables::compare(const replica_audit& want, std::int64_t steps) const {
  std::string out;
  const auto look = [&](const distributed_variable& v, const tensor& wanted) {
    for (std::size_t i = 0; i < v.components(); ++i)
      if (const auto is = v.component(i); !same_bits(is, wanted))
        out +=
          v.component_name(i) + " is " + to_string(is) + ", expected " + to_string(wanted) + "; ";
  };
  look(total, tensor::scalar(want.total(steps)));
  look(mean, tensor::scalar(want.mean(steps)));
  look(first, tensor::scalar(want.first(steps)));
  look(light, want.light(steps));
  look(heavy, want.heavy(steps));
  if (const auto is = seen.read().item<std::int64_t>(); is != want.seen(steps))
    out += "seen is " + std::to_string(is) + ", expected " + std::to_string(want.seen(steps));
  return out;
}

// --- steps

namespace {

/// Calls that are drawn. What replica r gives is a function of its id.
class drawn_calls {
public:
  drawn_calls(replica_context& ctx, draw_stream draws) : ctx_{ctx}, draws_{draws} {}

  void make_some(replica_outcome& out) {
    for (auto n = draws_.below(3); n > 0; --n)
      make_one(out);
  }
  /// Gets the better of a result.
  static void check(replica_outcome& out, const std::string& what, const tensor& got,
                    const tensor& wanted) {
    run_hash is, must;
    is.fold(out.got);
    must.fold(out.wanted);
    is.fold(digest_of(got));
    must.fold(digest_of(wanted));
    out.got = is.value();
    out.wanted = must.value();
    if (!same_bits(got, wanted) && out.difference.empty())
      out.difference = what + " gave " + to_string(got) + ", expected " + to_string(wanted);
  }

private:
  std::uint32_t me() const { return ctx_.replica_id_in_sync_group(); }
  std::uint32_t all() const { return ctx_.num_replicas_in_sync(); }

  /// Element i of replica r: 1 to 5.
  static std::int64_t value(std::uint32_t r, std::int64_t i, std::uint64_t salt) {
    return static_cast<std::int64_t>(
             (std::uint64_t{r} * 7 + static_cast<std::uint64_t>(i) * 3 + salt) % 5)
           + 1;
  }
  template <class T>
  static tensor filled(std::int64_t n, const std::function<T(std::int64_t)>& at) {
    auto out = tensor::zeros(dtype_of<T>::value, {n});
    std::int64_t i = 0;
    for (auto& x : out.template mutable_as<T>())
      x = at(i++);
    return out;
  }

  void make_one(replica_outcome& out) {
    const auto kind = draws_.below(6);
    const auto salt = draws_.below(1'000);
    constexpr std::int64_t sizes[] = {1, 7, 100, 3'000};
    const auto n = sizes[draws_.below(4)];
    switch (kind) {
      case 0: return reduce<double>(out, n, salt);
      case 1: return reduce<std::int64_t>(out, n, salt);
      case 2: return gather(out, n, salt);
      case 3: return broadcast(out, n, salt);
      case 4: return merge(out, salt);
      default: ctx_.barrier();
    }
  }

  template <class T>
  void reduce(replica_outcome& out, std::int64_t n, std::uint64_t salt) {
    constexpr reduce_op ops[] = {reduce_op::sum, reduce_op::min, reduce_op::max};
    const auto op = ops[draws_.below(3)];
    const auto got = ctx_.all_reduce(
      op, filled<T>(n, [&](std::int64_t i) { return static_cast<T>(value(me(), i, salt)); }));
    const auto wanted = filled<T>(n, [&](std::int64_t i) {
      auto x = value(0, i, salt);
      for (std::uint32_t r = 1; r < all(); ++r) {
        const auto y = value(r, i, salt);
        x = op == reduce_op::sum ? x + y : op == reduce_op::min ? std::min(x, y) : std::max(x, y);
      }
      return static_cast<T>(x);
    });
    check(out, "all_reduce " + std::string{to_string(op)}, got, wanted);
  }

  /// In order of replicas.
  void gather(replica_outcome& out, std::int64_t n, std::uint64_t salt) {
    const auto of = [&](std::uint32_t r) {
      return filled<std::int64_t>(n, [&](std::int64_t i) { return value(r, i, salt); });
    };
    std::vector<tensor> parts;
    for (std::uint32_t r = 0; r < all(); ++r)
      parts.push_back(of(r));
    check(out, "all_gather", ctx_.all_gather(of(me())), concatenate(parts));
  }

  void broadcast(replica_outcome& out, std::int64_t n, std::uint64_t salt) {
    const auto root = static_cast<std::uint32_t>(salt % all());
    const auto of = [&](std::uint32_t r) {
      return filled<std::int64_t>(n, [&](std::int64_t i) { return value(r, i, salt); });
    };
    check(out, "broadcast", ctx_.broadcast(of(me()), root), of(root));
  }

  /// The sum over this process's replicas, by a merge call.
  void merge(replica_outcome& out, std::uint64_t salt) {
    const auto local = [](const strategy& s, const per_replica<tensor>& xs) {
      auto sum = tensor::scalar<std::int64_t>(0);
      for (std::size_t i = 0; i < s.num_local_replicas(); ++i)
        sum.mutable_as<std::int64_t>()[0] += xs[i].template item<std::int64_t>();
      return sum;
    };
    const auto got = ctx_.merge_call(local, tensor::scalar(value(me(), 0, salt)));
    const auto here = ctx_.strategy().num_local_replicas();
    const auto begin = me() / here * here;
    std::int64_t wanted = 0;
    for (auto r = begin; r < begin + here; ++r)
      wanted += value(r, 0, salt);
    // another process's sum is another one
    replica_outcome mine;
    check(mine, "merge_call", got, tensor::scalar(wanted));
    if (out.difference.empty())
      out.difference = mine.difference;
  }

  replica_context& ctx_;
  draw_stream draws_;
};

} // namespace

replica_outcome replica_step(replica_context& ctx, const replica_variables& v,
                             const replica_audit& want, const draw_stream& draws,
                             std::int64_t step) {
  replica_outcome out;
  const auto me = ctx.replica_id_in_sync_group();
  drawn_calls calls{ctx, draws};
  calls.make_some(out);
  v.total.assign_add(tensor::scalar<std::int64_t>(1));
  v.mean.assign_add(tensor::scalar(2.0 * me));
  calls.make_some(out);
  v.first.assign(tensor::scalar<std::int64_t>(step * 100 + me));
  v.seen.assign_add(tensor::scalar<std::int64_t>(me + 1));
  const auto gradient = want.gradient(step, me);
  ctx.apply({v.light, v.heavy}, {gradient, gradient});
  calls.make_some(out);
  const auto after = step + 1;
  drawn_calls::check(out, "total", v.total.read(), tensor::scalar(want.total(after)));
  drawn_calls::check(out, "mean", v.mean.read(), tensor::scalar(want.mean(after)));
  drawn_calls::check(out, "first", v.first.read(), tensor::scalar(want.first(after)));
  drawn_calls::check(out, "light", v.light.read(), want.light(after));
  drawn_calls::check(out, "heavy", v.heavy.read(), want.heavy(after));
  return out;
}

} // namespace troupe::sim
