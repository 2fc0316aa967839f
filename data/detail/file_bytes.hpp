#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <troupe/core/environment.hpp>

/// Files as a whole and piece by piece, and which files a name stands for.
namespace troupe::detail {

/// A file's bytes in memory. Movable.
struct file_bytes {
  std::unique_ptr<std::byte[]> data{};
  std::size_t size = 0;
  std::span<const std::byte> all() const { return {data.get(), size}; }
};

/// Reads it whole; the storage's errors, which name the path.
result<file_bytes> read_file(storage_port& storage, const std::string& path);

/// A file that is read from front to back through a block of memory. One thread at a time. Errors
/// are thrown.
class file_cursor {
public:
  /// Throws what the storage says, and `corrupt` when `offset_bytes` is past the end.
  file_cursor(storage_port& storage, std::string path, std::uint64_t offset_bytes);
  const std::string& path() const { return path_; }
  /// Of the next byte.
  std::uint64_t offset_bytes() const { return offset_bytes_; }
  std::uint64_t rest_bytes() const { return file_->size_bytes() - offset_bytes_; }
  /// The bytes that follow, at least one unless the file ended. Valid until the next call.
  std::span<const std::byte> peek();
  /// Goes on by `n`. @pre n <= rest_bytes()
  void advance(std::uint64_t n) { offset_bytes_ += n; }
  /// Fills `to` and goes on. @pre `to` is no longer than `rest_bytes()`
  void read(std::span<std::byte> to);

private:
  static constexpr std::size_t block_bytes_max = std::size_t{1} << 18;
  std::string path_;
  std::unique_ptr<file_reader> file_;
  std::uint64_t offset_bytes_;
  std::vector<std::byte> block_{};
  std::uint64_t block_at_ = 0; // offset of the block
};

/// The files that `patterns` stand for, in the order given. In the last part of a path `*` stands
/// for any characters and `?` for one; what it matches is sorted by name. Throws `not_found` when
/// nothing matches, and `invalid_argument` for an empty path.
std::vector<std::string> resolve_files(storage_port& storage,
                                       const std::vector<std::string>& patterns);

/// "a, b".
std::string joined(const std::vector<std::string>& xs);

} // namespace troupe::detail
