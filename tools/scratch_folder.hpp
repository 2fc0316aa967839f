#pragma once

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>

#include <stdlib.h>

/// Temporary folders; for tests and benches.
namespace tool {

/// A new, empty folder in the system's place for temporary files, removed at the end with all that
/// is in it; no link in it is followed.
/// The constructor throws `std::system_error`.
class scratch_folder {
public:
  scratch_folder() {
    std::string pattern =
      (std::filesystem::temp_directory_path() / "troupe-scratch-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr)
      throw std::system_error{errno, std::generic_category(), pattern};
    path_ = pattern;
  }
  ~scratch_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string text() const { return path_.string(); }
  /// The path of a file or folder in it.
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

private:
  std::filesystem::path path_{};
};

} // namespace tool
