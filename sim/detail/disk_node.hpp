#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <troupe/core/storage_folder.hpp>
#include <troupe/sim/storage.hpp>

namespace troupe::sim {

/// A file or a directory: as a process sees it, and as it is on the platter.
struct sim_disk::node {
  /// A change of a directory's names: creation (from empty), removal (to empty) or rename.
  struct change {
    std::string from{};
    std::string to{};
    node_ptr what{};
  };
  bool is_directory = false;
  std::string target{}; ///< not empty: a link
  std::string now{};
  std::string durable{};
  std::map<std::string, node_ptr> entries{};
  std::map<std::string, node_ptr> durable_entries{};
  std::vector<change> changes{}; ///< since the last sync, in order
};

} // namespace troupe::sim
