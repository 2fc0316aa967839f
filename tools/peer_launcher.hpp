#pragma once

#include "launcher.hpp"

/// `--strategy multi_worker_mirrored --processes`: the same program in several processes.
namespace tool {

/// Starts `training.workers` children, which find each other by TF_CONFIG, and waits for all; the
/// first one, the chief, tells how it went. None is left on return. SIGINT and SIGTERM go to all.
/// Returns the exit code. Call it before any other thread is started.
int launch_peers(const launch_options& options);

/// Arguments of a child, from `train` on.
std::vector<std::string> peer_arguments(const training_options& t);

} // namespace tool
