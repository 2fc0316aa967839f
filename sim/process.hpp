#pragma once

#include <cstdint>
#include <functional>

#include <troupe/sim/names.hpp>
#include <troupe/strategies/runtime/runtime.hpp>

namespace troupe::sim {

/// A process of the simulated cluster, for its program. Programs run on a fiber: they may use
/// everything that blocks in Troupe, and nothing that blocks outside of it.
class process {
public:
  virtual ~process() = default;
  virtual node_name name() const = 0;
  /// Number of this process on its machine, from 1.
  virtual std::uint32_t start() const = 0;
  /// The options that make a `runtime` this process: task, addresses, counts, the scenario's own
  /// settings.
  virtual const runtime_options& options() const = 0;
  virtual runtime_host host() = 0;
  virtual const environment& env() = 0;
  /// Sets the exit code of the program; 0 unless set.
  virtual void set_exit_code(int code) = 0;
};

using program = std::function<void(process&)>;

/// The program of workers and servers: runs the production runtime until the cluster ends, and sets
/// the exit code. Throws as the constructor of `runtime`.
void serve(process& p);

} // namespace troupe::sim
