#include <troupe/sim/scenarios/registry.hpp>

#include <algorithm>
#include <array>

#include <troupe/core/error.hpp>
#include <troupe/sim/scenarios/table.hpp>

namespace troupe::sim {

std::span<const scenario* const> all_scenarios() {
  static constexpr std::array all{&bad_links,
                                  &checkpoints,
                                  &clocks_only,
                                  &coordinator_lost,
                                  &coordinator_restart,
                                  &creations,
                                  &datasets,
                                  &devices,
                                  &equal_workers,
                                  &equal_workers_calm,
                                  &everything,
                                  &failing_steps,
                                  &groups,
                                  &groups_calm,
                                  &hostile_steps,
                                  &inputs_and_priorities,
                                  &large_values,
                                  &late_saves,
                                  &many_lanes,
                                  &partitions,
                                  &pauses,
                                  &replicas,
                                  &replicas_calm,
                                  &server_lost,
                                  &server_missing,
                                  &server_restart,
                                  &server_silent,
                                  &slow_machines,
                                  &tables,
                                  &tight_queue,
                                  &witness_calm,
                                  &worker_storm,
                                  &workers_lost};
  return all;
}

const scenario* find_scenario(std::string_view name) {
  auto all = all_scenarios();
  auto at = std::ranges::find(all, name, &scenario::name);
  return at == all.end() ? nullptr : *at;
}

const scenario& get_scenario(std::string_view name) {
  const auto* found = find_scenario(name);
  if (!found)
    throw_failure(errc::unknown_name, "unknown scenario '" + std::string{name} + "'");
  return *found;
}

std::string replay_command(std::string_view name, std::uint64_t seed) {
  return "build/troupe-sim run " + std::string{name} + " --seed " + std::to_string(seed)
         + " --trace";
}

std::string why_failed(std::string_view name, std::uint64_t seed) {
  auto out = run_scenario(name, seed);
  if (out.ok())
    return {};
  return std::string{name} + " seed " + std::to_string(seed) + ": " + out.text()
         + "\nreplay: " + replay_command(name, seed);
}

run_result run_scenario(const run_spec& spec, const run_settings& settings) {
  return run_scenario(get_scenario(spec.scenario), spec, settings);
}

run_result run_scenario(std::string_view name, std::uint64_t seed, const run_settings& settings) {
  const auto& s = get_scenario(name);
  return run_scenario(s, draw_spec(s, seed), settings);
}

} // namespace troupe::sim
