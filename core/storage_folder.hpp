#pragma once

#include <memory>
#include <string>
#include <vector>

#include <troupe/core/environment.hpp>

namespace troupe {

/// The parts of a path without empty ones and ".".
std::vector<std::string> path_parts(const std::string& path);

/// `storage_port::folder` for a storage that has nothing better: looks at the kind of every part of
/// a path before the call. What another process changes between the two goes unseen. `below`
/// outlives it.
std::unique_ptr<storage_port> make_storage_folder(storage_port& below, std::string directory);

} // namespace troupe
