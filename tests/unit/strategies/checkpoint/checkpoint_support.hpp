#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include <unistd.h>

#include "../replicas/workers_support.hpp"

namespace replicas_test {

/// A directory that goes with the test.
class scratch_directory {
public:
  scratch_directory() {
    static std::atomic<int> count{0};
    path_ = std::filesystem::temp_directory_path()
            / ("troupe-sync-" + std::to_string(::getpid()) + "-" + std::to_string(++count));
    std::filesystem::remove_all(path_);
  }
  ~scratch_directory() { std::filesystem::remove_all(path_); }
  scratch_directory(const scratch_directory&) = delete;
  scratch_directory& operator=(const scratch_directory&) = delete;

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
  std::filesystem::path path_;
};

} // namespace replicas_test
