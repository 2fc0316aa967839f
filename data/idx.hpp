#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include <troupe/core/environment.hpp>
#include <troupe/core/tensor.hpp>

/// IDX files, the format of the MNIST family: a big-endian header and a dense array.
namespace troupe {

/// The array in the file at `path`, plain or gzipped. i16 is widened to i32; other types stay as
/// they are. Errors name the file, the field and the value: `not_found` and `io_failed` from the
/// storage; `corrupt` for a wrong magic, an unknown type code, extents that overflow, a file that
/// ends early (compressed or plain) or has bytes after the array. Never allocates more than a few
/// times what the file really holds.
result<tensor> read_idx(storage_port& storage, const std::string& path);

/// The array in a file's bytes, as `read_idx`; `name` stands in errors.
result<tensor> parse_idx(std::span<const std::byte> file, std::string_view name);

} // namespace troupe
