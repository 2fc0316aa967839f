#pragma once

#include <cstdint>

#include <troupe/core/fields.hpp>
#include <troupe/sim/fault_plan.hpp>
#include <troupe/strategies/parameter_server/worker_context.hpp>

namespace troupe::sim {

/// An argument of a scenario's steps that makes some attempts misbehave. What an attempt does is a
/// function of (seed, closure, attempt): the same in a replay, and no other attempt's draw moves
/// it.
struct step_dice {
  std::uint64_t seed = 0;
  std::uint32_t throws = 0, hangs = 0, kills = 0, slows = 0; ///< of 1,000 attempts
  TROUPE_FIELDS(step_dice, seed, throws, hangs, kills, slows)

  static step_dice of(std::uint64_t seed, const step_trouble& trouble) {
    return {seed, trouble.throws, trouble.hangs, trouble.kills, trouble.slows};
  }
  enum class fate : std::uint8_t { well = 0, throws = 1, hangs = 2, kills = 3, slow = 4 };
  /// The fate of that attempt.
  fate of_attempt(const closure_id& closure, attempt_no attempt) const;
  /// 64 bits of that attempt's own, for what else a step has to choose.
  std::uint64_t draw(const closure_id& closure, attempt_no attempt, std::uint64_t purpose) const;
  /// Carries out the fate of the running attempt: throws `std::runtime_error`, never comes back
  /// (hangs: computes for ten virtual hours; kills: the process leaves), computes for up to 2 s, or
  /// just returns.
  void roll(worker_context& ctx) const;
};

} // namespace troupe::sim
