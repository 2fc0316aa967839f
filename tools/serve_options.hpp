#pragma once

#include "cli.hpp"

namespace tool {

/// The runtime's options for `serve`. Reads TF_CONFIG or the cluster file when no coordinator is
/// given. Throws `bad_config`.
troupe::runtime_options serve_options(const serve_command& serve);

} // namespace tool
