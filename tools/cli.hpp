#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "checkpoint_export.hpp"
#include "launcher.hpp"

/// The command line.
namespace tool {

struct train_command {
  launch_options launch{};
  bool processes = false;
};

/// The command for one role, started by hand or by a launcher.
struct serve_command {
  std::string task{};             ///< "chief", "worker:N", "ps:N"; empty: as TF_CONFIG says
  std::string cluster{};          ///< file; empty: TF_CONFIG
  std::string coordinator{};      ///< "host:port"; empty: from the cluster
  double coordinator_lost_s = 60; ///< a worker's or server's patience
  double start_timeout_s = 60;    ///< the chief's
  int report_fd = -1;             ///< a chief tells its launcher
  std::optional<mark_spec> kill_at_mark{};
  std::optional<mark_spec> stop_at_mark{};
  training_options training{};
};

/// Text to print, then exit with 0.
struct print_command {
  std::string text{};
};

/// A line for stderr, then exit with 64.
struct usage_error {
  std::string text{};
};

using command =
  std::variant<train_command, serve_command, export_command, print_command, usage_error>;

/// The command of a command line. `arguments`: without the program's name. Reads nothing but them.
command parse_command(std::vector<std::string> arguments);

} // namespace tool
