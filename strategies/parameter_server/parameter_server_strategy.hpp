#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <troupe/strategies/parameter_server/variable.hpp>
#include <troupe/strategies/parameter_server/variable_options.hpp>
#include <troupe/strategies/replicas/strategy.hpp>
#include <troupe/strategies/runtime/fwd.hpp>

namespace troupe {

namespace detail {
class parameter_server_strategy_state;
}

/// Variables on parameter servers, updates as they come: the strategy of `cluster_coordinator`. A
/// handle; copies share one strategy. The coordinator's program only.
///
/// As a `strategy` it has one replica, here: inside its `scope` the ambient functions tell of it
/// and `create_variable` makes variables on the servers. Entering its scope while another strategy
/// is active throws `wrong_state`. What runs on workers goes through the coordinator.
class parameter_server_strategy : public strategy {
public:
  /// Throws `bad_config` for a runtime that is not a coordinator's.
  explicit parameter_server_strategy(runtime& rt, parameter_server_options options = {});

  /// Runs `f` in this process, on the one replica, and returns its result, not wrapped. The trace
  /// notes a call outside a closure; it is no error.
  template <class F, class... Args>
  auto run(F f, Args... args) const {
    note_outside("run");
    using R = detail::replica_result_t<F, Args...>;
    if constexpr (std::is_void_v<R>)
      strategy::run(std::move(f), std::move(args)...);
    else
      return strategy::run(std::move(f), std::move(args)...)[0];
  }
  /// Reduces over the one replica: see `strategy::reduce`. The trace notes a call outside a
  /// closure.
  template <class Op, class X, class... Axis>
  tensor reduce(const Op& op, const X& value, const Axis&... axis) const {
    note_outside("reduce");
    return strategy::reduce(op, value, axis...);
  }
  template <class Op, class X>
  tensor reduce(const Op& op, const X& value, std::initializer_list<std::int64_t> axis) const {
    return reduce(op, value, std::vector<std::int64_t>{axis});
  }

  /// Makes a variable on the servers and waits until they have it. Throws `mismatch` for a name
  /// that is taken; `invalid_argument` naming the field and the value (initializer, optimizer,
  /// shape, partitioner); `shape_mismatch` when `shape` or an initializer's value does not fit;
  /// `wrong_state` inside a step or a dataset function; `unavailable` naming a server.
  variable create_variable(variable_options options);
  /// All variables made so far, in order.
  variable_list variables() const;
  /// The state that the strategy's handles share, for the coordinator.
  const std::shared_ptr<detail::parameter_server_strategy_state>& servers() const {
    return servers_;
  }

private:
  void note_outside(const char* what) const;
  std::shared_ptr<detail::parameter_server_strategy_state> servers_;
};

/// Makes a variable with the ambient strategy. Throws `wrong_state` outside a parameter server
/// strategy's scope, and inside a dataset function or step; else as
/// `parameter_server_strategy::create_variable`.
variable create_variable(variable_options options);

} // namespace troupe
