#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "../../../support/scratch_folder.hpp"
#include "../replicas/workers_support.hpp"

namespace replicas_test {

/// A folder for checkpoints that is not there yet, and goes with the test.
class checkpoint_folder {
public:
  std::string text() const { return path_.string(); }
  /// Finished checkpoints in it.
  std::vector<std::string> checkpoints() const {
    std::vector<std::string> out;
    if (std::filesystem::exists(path_))
      for (const auto& entry : std::filesystem::directory_iterator{path_})
        out.push_back(entry.path().filename().string());
    std::sort(out.begin(), out.end());
    return out;
  }
  /// Changes one byte of a file.
  void damage(const std::string& name) const {
    std::fstream file{path_ / name, std::ios::in | std::ios::out | std::ios::binary};
    REQUIRE(file);
    const auto byte = static_cast<char>(file.get() ^ 0x40);
    file.seekp(0);
    file.put(byte);
  }

private:
  scratch_folder around_{};
  std::filesystem::path path_ = around_.path() / "checkpoints";
};

} // namespace replicas_test
