#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <troupe/sim/tools/swarm.hpp>

namespace troupe::sim {

struct run_command {
  std::string scenario{};
  std::uint64_t seed = 1;
  bool trace = false;
  bool faults = false; ///< print the plan too
};

struct swarm_command {
  swarm_options swarm{};
};

struct replay_command_options {
  std::vector<std::string> files{};
  bool quiet = false; ///< no trace
};

struct shrink_command {
  std::string file{};
  std::string to{}; ///< empty: beside it, NAME.shrunk.json
  std::uint32_t runs_max = 500;
};

struct list_command {
  enum what_t : std::uint8_t { scenarios, invariants, marks, bugs } what = scenarios;
  swarm_options swarm{}; ///< `marks`: whose hits
};

/// Wrong arguments, or a call for help: what to print and how to exit.
struct usage {
  std::string text{};
  int code = 0;
};

struct sim_command {
  std::variant<usage, run_command, swarm_command, replay_command_options, shrink_command,
               list_command>
    what{};
  std::string bug{}; ///< the planted one to wake
};

/// @pre arguments without the program's name.
sim_command parse_sim_command(std::vector<std::string> arguments);

} // namespace troupe::sim
