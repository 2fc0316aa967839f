#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <troupe/actors/checkpoint/checkpoint_format.hpp>

/// Checkpoints for other programs.
namespace troupe {

struct checkpoint_export_options {
  /// Whether to write the optimizers' slots too, as "NAME/SLOT" ("dense/w/m"), and their step
  /// counts, as "NAME/steps", i64 scalars.
  bool slots = false;
};

struct checkpoint_export_report {
  std::string checkpoint{};     ///< the one that was taken
  std::size_t arrays = 0;       ///< in the archive
  std::uint64_t size_bytes = 0; ///< of their elements
};

/// Writes the variables of `from` into a numpy archive (npy.hpp) at `file`, each under its name,
/// whole however many shards it had. The archive takes its place only once it is whole. Holds one
/// variable at a time. Errors: those of the storage and of `checkpoint_reader::read`;
/// `invalid_argument` where two arrays would have one name, naming it.
result<checkpoint_export_report> export_checkpoint(storage_port& storage,
                                                   const checkpoint_reader& from,
                                                   const std::string& file,
                                                   checkpoint_export_options options = {});

/// `export_checkpoint` of the newest checkpoint in `directory` that is whole, or of `directory`
/// itself where that is a checkpoint ("checkpoints/ckpt-7"). `not_found` where there is none.
result<checkpoint_export_report> export_checkpoint(storage_port& storage,
                                                   const std::string& directory,
                                                   const std::string& file,
                                                   checkpoint_export_options options = {});

} // namespace troupe
