#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <troupe/core/environment.hpp>
#include <troupe/data/compression.hpp>
#include <troupe/data/detail/file_bytes.hpp>
#include <troupe/data/detail/stream.hpp>
#include <troupe/data/element.hpp>

/// Files that are one record of bytes after the other and give no access by row.
namespace troupe::detail {

// Grammar of a TFRecord file (little-endian), after TensorFlow's core/lib/io/record_writer.h:
//   file   := record*
//   record := length:u64 masked_crc32c(length):u32 data[length] masked_crc32c(data):u32
inline constexpr std::size_t tfrecord_head_bytes = 12;
inline constexpr std::size_t tfrecord_tail_bytes = 4;

/// How records are found in a file. Immutable; any thread.
class record_format {
public:
  virtual ~record_format() = default;
  virtual const char* name() const = 0;
  /// `packing::is_plain`.
  virtual bool (*plain_test() const)(std::span<const std::byte>) { return nullptr; }
  /// Reads the record at the cursor, which is not at the file's end. `number` is the record's in
  /// its file, for errors.
  virtual tensor read(file_cursor& from, std::uint64_t number) const = 0;
};

/// Lines without their end ("\n" or "\r\n"). UTF-16 is refused.
std::unique_ptr<const record_format> make_line_format();
/// Records whose both checksums hold.
std::unique_ptr<const record_format> make_tfrecord_format();

/// The records of all files, each a u8 vector. Files are opened when their turn comes.
stream_ptr<element> make_record_stream(storage_port& storage, std::vector<std::string> paths,
                                       std::shared_ptr<const record_format> format,
                                       compression packed);

/// The error text for a file whose first bytes are a byte order mark of UTF-16 or UTF-32, or, where
/// `guess`, a character and a zero; empty for any other.
std::string wide_text(std::span<const std::byte> head, bool guess);

/// Bytes as a u8 vector.
tensor bytes_tensor(std::string_view bytes);

} // namespace troupe::detail
