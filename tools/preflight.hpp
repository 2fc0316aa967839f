#pragma once

#include <string>

#include <troupe/troupe.hpp>

/// Checks for failures that would end a training in the middle or at its end and can be seen before
/// it begins.
namespace tool {

/// Opens the four files of the data set in `directory`, and reads the test images. Throws what the
/// storage says, with the flag that names the directory and the package that has the files.
void check_data(const troupe::environment& env, const std::string& directory);

/// Makes the directory for checkpoints, and writes and removes a file there. Throws `bad_config`
/// naming `--checkpoint` and the directory.
void check_checkpoint_directory(const troupe::environment& env, const std::string& directory);

/// The error of `--resume` for a directory in which nothing was saved.
std::string no_checkpoint_text(const std::string& directory);

} // namespace tool
