#pragma once

#include <string>
#include <vector>

#include <troupe/strategies/replicas/strategy.hpp>
#include <troupe/strategies/runtime/runtime.hpp>

/// The strategies of one process.
namespace troupe {

/// How long replicas wait for each other.
struct replica_options {
  /// How long a collective call waits for replicas that do not come.
  duration collective_timeout = limits::replica_call;
  /// Time that the others' functions have to end once a replica has failed; then their threads are
  /// left behind, four at most.
  std::uint64_t grace_ms = 10'000;
};

/// One replica on one device, with variables there; results are not wrapped.
class one_device_strategy : public strategy {
public:
  /// `device`: "cpu:0", "/cpu:0" or its name in full. `device_unavailable` names the devices of
  /// this process; `invalid_argument` for a text that is no device name.
  one_device_strategy(runtime& rt, const std::string& device, replica_options options = {});

  /// Calls `f` on the replica and returns its result, not wrapped.
  template <class F, class... Args>
  auto run(F f, Args... args) const {
    using R = detail::replica_result_t<F, Args...>;
    if constexpr (std::is_void_v<R>)
      strategy::run(std::move(f), std::move(args)...);
    else
      return strategy::run(std::move(f), std::move(args)...)[0];
  }

  /// Calls `f(value_context)` once and returns its result, not wrapped.
  template <class F>
  auto distribute_values_from_function(F f) const {
    return select_replica(0, strategy::distribute_values_from_function(std::move(f)));
  }
};

/// One replica on each of some devices of this process; variables have a copy on each.
class mirrored_strategy : public strategy {
public:
  /// Without `devices`: all GPUs, else `cpu:0` alone. `invalid_argument` for duplicates and an
  /// empty list; `device_unavailable` for a device that this process does not have.
  explicit mirrored_strategy(runtime& rt, std::optional<std::vector<std::string>> devices = {},
                             replica_options options = {});
};

/// One replica on each compute device; variables exist once, on the parameter device. In a replica
/// an assignment needs an aggregation; the result is assigned once.
class central_storage_strategy : public strategy {
public:
  /// Without `devices`: all GPUs, else `cpu:0`. Default parameter device: the only compute device
  /// if there is exactly one, else `cpu:0`. `invalid_argument` for duplicates and an empty list;
  /// `device_unavailable` for a device that this process does not have.
  explicit central_storage_strategy(runtime& rt,
                                    std::optional<std::vector<std::string>> devices = {},
                                    std::optional<std::string> parameter_device = {},
                                    replica_options options = {});
};

} // namespace troupe
