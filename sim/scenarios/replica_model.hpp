#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <troupe/troupe.hpp>

#include <troupe/sim/draws.hpp>

/// The work of replicas of a synchronous strategy in the simulator, and its expected results:
/// variables of every kind that each step changes, and calls that are drawn for each step. All
/// numbers are so small that sums are exact in any order, and functions of (draws, replicas, step),
/// so that whoever looks knows what must be there.
namespace troupe::sim {

/// The values that a program's variables must hold after so many steps.
class replica_audit {
public:
  static constexpr std::int64_t width = 13; ///< of the variables with an optimizer
  replica_audit(draw_stream draws, std::uint32_t replicas) : draws_{draws}, replicas_{replicas} {}

  std::uint32_t replicas() const { return replicas_; }
  /// The gradient of that replica at that step.
  tensor gradient(std::int64_t step, std::uint32_t replica) const;
  std::int64_t total(std::int64_t steps) const { return steps * replicas_; }
  double mean(std::int64_t steps) const;
  std::int64_t first(std::int64_t steps) const { return steps == 0 ? 0 : (steps - 1) * 100; }
  std::int64_t seen(std::int64_t steps) const;
  /// The variable that is updated by plain descent.
  tensor light(std::int64_t steps) const { return after(steps).light; }
  /// The variable that is updated with momentum.
  tensor heavy(std::int64_t steps) const { return after(steps).heavy; }

private:
  struct state {
    tensor light{};
    tensor heavy{};
    tensor velocity{};
  };
  const state& after(std::int64_t steps) const;
  state next(const state& before, std::int64_t step) const;
  tensor summed(std::int64_t step) const;
  draw_stream draws_;
  std::uint32_t replicas_;
  mutable std::vector<state> states_{}; ///< by steps, as far as somebody has asked
};

/// A program's variables. Handles.
struct replica_variables {
  distributed_variable total{}; ///< i64, summed on write
  distributed_variable mean{};  ///< f64, averaged on write
  distributed_variable first{}; ///< i64, the first replica's
  distributed_variable seen{};  ///< i64, summed on read
  distributed_variable light{}; ///< f32, by `sgd`
  distributed_variable heavy{}; ///< f32, by `momentum`

  /// Makes the variables, in a strategy's scope.
  static replica_variables make();
  distributed_variables all() const { return {total, mean, first, seen, light, heavy}; }
  /// Back to the values that they began with; the slots of `heavy` stay, which is why a program
  /// that has nothing to restore makes its strategy anew. What differs from `want` after `steps`
  /// steps, empty: nothing. In cross-replica context; all workers call it.
  std::string compare(const replica_audit& want, std::int64_t steps) const;
};

/// The outcome of a replica's part of a step: expected and actual results, as text where they
/// differ.
struct replica_outcome {
  std::uint64_t got = 0; ///< over all results, and this replica's copies
  std::uint64_t wanted = 0;
  std::string difference{};
};

/// The changes of all variables, between calls drawn of `step` alone: `draws` is the same on all
/// replicas.
replica_outcome replica_step(replica_context& ctx, const replica_variables& variables,
                             const replica_audit& want, const draw_stream& draws,
                             std::int64_t step);

} // namespace troupe::sim
