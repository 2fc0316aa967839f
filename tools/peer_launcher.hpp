#pragma once

#include "launcher.hpp"

/// `--strategy multi_worker_mirrored --processes`: the same program in several processes.
namespace tool {

/// Starts `training.workers` children, which find each other by TF_CONFIG, and waits for all; the
/// first one, the chief, tells how it went. One that is killed or crashes is started again, if
/// there is a checkpoint to go on from; when one ends for good the others are ended too. While
/// processes are hit and nothing new is saved it says so every 15 s, and why. None is left on
/// return: SIGINT, SIGTERM and SIGHUP end all of them, asked twice at once. Returns the exit code.
/// Call it before any other thread is started.
int launch_peers(const launch_options& options);

/// Arguments of a child, from `train` on.
std::vector<std::string> peer_arguments(const training_options& t);

} // namespace tool
