#pragma once

#include <string>
#include <vector>

#include <troupe/sim/fault_plan.hpp>

namespace troupe::sim {

/// Keeps a plan inside what the product promises. for a scenario's profile.
///
/// - any workers may die, be cut or stopped; at least one is in the core, whole;
/// - a server or coordinator crashes only where the profile says so (the liveness phase starts it
///   again at the latest), and one that must not be silent is not paused or cut for longer than
///   `silence_forgiven`, nor twice in a row;
/// - storage faults hit the machine that writes checkpoints (the liveness phase clears what is left
///   of them);
/// - clocks stay within 10 s and 200 ppm.
class fault_guard {
public:
  /// Silence that can't be taken for death.
  static constexpr duration silence_forgiven = std::chrono::milliseconds{600};

  fault_guard(const fault_profile& profile, const cluster_shape& shape)
    : profile_{profile}, shape_{shape} {}

  /// The reason why `what` must not stand in a plan; empty: it may.
  std::string complaint(const fault& what) const;
  /// The plan without what must not be, with lengths cut to what may, sorted by time.
  fault_plan keep(fault_plan plan) const;
  /// Complaints about the whole plan; empty: none.
  std::vector<std::string> complaints(const fault_plan& plan) const;

private:
  bool may_be_silent(const node_name& n) const;
  bool exists(const node_name& n) const;
  void shorten(fault& what) const;
  std::size_t too_close(const fault_plan& plan) const;
  const fault_profile& profile_;
  cluster_shape shape_;
};

} // namespace troupe::sim
