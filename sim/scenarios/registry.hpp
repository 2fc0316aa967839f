#pragma once

#include <span>
#include <string_view>

#include <troupe/sim/scenario.hpp>

namespace troupe::sim {

/// All scenarios of the registry, in name order.
std::span<const scenario* const> all_scenarios();
/// The scenario of that name; null when there is none.
const scenario* find_scenario(std::string_view name);
/// The scenario of that name; throws `unknown_name` when there is none.
const scenario& get_scenario(std::string_view name);

/// Runs `spec.scenario`. @pre the scenario of that name exists.
run_result run_scenario(const run_spec& spec, const run_settings& settings = {});
/// The command that shows a run again: `build/troupe-sim run NAME --seed N --trace`.
std::string replay_command(std::string_view name, std::uint64_t seed);
/// `why_failed` of the scenario of that name, with the command by which `troupe-sim` replays it.
std::string why_failed(std::string_view name, std::uint64_t seed);
/// Runs that seed.
run_result run_scenario(std::string_view name, std::uint64_t seed,
                        const run_settings& settings = {});

} // namespace troupe::sim
