#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include <troupe/strategies/fwd.hpp>
#include <troupe/strategies/optimizer.hpp>
#include <troupe/strategies/partitioner.hpp>
#include <troupe/strategies/placement.hpp>
#include <troupe/strategies/variable.hpp>

namespace troupe {

struct parameter_server_options {
  /// How variables are cut along axis 0; none: not at all.
  troupe::partitioner partitioner{};
  /// Which server the next shard goes to.
  troupe::placement placement = troupe::placement::round_robin;
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
class parameter_server_strategy {
public:
  /// Throws `bad_config` for a runtime that is not a coordinator's.
  explicit parameter_server_strategy(runtime& rt, parameter_server_options options = {});

  /// Runs `f` with this strategy as the ambient one: `create_variable` in it makes variables on the
  /// servers.
  template <class F>
  std::invoke_result_t<F> scope(F&& f) {
    scope_guard guard{*this};
    return std::forward<F>(f)();
  }

  /// Throws `mismatch` for a name that is taken, `invalid_argument` and `shape_mismatch` naming the
  /// field.
  variable create_variable(variable_options options);
  /// All variables made so far, in order.
  variable_list variables() const;
  /// Replicas that a step of this strategy runs on at once: 1 (row PS-A16).
  std::size_t num_replicas_in_sync() const { return 1; }
  const std::shared_ptr<detail::strategy_state>& state() const { return state_; }

private:
  class scope_guard {
  public:
    explicit scope_guard(parameter_server_strategy& s);
    ~scope_guard();
    scope_guard(const scope_guard&) = delete;

  private:
    void* before_;
  };
  std::shared_ptr<detail::strategy_state> state_;
};

/// Makes a variable with the ambient strategy. Throws `wrong_state` outside a scope, and inside a
/// dataset function (row PS-L3).
variable create_variable(variable_options options);

} // namespace troupe
