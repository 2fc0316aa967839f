#pragma once

#include <troupe/strategies/checkpoint/preemption_core.hpp>

#include <string>

/// What the tests of preemption share.
namespace troupe {

inline time_point at(duration since_start) { return time_point{} + since_start; }

/// "proposal 0 from 1 to 2: 6".
inline std::string text_of(const preemption_outgoing& out) {
  static const char* names[] = {"proposal", "acknowledgement", "decision"};
  const auto& m = out.message;
  return std::string{names[static_cast<int>(m.kind)]} + " " + std::to_string(m.round) + " from "
         + std::to_string(m.from) + " to " + std::to_string(out.to) + ": " + std::to_string(m.step);
}

} // namespace troupe
