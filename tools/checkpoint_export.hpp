#pragma once

#include <string>

#include <troupe/troupe.hpp>

/// `troupe checkpoint export DIRECTORY FILE.npz`.
namespace tool {

struct export_command {
  std::string directory{}; ///< of checkpoints, or one of them
  std::string file{};
  bool slots = false; ///< optimizers' slots and step counts too
};

/// Writes the archive and returns the line that tells its contents. Throws the storage's errors,
/// naming the directory or the file.
std::string run_export(troupe::storage_port& storage, const export_command& wanted);

} // namespace tool
