#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <troupe/core/tensor.hpp>
#include <troupe/strategies/replicas/distributed_values.hpp>
#include <troupe/strategies/replicas/input_context.hpp>

/// What the templates of `strategy` and `replica_context` are made of, and what they have in common
/// with the engine behind them.
namespace troupe {

class replica_context;
class strategy;

namespace detail {

class placed_input;
class replica_engine;
struct context_frame;

/// Arguments or results of a merge function: one for each local replica, by their common type.
using merge_values = std::vector<std::shared_ptr<void>>;
/// A merge function over them.
using merge_body = std::function<merge_values(const merge_values&)>;

/// Runs `body` on all local replicas of the strategy.
void run_replicas(const std::shared_ptr<replica_engine>& state,
                  std::function<void(replica_context&, std::uint32_t local)> body);
/// What local replica `local` is in the group.
value_context value_context_of(const replica_engine& state, std::uint32_t local);
/// Throws `wrong_state` unless the caller may make the cross-replica call `what`.
void require_cross_replica(const replica_engine& state, const char* what);

/// The prefix of the names of variables made here.
std::string name_prefix();

/// Stands in cross-replica context of `of` while it lives, where names begin with `names`.
class cross_replica_here {
public:
  explicit cross_replica_here(const std::shared_ptr<replica_engine>& of,
                              std::string names = name_prefix());
  ~cross_replica_here();
  cross_replica_here(const cross_replica_here&) = delete;

private:
  std::unique_ptr<context_frame> frame_;
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
bool is_empty_replica(const X& x, std::size_t i) {
  if constexpr (requires { nest<X>::is_empty_replica(x, i); })
    return nest<X>::is_empty_replica(x, i);
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
} // namespace troupe
