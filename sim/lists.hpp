#pragma once

#include <span>
#include <string_view>

namespace troupe::sim {

/// A name and one line on what it means.
struct list_line {
  std::string_view id{};
  std::string_view text{};
};

/// The rules that runs are held to, by id: those of checkers, of scenarios and of how a run ends.
/// "signal N" and "exit N" stand for any number.
std::span<const list_line> known_invariants();
/// The coverage marks of production code, by id.
std::span<const list_line> known_marks();

} // namespace troupe::sim
