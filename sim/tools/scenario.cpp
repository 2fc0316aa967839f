#include "scenario.hpp"

#include <algorithm>

namespace troupe::sim {

namespace {

std::vector<scenario>& all() {
  static std::vector<scenario> list;
  return list;
}

} // namespace

const std::vector<scenario>& scenarios() { return all(); }

const scenario* find_scenario(const std::string& name) {
  for (const auto& s : all())
    if (s.name == name)
      return &s;
  return nullptr;
}

scenario_registration::scenario_registration(std::string name, std::string about,
                                             scenario_body body) {
  all().push_back({std::move(name), std::move(about), std::move(body)});
  std::sort(all().begin(), all().end(), [](auto& a, auto& b) { return a.name < b.name; });
}

} // namespace troupe::sim
