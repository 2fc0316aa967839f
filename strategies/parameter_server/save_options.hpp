#pragma once

#include <cstddef>

#include <troupe/core/limits.hpp>

namespace troupe {

/// How `cluster_coordinator::save` waits and what it keeps.
struct save_options {
  duration deadline{limits::save}; ///< until the snapshot is taken
  std::size_t keep = 2;            ///< checkpoints that stay in the directory; at least 1
};

} // namespace troupe
