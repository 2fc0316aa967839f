#pragma once

// The templates of strategy.hpp.

#include <algorithm>
#include <optional>
#include <typeinfo>

#include <troupe/core/readable_name.hpp>
#include <troupe/strategies/replicas/strategy.hpp>
#include <troupe/strategies/sharding/embedding.hpp>
#include <troupe/transport/collective_group.hpp>

namespace troupe {

namespace detail {

/// Runs `body` on all local replicas of the strategy.
void run_replicas(const std::shared_ptr<sync_state>& state,
                  std::function<void(replica_context&, std::uint32_t local)> body);
bool is_standard(const sync_state& state);

/// The prefix of the names of variables made here.
std::string name_prefix();

/// Stands in cross-replica context of `of` while it lives, where names begin with `names`.
class cross_replica_here {
public:
  explicit cross_replica_here(const std::shared_ptr<sync_state>& of,
                              std::string names = name_prefix());
  ~cross_replica_here();
  cross_replica_here(const cross_replica_here&) = delete;

private:
  std::unique_ptr<mode_frame> frame_;
};

template <class F, class... Xs>
decltype(auto) call_replica(F& f, replica_context& ctx, Xs&&... xs) {
  if constexpr (std::is_invocable_v<F&, replica_context&, Xs...>)
    return f(ctx, std::forward<Xs>(xs)...);
  else
    return f(std::forward<Xs>(xs)...);
}

template <class F, class... Args>
using replica_result_t = std::decay_t<decltype(call_replica(
  std::declval<F&>(), std::declval<replica_context&>(), std::declval<selected_t<Args>>()...))>;

/// Whether replica `i` has no data in an argument, and how many have; see `distributed_batch`.
template <class X>
bool is_silent(const X& x, std::size_t i) {
  if constexpr (requires { nest<X>::is_silent(x, i); })
    return nest<X>::is_silent(x, i);
  else
    return false;
}
template <class X>
void note_live(const X& x, std::uint32_t& live) {
  if constexpr (requires { nest<X>::live(x); })
    live = nest<X>::live(x);
}

/// Collects the parts of an argument that lie on the replicas' devices already.
template <class X>
void note_placed(const X& x, std::vector<std::shared_ptr<const placed_input>>& to) {
  if constexpr (requires { nest<X>::placed(x); })
    if (auto placed = nest<X>::placed(x))
      to.push_back(std::move(placed));
}

/// The results of the replicas in a merge call, or what a merge function gave for all.
template <class R>
merge_values spread(R result, std::size_t replicas) {
  merge_values out;
  for (std::size_t i = 0; i < replicas; ++i)
    out.push_back(std::make_shared<selected_t<R>>(select_replica(i, result)));
  return out;
}

template <class Tuple, std::size_t K>
auto merge_column(const merge_values& arguments) {
  std::vector<std::tuple_element_t<K, Tuple>> out;
  for (const auto& each : arguments)
    out.push_back(std::get<K>(*static_cast<Tuple*>(each.get())));
  return regroup(std::move(out));
}

template <class F, class Tuple, std::size_t... Ks>
decltype(auto) call_merge(F& f, strategy& in, const merge_values& arguments,
                          std::index_sequence<Ks...>) {
  return f(in, merge_column<Tuple, Ks>(arguments)...);
}

} // namespace detail

template <class F, class... Args>
auto strategy::run(F f, Args... args) const {
  using R = detail::replica_result_t<F, Args...>;
  struct job {
    F f;
    std::tuple<Args...> args;
    std::vector<std::optional<std::conditional_t<std::is_void_v<R>, bool, R>>> results;
    std::vector<bool> silent;
    std::uint32_t live = 0;
    std::vector<std::shared_ptr<const detail::placed_input>> placed;
  };
  const auto n = num_local_replicas();
  std::vector<bool> silent(n);
  std::uint32_t live = 0;
  for (std::size_t i = 0; i < n; ++i)
    silent[i] = (detail::is_silent(args, i) || ...);
  std::vector<std::shared_ptr<const detail::placed_input>> placed;
  (detail::note_live(args, live), ...);
  (detail::note_placed(args, placed), ...);
  std::vector<bool> absent;
  if (std::find(silent.begin(), silent.end(), true) != silent.end())
    absent = silent;
  if (std::find(silent.begin(), silent.end(), false) == silent.end())
    silent.assign(n, false); // nobody here whose calls they could make
  // Shared with the lanes: one that hangs may outlive this call.
  auto shared = std::make_shared<job>(
    job{std::move(f), {std::move(args)...}, {}, std::move(silent), live, std::move(placed)});
  shared->results.resize(n);
  detail::run_replicas(state_, [shared](replica_context& ctx, std::uint32_t local) {
    ctx.set_live(shared->live);
    ctx.set_placed(shared->placed);
    if (shared->silent[local]) {
      ctx.stand_in(shared->silent);
      if constexpr (std::is_void_v<R>)
        return;
      else if constexpr (std::is_default_constructible_v<R>)
        return (void)shared->results[local].emplace();
      else
        throw_failure(errc::invalid_argument,
                      "run: the result type is not default-constructible, so a replica without "
                      "data has no result; use empty_pieces::call");
    }
    F mine = shared->f;                         // each replica its own copy: they run at once
    auto call = [&](const Args&... each) -> R { // a value: what it refers to may be gone
      return detail::call_replica(mine, ctx, select_replica(local, each)...);
    };
    if constexpr (std::is_void_v<R>)
      std::apply(call, shared->args);
    else
      shared->results[local].emplace(std::apply(call, shared->args));
  });
  if constexpr (!std::is_void_v<R>) {
    std::vector<R> out;
    for (auto& each : shared->results)
      out.push_back(std::move(*each));
    per_replica<R> results{std::move(out)};
    results.set_absent(std::move(absent));
    return results;
  }
}

namespace detail {

/// Numbers as scalars.
template <class T>
requires std::is_arithmetic_v<T> per_replica<tensor> as_scalars(const per_replica<T>& value) {
  std::vector<tensor> all;
  for (const auto& each : value)
    all.push_back(tensor::scalar(each));
  per_replica<tensor> out{std::move(all), value.is_mirrored()};
  out.set_absent(value.absent());
  return out;
}

} // namespace detail

template <class T>
requires std::is_arithmetic_v<T> tensor strategy::reduce(const reduction& op,
                                                         const per_replica<T>& value)
const { return reduce(op, detail::as_scalars(value)); }

template <class T>
requires std::is_arithmetic_v<T> tensor strategy::reduce(const reduction& op, T value)
const { return reduce(op, tensor::scalar(value)); }

template <class X>
auto strategy::local_results(const X& x) const {
  std::vector<detail::selected_t<X>> out;
  constexpr bool distributed = !std::is_same_v<detail::selected_t<X>, X>;
  const std::size_t n = distributed ? num_local_replicas() : 1;
  for (std::size_t i = 0; i < n; ++i)
    out.push_back(select_replica(i, x));
  return out;
}

namespace detail {
value_context value_context_of(const sync_state& state, std::uint32_t local);
void require_cross_replica(const sync_state& state, const char* what);
} // namespace detail

template <class F>
auto strategy::distribute_values_from_function(F f) const {
  detail::require_cross_replica(*state_, "distribute_values_from_function");
  using R = std::decay_t<std::invoke_result_t<F&, const value_context&>>;
  std::vector<R> out;
  for (std::uint32_t i = 0; i < num_local_replicas(); ++i)
    out.push_back(f(detail::value_context_of(*state_, i)));
  return regroup(std::move(out));
}

template <class T>
requires std::is_arithmetic_v<T> T replica_context::all_reduce(const reduction& op, T x) {
  if constexpr (std::is_integral_v<T>)
    if (op.op == reduce_op::mean)
      throw_failure(errc::invalid_argument,
                    "all_reduce mean: the mean of integers is not an integer; pass a double, or a "
                    "tensor, whose mean is f64");
  return all_reduce(op, tensor::scalar(x)).template item<T>();
}

template <class F, class... Args>
auto replica_context::merge_call(F f, Args... args) {
  using tuple = std::tuple<Args...>;
  using R = std::decay_t<decltype(detail::call_merge<F, tuple>(
    f, std::declval<troupe::strategy&>(), std::declval<const detail::merge_values&>(),
    std::index_sequence_for<Args...>{}))>;
  auto body = [f = std::move(f), state = state_, names = detail::name_prefix()](
                const detail::merge_values& arguments) mutable -> detail::merge_values {
    detail::cross_replica_here here{state, names}; // those of the first replica
    troupe::strategy in{state};
    constexpr std::index_sequence_for<Args...> all{};
    if constexpr (std::is_void_v<R>) {
      detail::call_merge<F, tuple>(f, in, arguments, all);
      return {};
    } else {
      return detail::spread<R>(detail::call_merge<F, tuple>(f, in, arguments, all),
                               arguments.size());
    }
  };
  // One function stands for all: its arguments and results have to be everybody's.
  static const auto what = readable_name(typeid(R)) + " of " + readable_name(typeid(tuple));
  auto out = merge(what, std::make_shared<tuple>(std::move(args)...), body);
  if constexpr (!std::is_void_v<R>)
    return std::move(*static_cast<detail::selected_t<R>*>(out.get()));
}

} // namespace troupe
