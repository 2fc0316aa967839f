#pragma once

#include <functional>
#include <string>
#include <vector>

#include <troupe/sim/world.hpp>

/// What `troupe-sim` runs: named clusters with their programs, faults and checks.
namespace troupe::sim {

/// One run of a scenario: sets the world up, runs it, checks what came out.
using scenario_body = std::function<report(world& w)>;

struct scenario {
  std::string name{};
  std::string about{};
  scenario_body body{};
};

/// In the order of names.
const std::vector<scenario>& scenarios();
/// Null when there is none of that name.
const scenario* find_scenario(const std::string& name);

/// In a source file, at namespace scope.
struct scenario_registration {
  scenario_registration(std::string name, std::string about, scenario_body body);
};

} // namespace troupe::sim
