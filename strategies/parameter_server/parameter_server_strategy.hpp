#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include <troupe/strategies/cluster/cluster_resolver.hpp>
#include <troupe/strategies/optimizer/optimizer.hpp>
#include <troupe/strategies/parameter_server/variable.hpp>
#include <troupe/strategies/replicas/strategy.hpp>
#include <troupe/strategies/runtime/fwd.hpp>
#include <troupe/strategies/sharding/partitioner.hpp>
#include <troupe/strategies/sharding/placement.hpp>

namespace troupe {

struct parameter_server_options {
  /// How variables are cut along axis 0; none: not at all.
  troupe::partitioner partitioner{};
  /// Which server the next shard goes to.
  troupe::placement placement = troupe::placement::round_robin;
  /// Where the cluster was read from, for who asks the strategy.
  std::shared_ptr<const cluster_resolver> resolver{};
};

/// Values of rows [row_begin, row_begin + shape[0]) of a variable, called once a shard (row
/// PS-H11).
using shard_initializer = std::function<tensor(const shape_t& shape, std::int64_t row_begin)>;

/// What to make. `initial` is a rule that the servers follow, a whole value, or a function called
/// here once a shard.
struct variable_options {
  std::string name{}; ///< empty: "variable_N"
  shape_t shape{};    ///< may be empty when `initial` is a tensor
  troupe::dtype type = dtype::f32;
  std::variant<initializer_spec, tensor, shard_initializer> initial{initializer_spec{}};
  troupe::optimizer optimizer{};
  /// Put on that variable's server, never cut (row PS-V5).
  variable colocate_with{};
};

namespace detail {
class strategy_state;
}

/// Variables on parameter servers, updates as they come: the strategy of `cluster_coordinator`. A
/// handle; copies share one strategy. The coordinator's program only.
///
/// As a `strategy` it has one replica, here: inside its `scope` the ambient functions tell of it,
/// `create_variable` makes variables on the servers, and scopes of other strategies are refused
/// (row SYNC-CTX-9). What runs on workers goes through the coordinator.
class parameter_server_strategy : public strategy {
public:
  /// Throws `bad_config` for a runtime that is not a coordinator's.
  explicit parameter_server_strategy(runtime& rt, parameter_server_options options = {});

  /// Runs `f` in this process, on the one replica; its result is bare. The trace says that it runs
  /// outside a closure (rows PS-N1, PS-N2).
  template <class F, class... Args>
  auto run(F f, Args... args) const {
    note_outside("run");
    using R = detail::replica_result_t<F, Args...>;
    if constexpr (std::is_void_v<R>)
      strategy::run(std::move(f), std::move(args)...);
    else
      return strategy::run(std::move(f), std::move(args)...)[0];
  }
  /// As `strategy::reduce`.
  template <class Op, class X, class... Axis>
  tensor reduce(const Op& op, const X& value, const Axis&... axis) const {
    note_outside("reduce");
    return strategy::reduce(op, value, axis...);
  }
  template <class Op, class X>
  tensor reduce(const Op& op, const X& value, std::initializer_list<std::int64_t> axis) const {
    return reduce(op, value, std::vector<std::int64_t>{axis});
  }

  /// Throws `mismatch` for a name that is taken, `invalid_argument` and `shape_mismatch` naming the
  /// field.
  variable create_variable(variable_options options);
  /// All variables made so far, in order.
  variable_list variables() const;
  /// For the coordinator.
  const std::shared_ptr<detail::strategy_state>& servers() const { return servers_; }

private:
  void note_outside(const char* what) const;
  std::shared_ptr<detail::strategy_state> servers_;
};

/// Makes a variable with the ambient strategy. Throws `wrong_state` outside a parameter server
/// strategy's scope, and inside a dataset function (row PS-L3).
variable create_variable(variable_options options);

} // namespace troupe
