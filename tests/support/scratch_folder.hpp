#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "../../tools/scratch_folder.hpp"

namespace troupe::testing {

using tool::scratch_folder;

/// The bytes of a file; none where it can't be read.
inline std::string content_of(const std::filesystem::path& path) {
  std::ifstream in{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}

} // namespace troupe::testing
