#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <troupe/strategies/replicas/run_steps.hpp>
#include <troupe/strategies/replicas/strategy.hpp>
#include <troupe/strategies/variables/distributed_variable.hpp>
#include <troupe/strategies/variables/scopes.hpp>
#include <troupe/transport/collective_group.hpp>

/// The calls of a strategy for authors of optimizers, metrics and layers.
namespace troupe {

/// A tensor with a copy on each of some devices. Copies share host memory; `device_context::put`
/// brings one to a GPU. A plain value.
class placed_tensor {
public:
  placed_tensor(tensor value, std::vector<std::string> devices)
    : value_{std::move(value)}, devices_{std::move(devices)} {}
  const tensor& value() const& { return value_; }
  tensor value() && { return std::move(value_); }
  operator const tensor&() const { return value_; }
  /// The devices, "cpu:1", in the order in which they were named.
  const std::vector<std::string>& devices() const& { return devices_; }
  std::vector<std::string> devices() && { return std::move(devices_); }
  /// Whether the copies are on more than one device.
  bool is_mirrored() const { return devices_.size() > 1; }
  /// The value as one equal component for each device.
  per_replica<tensor> mirrored() const {
    return per_replica<tensor>{std::vector<tensor>(devices_.size(), value_), true};
  }

private:
  tensor value_;
  std::vector<std::string> devices_;
};

/// The value that is reduced: a distributed one, or one that is the same everywhere.
class reduction_input {
public:
  reduction_input(tensor x) : value_{std::move(x)} {}
  reduction_input(per_replica<tensor> x) : value_{std::move(x)} {}
  reduction_input(const placed_tensor& x);
  template <class T>
  requires std::is_arithmetic_v<T> reduction_input(T x) : value_{tensor::scalar(x)} {}
  template <class T>
  requires std::is_arithmetic_v<T> reduction_input(const per_replica<T>& x)
    : value_{detail::as_scalars(x)} {}
  const std::variant<tensor, per_replica<tensor>>& value() const { return value_; }

private:
  std::variant<tensor, per_replica<tensor>> value_;
};

/// The devices that a result goes to: a device, or those of a value or variable. Never a list.
class destinations {
public:
  /// A device: "/cpu:0", "cpu:1"; open parts come from the device scope around.
  destinations(std::string_view device) : where_{std::string{device}} {}
  destinations(const char* device) : where_{std::string{device}} {}
  destinations(const std::string& device) : where_{device} {}
  /// The devices of the variable's copies; its value stays.
  destinations(const distributed_variable& variable) : where_{variable.devices()} {}
  destinations(const placed_tensor& at) : where_{at.devices()} {}
  /// Host memory.
  destinations(const tensor&) : where_{std::vector<std::string>{"cpu:0"}} {}
  /// The replicas' devices.
  template <class T>
  destinations(const per_replica<T>& value) : where_{value.size()} {}
  const std::variant<std::string, std::vector<std::string>, std::size_t>& where() const {
    return where_;
  }

private:
  std::variant<std::string, std::vector<std::string>, std::size_t> where_;
};

/// The component for which the running update function was called; none outside one.
std::optional<std::uint32_t> get_update_replica_id();

/// Variables made inside are placed as another one is: same strategy, same devices.
class colocate_scope : public context_scope {
public:
  /// The constructor for `colocate_vars_with`.
  colocate_scope(const detail::replica_engine& in, const distributed_variable& with);
};

/// Variables made inside are on logical device `index` of their replica.
class logical_device_scope : public context_scope {
public:
  /// The constructor for `experimental_logical_device`.
  logical_device_scope(const detail::replica_engine& in, std::uint32_t index);
};

namespace detail {

/// Calls `body` in update context of each copy of `v`, in order, on its device.
void update_each(const std::shared_ptr<replica_engine>& in, const distributed_variable& v,
                 bool unmirrored, const std::function<void(std::size_t)>& body);
void update_each_device(const std::shared_ptr<replica_engine>& in,
                        const std::vector<std::string>& devices,
                        const std::function<void(std::size_t)>& body);

/// Whether a nest holds a distributed value whose components may differ.
template <class X>
struct unmirrored {
  static bool in(const X&) { return false; }
};
template <class X>
bool has_unmirrored(const X& x) {
  return unmirrored<X>::in(x);
}
template <class X>
bool any_unmirrored(const X& xs) {
  return std::any_of(std::begin(xs), std::end(xs),
                     [](const auto& each) { return has_unmirrored(each); });
}
template <class T>
struct unmirrored<per_replica<T>> {
  static bool in(const per_replica<T>& x) { return !x.is_mirrored(); }
};
template <class T>
struct unmirrored<std::vector<T>> {
  static bool in(const std::vector<T>& xs) { return any_unmirrored(xs); }
};
template <class T, std::size_t N>
struct unmirrored<std::array<T, N>> {
  static bool in(const std::array<T, N>& xs) { return any_unmirrored(xs); }
};
template <class K, class T>
struct unmirrored<std::map<K, T>> {
  static bool in(const std::map<K, T>& xs) { return any_unmirrored(xs); }
};
template <class A, class B>
struct unmirrored<std::pair<A, B>> {
  static bool in(const std::pair<A, B>& x) {
    return has_unmirrored(x.first) || has_unmirrored(x.second);
  }
};
template <class... Ts>
struct unmirrored<std::tuple<Ts...>> {
  static bool in(const std::tuple<Ts...>& x) {
    return std::apply([](const Ts&... each) { return (has_unmirrored(each) || ... || false); }, x);
  }
};

/// The result of an update function, where a variable stands for its copy.
template <class X>
auto update_leaf(X&& x) {
  if constexpr (std::is_same_v<std::decay_t<X>, distributed_variable>)
    return x.read();
  else
    return std::decay_t<X>(std::forward<X>(x));
}

template <class Raw>
struct update_leaf_of {
  using type = decltype(update_leaf(std::declval<std::decay_t<Raw>>()));
};
template <>
struct update_leaf_of<void> {
  using type = void;
};
template <class F, class... Xs>
using update_result_t = typename update_leaf_of<std::invoke_result_t<F&, Xs...>>::type;

/// Numbers that are equal on all replicas count as the same number.
template <class X>
X mirrored_if_equal(const X& x) {
  return x;
}
template <class T>
requires std::is_arithmetic_v<T> per_replica<T> mirrored_if_equal(const per_replica<T>& x) {
  bool same = true;
  for (const auto& each : x)
    same = same && each == x[0];
  return per_replica<T>{x.local_results(), same};
}

} // namespace detail

/// `select_replica` of a nest whose distributed values are all mirrored; `invalid_argument` when
/// the components of one may differ.
template <class X>
detail::selected_t<X> select_replica_mirrored(std::size_t i, const X& x) {
  if (detail::has_unmirrored(x))
    throw_failure(errc::invalid_argument,
                  "select_replica_mirrored: a value of the structure is not mirrored: its "
                  "components may differ, so component "
                    + std::to_string(i) + " does not represent all");
  return select_replica(i, x);
}

/// The wider API of a strategy. A handle; called in cross-replica context, or outside any.
class strategy_extended {
public:
  /// The constructor for `strategy::extended`.
  explicit strategy_extended(std::shared_ptr<detail::replica_engine> state)
    : state_{std::move(state)} {}

  /// Reduces over replicas and puts a copy on each destination. A mean of a mirrored or
  /// undistributed value is that value; an undistributed host tensor is reduced over the workers
  /// where there are several. `invalid_argument` for a sum of a mirrored or undistributed value
  /// over several replicas of one process; `device_unavailable` for a device that is not there;
  /// reductions throw as `strategy::reduce`.
  placed_tensor reduce_to(const reduction& op, const reduction_input& value,
                          const destinations& to) const;
  /// `reduce_to` of each pair, in order, all checked before any is reduced. Values of any dtypes
  /// and destinations may stand in one call.
  std::vector<placed_tensor> batch_reduce_to(
    const reduction& op, const std::vector<std::pair<reduction_input, destinations>>& pairs) const;
  /// Puts a copy of `x` on each destination. `invalid_argument` for the default strategy;
  /// `device_unavailable` for a device that is not there.
  placed_tensor broadcast_to(const tensor& x, const destinations& to) const;

  /// Calls `f(v, args...)` once for each copy of `v`, in its update context: there `v` means that
  /// copy, and distributed values in `args` its component. The results are one mirrored value; a
  /// variable that `f` returns stands for its value. With central storage there is one copy, and
  /// distributed arguments give their first component. A TPU strategy refuses arguments that are
  /// not mirrored with `invalid_argument`, for variables with an aggregation.
  template <class F, class... Args>
  auto update(const distributed_variable& v, F f, const Args&... args) const {
    using R = detail::update_result_t<F, const distributed_variable&, detail::selected_t<Args>...>;
    if constexpr (std::is_void_v<R>)
      update_ungrouped(v, std::move(f), args...);
    else
      return per_replica<R>{update_ungrouped(v, std::move(f), args...), true};
  }
  /// `update` with the results one by one: they need not be equal.
  template <class F, class... Args>
  auto update_ungrouped(const distributed_variable& v, F f, const Args&... args) const {
    using R = detail::update_result_t<F, const distributed_variable&, detail::selected_t<Args>...>;
    const bool unmirrored = (detail::has_unmirrored(args) || ... || false);
    auto call = [&]([[maybe_unused]] std::size_t i) { // a value: what it refers to may be gone
      return f(v, select_replica(i, args)...);
    };
    if constexpr (std::is_void_v<R>) {
      detail::update_each(state_, v, unmirrored, call);
    } else {
      std::vector<R> out;
      detail::update_each(state_, v, unmirrored,
                          [&](std::size_t i) { out.push_back(detail::update_leaf(call(i))); });
      return out;
    }
  }
  /// The devices for something that belongs to several variables: those of their copies; with
  /// central storage the parameter device.
  std::vector<std::string> non_slot_devices(const distributed_variables& of) const;
  /// Calls `f(args...)` once on each device, in order.
  template <class F, class... Args>
  auto update_non_slot(const std::vector<std::string>& devices, F f, const Args&... args) const {
    using R = detail::update_result_t<F, detail::selected_t<Args>...>;
    auto call = [&]([[maybe_unused]] std::size_t i) { return f(select_replica(i, args)...); };
    if constexpr (std::is_void_v<R>) {
      detail::update_each_device(state_, devices, call);
    } else {
      std::vector<R> out;
      detail::update_each_device(
        state_, devices, [&](std::size_t i) { out.push_back(detail::update_leaf(call(i))); });
      return per_replica<R>{std::move(out), true};
    }
  }

  /// A scope in which variables are placed as `v` is. In the strategy's scope only, else
  /// `wrong_state`; `invalid_argument` for a variable of another strategy.
  colocate_scope colocate_vars_with(const distributed_variable& v) const { return {*state_, v}; }
  /// A scope in which variables are on logical device `index` of their replica. `invalid_argument`
  /// past the replica's devices.
  logical_device_scope experimental_logical_device(std::uint32_t index) const {
    return {*state_, index};
  }

  /// The devices of this process's replicas, in order. `wrong_state` for the default strategy.
  std::vector<std::string> worker_devices() const;
  /// The devices that variables live on: the replicas' devices, with central storage the parameter
  /// device. `wrong_state` for the default strategy.
  std::vector<std::string> parameter_devices() const;
  /// Whether `v` was made by this strategy.
  bool variable_created_in_scope(const distributed_variable& v) const;
  /// The value of `v` in cross-replica context, also inside an update function: of an `on_read`
  /// variable the sum, mean or first of its copies, else the first copy.
  tensor read_var(const distributed_variable& v) const;
  /// The variable that `x` is a copy of, or `x`: copies are reached through their variable only, so
  /// that is `x` itself.
  template <class X>
  const X& value_container(const X& x) const {
    return x;
  }

  /// Whether shapes must not change between steps: true for a TPU strategy.
  bool experimental_require_static_shapes() const;
  /// Whether several processes run the program, as under multi-worker and parameter server
  /// strategies.
  bool experimental_between_graph() const;
  /// Whether this process writes checkpoints, and summaries: over several workers the first alone.
  bool should_checkpoint() const;
  bool should_save_summary() const { return should_checkpoint(); }
  /// Number of workers.
  std::uint32_t num_hosts() const;
  /// Number of replicas of each worker.
  std::uint32_t num_replicas_per_host() const;

  /// Calls `f(step_context&, next())` `iterations` times, in cross-replica context. What `next` or
  /// `f` throws ends the loop; an empty optional from `next` throws `end_of_data`.
  template <class F, class Next>
  step_context run_steps_on_iterator(F f, Next&& next, std::uint64_t iterations) const {
    detail::require_cross_replica(*state_, "run_steps_on_iterator");
    detail::cross_replica_here here{state_};
    step_context ctx;
    for (std::uint64_t i = 0; i < iterations; ++i)
      detail::run_one_step(f, ctx, next(), i, iterations);
    return ctx;
  }

private:
  const std::shared_ptr<detail::replica_engine> state_;
};

template <class F, class... Args>
auto replica_context::update(const distributed_variable& v, F f, Args... args) {
  return merge_call(
    [v, f = std::move(f)](troupe::strategy& in, const auto&... all) {
      const auto with = in.extended();
      using R = decltype(with.update(v, f, detail::mirrored_if_equal(all)...));
      if constexpr (std::is_void_v<R>) {
        with.update(v, f, detail::mirrored_if_equal(all)...);
      } else {
        auto each = with.update(v, f, detail::mirrored_if_equal(all)...).local_results();
        each.resize(in.num_local_replicas(), each.front()); // one copy, for all
        return R{std::move(each), true};
      }
    },
    std::move(args)...);
}

} // namespace troupe
