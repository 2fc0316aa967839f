#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <troupe/core/environment.hpp>
#include <troupe/data/compression.hpp>
#include <troupe/data/detail/inflate.hpp>

/// Files as a whole and piece by piece, and which files a name stands for.
namespace troupe::detail {

/// A file's bytes in memory. Movable.
struct file_bytes {
  std::unique_ptr<std::byte[]> data{};
  std::size_t size = 0;
  std::span<const std::byte> all() const { return {data.get(), size}; }
};

/// Reads the whole file; the storage's errors, which name the path.
result<file_bytes> read_file(storage_port& storage, const std::string& path);

/// Bytes from front to back. One thread at a time. Errors are thrown.
class byte_feed {
public:
  virtual ~byte_feed() = default;
  /// The bytes that follow, none at the end; at the very front at least sixteen if there are so
  /// many. Valid until the next call.
  virtual std::span<const std::byte> peek() = 0;
  /// Goes on by `n`. @pre n <= peek().size()
  virtual void advance(std::size_t n) = 0;
};

/// How a file's bytes are found.
struct packing {
  compression how = compression::none;
  /// Whether bytes at the front of a file say for sure that it is plain; null: none do. Asked under
  /// `detect` only.
  bool (*is_plain)(std::span<const std::byte> head) = nullptr;
};

/// A file that is read from front to back through a block of memory, unpacked where it is packed.
/// Offsets count unpacked bytes: to go on in the middle of a packed file, all before is unpacked
/// again.
class file_cursor final : public byte_feed {
public:
  /// Throws what the storage says, and `corrupt` when `offset_bytes` is past the end. `reader`
  /// stands in front of errors about how it is packed ("csv").
  file_cursor(storage_port& storage, std::string path, std::string reader, packing how,
              std::uint64_t offset_bytes = 0);
  const std::string& path() const { return path_; }
  /// Offset of the next byte.
  std::uint64_t offset_bytes() const { return offset_bytes_; }
  /// Bytes until the end, where that is known without unpacking them.
  std::optional<std::uint64_t> rest_bytes() const;
  bool at_end() { return peek().empty(); }
  std::span<const std::byte> peek() override;
  void advance(std::size_t n) override { offset_bytes_ += n; }
  /// Fills `to` and goes on; fewer bytes than asked means the end.
  std::size_t read(std::span<std::byte> to);

private:
  void find_packing(packing how, const std::string& reader);
  void go_to(std::uint64_t offset_bytes);
  void fill_plain();
  void unpack();

  static constexpr std::size_t block_bytes_max = std::size_t{1} << 18;
  std::string path_;
  std::unique_ptr<file_reader> file_;
  std::optional<inflater> inflater_{};
  std::uint64_t offset_bytes_ = 0;
  std::vector<std::byte> block_{};
  std::uint64_t block_at_ = 0;      // offset of the block
  std::vector<std::byte> packed_{}; // what was read and not yet unpacked
  std::size_t packed_used_ = 0;     // of it
  std::uint64_t packed_at_ = 0;     // offset of the next byte to read of a packed file
  bool ended_ = false;              // all of it was unpacked
};

/// The files that `patterns` stand for, in the order given. In the last part of a path `*` stands
/// for any characters and `?` for one; what it matches is sorted by name. Throws `not_found` when
/// nothing matches, and `invalid_argument` for an empty path.
std::vector<std::string> resolve_files(storage_port& storage,
                                       const std::vector<std::string>& patterns);

/// "a, b".
std::string joined(const std::vector<std::string>& xs);

} // namespace troupe::detail
