#pragma once

#include <cstdint>
#include <functional>

#include <troupe/sim/names.hpp>
#include <troupe/strategies/runtime/runtime.hpp>

namespace troupe::sim {

/// One process of the simulated cluster, as its program sees it. Programs run on a fiber: they may
/// use everything that blocks in Troupe, and nothing that blocks outside of it.
class process {
public:
  virtual ~process() = default;
  virtual node_name name() const = 0;
  /// Which process of its machine this is, from 1.
  virtual std::uint32_t start() const = 0;
  /// What `runtime` needs to be this process: task, addresses, counts, the scenario's own settings.
  virtual const runtime_options& options() const = 0;
  virtual runtime_host host() = 0;
  virtual const environment& env() = 0;
  /// The program's result; 0 unless it says otherwise.
  virtual void set_exit_code(int code) = 0;
};

using program = std::function<void(process&)>;

/// What workers and servers run: the production runtime until the cluster ends.
void serve(process& p);

} // namespace troupe::sim
