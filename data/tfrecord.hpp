#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include <troupe/core/environment.hpp>

/// TFRecord files: records of any bytes, each with checksums of its length and of its data. Read by
/// `dataset::tfrecords`.
namespace troupe {

/// Writes a TFRecord file. One thread at a time; movable.
class tfrecord_writer {
public:
  /// Creates or truncates `path`; the storage's errors.
  static result<tfrecord_writer> create(storage_port& storage, const std::string& path);
  /// Adds a record.
  result<void> write(std::span<const std::byte> record);
  /// Adds a record of the characters of a text.
  result<void> write(std::string_view record);
  /// Makes the file durable and ends it. Without it, what was written may be lost. No call may
  /// follow.
  result<void> close();

private:
  explicit tfrecord_writer(std::unique_ptr<file_writer> file) : file_{std::move(file)} {}
  std::unique_ptr<file_writer> file_;
};

} // namespace troupe
