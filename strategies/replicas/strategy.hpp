#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include <troupe/core/readable_name.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/strategies/replicas/distributed_values.hpp>
#include <troupe/strategies/replicas/input_context.hpp>
#include <troupe/strategies/replicas/replica_context.hpp>
#include <troupe/strategies/replicas/replica_types.hpp>
#include <troupe/strategies/replicas/step_range.hpp>
#include <troupe/strategies/runtime/fwd.hpp>
#include <troupe/transport/collective_group.hpp>

namespace troupe {

class strategy_extended;

/// A scope of a strategy that is open: variables are made with it. Ends with the object or by
/// `exit`. Used on the thread that opened it.
class strategy_scope {
public:
  /// Throws `wrong_state` inside a replica's function, and while another strategy's scope is open,
  /// naming both. Scopes of one strategy nest.
  explicit strategy_scope(const strategy& of);
  /// A scope that is not the innermost one is left all the same: `exit` tells.
  ~strategy_scope();
  strategy_scope(const strategy_scope&) = delete;
  strategy_scope& operator=(const strategy_scope&) = delete;
  /// Throws `wrong_state` naming what is still open inside (a device, name or variable-creator
  /// scope); the scope then stays open and can be left later.
  void exit();

private:
  std::unique_ptr<detail::context_frame> frame_;
};

/// How a computation is spread over replicas: the base of all synchronous strategies, and by itself
/// the default one, which has one replica and spreads nothing. A handle; copies are the same
/// strategy. Called on threads of the program, in cross-replica context or outside any. Calls that
/// concern all replicas (run, reduce, gather, distribute) throw `wrong_state` inside a replica's
/// function and while another strategy is active.
class strategy {
public:
  /// The default strategy.
  strategy();
  explicit strategy(std::shared_ptr<detail::replica_engine> state) : state_{std::move(state)} {}

  /// Number of replicas in all processes.
  std::uint32_t num_replicas_in_sync() const;
  /// Number of replicas in this process.
  std::uint32_t num_local_replicas() const;
  /// "mirrored_strategy(cpu:0, cpu:1)".
  std::string to_string() const;
  friend bool operator==(const strategy& a, const strategy& b) { return a.state_ == b.state_; }

  /// Runs `f` in cross-replica context with this as the ambient strategy.
  template <class F>
  std::invoke_result_t<F> scope(F&& f) const {
    strategy_scope open{*this};
    return std::forward<F>(f)();
  }

  /// Calls `f` once for each local replica, concurrently, on the replica's device. `f` takes a
  /// `replica_context&` first, or none. Of distributed values anywhere in `args` (nests of tuples,
  /// vectors, maps, ...) each replica gets its own component; all else is copied to all. The result
  /// is a `per_replica` of what the replicas returned: `regroup` turns a distributed nest into a
  /// nest of distributed values. An exception of a replica is thrown here with its own type, once
  /// the other replicas have ended. Replicas that do not end within `grace_ms` are left behind and
  /// still use what `f` captured: capture by value what may end before them.
  template <class F, class... Args>
  auto run(F f, Args... args) const;

  /// Reduces element by element over the replicas that have a value. `op`: `reduce_op`, or its name
  /// in any letter case ("sum", "MEAN"). Over several workers all of them call it, and all get the
  /// result. With `axis` each component is reduced along it first, and a mean divides by the number
  /// of elements over all replicas. A component without elements along the axis counts for nothing;
  /// where none has any, a sum is 0, a product 1, an extreme the other end of the type, a mean NaN.
  /// A mean of integers is f64, and its sum does not wrap. Axes may count from the end:
  /// `out_of_range` for one that is not there. `invalid_argument` for one that is given twice, the
  /// sum of a mirrored value, another number of components than replicas, no component with a
  /// value, a name that is no operator; `shape_mismatch`, `dtype_mismatch` name the component.
  tensor reduce(const reduction& op, const per_replica<tensor>& value,
                std::optional<std::vector<std::int64_t>> axis = {}) const;
  /// `reduce` along one axis.
  tensor reduce(const reduction& op, const per_replica<tensor>& value, std::int64_t axis) const;
  /// Reduces a value that is not distributed. Within one process a mean, minimum or maximum is the
  /// value itself, and so is what consists of zeros; a sum over several replicas throws
  /// `invalid_argument`. Over several workers the workers' values are reduced, and all of them call
  /// it.
  tensor reduce(const reduction& op, const tensor& value,
                std::optional<std::vector<std::int64_t>> axis = {}) const;
  template <class T>
  requires std::is_arithmetic_v<T> tensor reduce(const reduction& op, const per_replica<T>& value)
  const;
  template <class T>
  requires std::is_arithmetic_v<T> tensor reduce(const reduction& op, T value)
  const;
  /// Reduces each value of a nest for itself.
  template <class... Ts>
  auto reduce(const reduction& op, const std::tuple<per_replica<Ts>...>& nest) const {
    return std::apply([&](const auto&... each) { return std::tuple{reduce(op, each)...}; }, nest);
  }

  /// Concatenates the components along `axis`, in replica order. `axis` counts from 0; the
  /// components have one dtype and rank, and agree in all other extents (on a TPU in all). Over
  /// several workers all of them call it, and all get the whole. `invalid_argument` for scalars,
  /// and while no component has a value; `out_of_range` for an axis that is not there;
  /// `shape_mismatch`, `dtype_mismatch` name the component. A value that is not distributed is
  /// returned as it is.
  tensor gather(const per_replica<tensor>& value, std::int64_t axis) const;
  tensor gather(const tensor& value, std::int64_t axis) const;

  /// The components of this process's replicas, in replica order; of a nest one nest for each local
  /// replica. A value that is not distributed is the only element.
  template <class X>
  auto local_results(const X& x) const;

  /// Calls `f(value_context)` once for each local replica, in order, and returns the results as
  /// distributed values, also when they are equal. Throws `wrong_state` inside a replica.
  template <class F>
  auto distribute_values_from_function(F f) const;

  /// The steps from the committed one to `n`, without `n`, for a loop; see `step_range`.
  /// `invalid_argument` when `n` is negative.
  step_range steps(std::int64_t n) const;
  /// Number of committed steps; 0 at first. Any thread.
  std::int64_t committed_steps() const;
  /// Sets the step at which the next loop begins, for what restores a checkpoint.
  /// `invalid_argument` when `k` is negative.
  void set_committed_steps(std::int64_t k) const;

  /// The calls for authors of optimizers and layers; include strategy_extended.hpp.
  strategy_extended extended() const;

  /// The resolver that the strategy was given; null without one.
  std::shared_ptr<const class cluster_resolver> cluster_resolver() const;

  /// A text on what the replicas wait for now: "op 12 all_reduce sum f32[2] waits for {1}". Any
  /// thread, never waits.
  std::string status() const;

  const std::shared_ptr<detail::replica_engine>& state() const { return state_; }

protected:
  std::shared_ptr<detail::replica_engine> state_;
};

// --- the ambient strategy and context of the calling thread

/// The innermost scope's strategy, that of the running replica, the chosen one, or the default.
strategy get_strategy();
/// False where `get_strategy` is the default one.
bool has_strategy();
/// Whether calls that concern all replicas are made here: in a scope, a merge function, or with a
/// chosen strategy; not inside a replica's function, nor where nothing is active.
bool in_cross_replica_context();
/// The context of the running replica; null in cross-replica context. With nothing active: that of
/// the default strategy, id 0.
replica_context* get_replica_context();
/// The strategy whose cross-replica context is active; none in replica context.
std::optional<strategy> get_cross_replica_context();
/// Chooses the strategy for the rest of the calling thread; none: the default one again.
/// `wrong_state` inside a scope.
void experimental_set_strategy(std::optional<strategy> to);

inline troupe::strategy replica_context::strategy() const { return troupe::strategy{state_}; }

// --- the templates

template <class F, class... Args>
auto strategy::run(F f, Args... args) const {
  using R = detail::replica_result_t<F, Args...>;
  struct job {
    F f;
    std::tuple<Args...> args;
    std::vector<std::optional<std::conditional_t<std::is_void_v<R>, bool, R>>> results;
    std::vector<bool> empty_replicas;
    std::uint32_t live = 0;
    std::vector<std::shared_ptr<const detail::placed_input>> placed;
  };
  const auto n = num_local_replicas();
  std::vector<bool> empty_replicas(n);
  std::uint32_t live = 0;
  std::size_t empty_count = 0;
  for (std::size_t i = 0; i < n; ++i)
    if ((detail::is_empty_replica(args, i) || ...)) {
      empty_replicas[i] = true;
      ++empty_count;
    }
  std::vector<std::shared_ptr<const detail::placed_input>> placed;
  (detail::note_live(args, live), ...);
  (detail::note_placed(args, placed), ...);
  std::vector<bool> absent;
  if (empty_count > 0)
    absent = empty_replicas;
  if (empty_count == n)
    empty_replicas.assign(n, false); // nobody here whose calls they could make
  // Shared with the threads: one that hangs may outlive this call.
  auto shared = std::make_shared<job>(job{
    std::move(f), {std::move(args)...}, {}, std::move(empty_replicas), live, std::move(placed)});
  shared->results.resize(n);
  detail::run_replicas(state_, [shared](replica_context& ctx, std::uint32_t local) {
    ctx.set_live(shared->live);
    ctx.set_placed(shared->placed);
    if (shared->empty_replicas[local]) {
      ctx.follow_as_empty_replica(shared->empty_replicas);
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

template <class F>
auto strategy::distribute_values_from_function(F f) const {
  detail::require_cross_replica(*state_, "distribute_values_from_function");
  using R = std::decay_t<std::invoke_result_t<F&, const value_context&>>;
  std::vector<R> out;
  for (std::uint32_t i = 0; i < num_local_replicas(); ++i)
    out.push_back(f(detail::value_context_of(*state_, i)));
  return regroup(std::move(out));
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
