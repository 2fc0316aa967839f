#pragma once

#include <string>
#include <vector>

#include <troupe/strategies/replicas/strategy.hpp>
#include <troupe/strategies/runtime/runtime.hpp>

/// The strategies of one process.
namespace troupe {

struct replica_options {
  /// How long a collective call waits for replicas that do not come.
  duration collective_timeout = limits::replica_call;
  /// Once a replica has failed, the others' functions may go on for so long; then their lanes are
  /// left behind, four at most.
  std::uint64_t grace_ms = 10'000;
};

/// All on one device; results are not wrapped (rows SYNC-ONE).
class one_device_strategy : public strategy {
public:
  /// `device`: "cpu:0", "/cpu:0" or its name in full. `device_unavailable` says what there is.
  one_device_strategy(runtime& rt, const std::string& device, replica_options options = {});

  /// What `f` returns, bare.
  template <class F, class... Args>
  auto run(F f, Args... args) const {
    using R = detail::replica_result_t<F, Args...>;
    if constexpr (std::is_void_v<R>)
      strategy::run(std::move(f), std::move(args)...);
    else
      return strategy::run(std::move(f), std::move(args)...)[0];
  }

  /// What `f` returns, bare (row SYNC-VFF-5).
  template <class F>
  auto distribute_values_from_function(F f) const {
    return select_replica(0, strategy::distribute_values_from_function(std::move(f)));
  }
};

/// One replica on each of some devices of this process; variables have a copy with each (rows
/// SYNC-MIR).
class mirrored_strategy : public strategy {
public:
  /// Without `devices`: all GPUs, else `cpu:0` alone. `invalid_argument` for duplicates and an
  /// empty list; `device_unavailable` for a device that this process does not have.
  explicit mirrored_strategy(runtime& rt, std::optional<std::vector<std::string>> devices = {},
                             replica_options options = {});
};

/// One replica on each compute device; variables exist once, on the parameter device (rows
/// SYNC-CEN).
class central_storage_strategy : public strategy {
public:
  /// Without `devices`: all GPUs, else `cpu:0`. The parameter device: the only compute device if
  /// there is one, else `cpu:0`.
  explicit central_storage_strategy(runtime& rt,
                                    std::optional<std::vector<std::string>> devices = {},
                                    std::optional<std::string> parameter_device = {},
                                    replica_options options = {});
};

} // namespace troupe
