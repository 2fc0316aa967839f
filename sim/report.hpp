#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <troupe/core/time.hpp>
#include <troupe/sim/action.hpp>

namespace troupe::sim {

/// The way in which a run ended.
enum class outcome : std::uint8_t {
  ended = 0,      ///< every process has ended or stays down
  violated = 1,   ///< `world::fail`, or something that must not happen
  stuck = 2,      ///< processes wait, and nothing will ever happen
  step_limit = 3, ///< `world_options::steps_max`
  time_limit = 4, ///< `world_options::time_max`
};
std::string_view to_string(outcome how);

/// The end of a process.
struct exit_record {
  enum how_t : std::uint8_t {
    returned, ///< from its program
    threw,    ///< its program
    crashed,  ///< by an action
    left,     ///< by `thread_port::leave_now`
    running,  ///< still, when the run ended
  };
  node_name node{};
  std::uint32_t start = 0;
  how_t how = returned;
  int code = 0;
  duration at{};      ///< since the start of the run
  std::string text{}; ///< what it threw
};

/// A broken rule.
struct violation {
  std::string rule{}; ///< id of `known_invariants`, e.g. "complaint", "actors-left"
  std::string text{};
  duration at{};
};

struct report {
  outcome how = outcome::ended;
  std::uint64_t events = 0; ///< steps of the world
  std::uint64_t hash = 0;
  std::uint64_t traced = 0; ///< events that processes traced
  std::uint64_t frames = 0; ///< packets that arrived
  std::uint64_t bytes = 0;
  duration time{}; ///< virtual
  std::vector<exit_record> exits{};
  std::vector<violation> violations{};
  std::map<std::string, std::uint64_t> marks{};
  std::map<std::string, std::uint64_t> event_counts{};
  std::map<action_kind, std::uint64_t> actions{}; ///< that had an effect
  std::uint64_t seed = 0;
  std::string replay{}; ///< one command that runs it again; empty: whoever ran it knows

  bool ok() const { return how == outcome::ended && violations.empty(); }
  /// A text for people: the outcome, everything that went wrong, and how to see it again.
  std::string text() const;
};

} // namespace troupe::sim
