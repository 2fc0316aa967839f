#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kill_spec.hpp"
#include "options.hpp"

/// `--processes`: a coordinator, workers and servers as children of this process.
namespace tool {

struct launch_options {
  training_options training{};
  std::vector<kill_spec> kills{};
  std::optional<task_mark_spec> kill_at_mark{};
  std::optional<task_mark_spec> stop_at_mark{};
};

/// Arguments of a child, from `serve` on. `address`: the coordinator's. `report_fd`: where a chief
/// writes. `first`: of this task, so marks are hung on it.
std::vector<std::string> child_arguments(const launch_options& options, const troupe::task_id& task,
                                         const std::string& address, int report_fd, bool first);

/// Runs the whole and prints its end. Only children of this process are ever signalled, and none is
/// left on return. SIGINT and SIGTERM end the run. Returns the exit code. Call it before any other
/// thread is started.
int launch(const launch_options& options);

} // namespace tool
