#include "checkpoint_export.hpp"

namespace tool {

namespace tr = troupe;

std::string run_export(tr::storage_port& storage, const export_command& wanted) {
  const auto done =
    tr::export_checkpoint(storage, wanted.directory, wanted.file, {.slots = wanted.slots})
      .value_or_throw();
  return "exported " + done.checkpoint + " to " + wanted.file + ": " + std::to_string(done.arrays)
         + (done.arrays == 1 ? " array, " : " arrays, ") + std::to_string(done.size_bytes)
         + " bytes";
}

} // namespace tool
