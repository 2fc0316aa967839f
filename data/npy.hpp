#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/core/environment.hpp>
#include <troupe/core/tensor.hpp>

/// numpy's files: .npy, one array, and .npz, a zip archive of them. Versions 1 to 3 in C order, of
/// either byte order. Element types: u1 i1 i4 i8 f2 f4 f8 as numpy names them, and bfloat16, which
/// numpy writes as V2. Errors name the file, the field and the value: `not_found` and `io_failed`
/// from the storage; `corrupt` for what does not hold together, ends early or has bytes after the
/// array; `invalid_argument` for what is sound but not read here: Fortran order, other element
/// types, encrypted or otherwise compressed entries. Never allocates much more than the file can
/// hold.
namespace troupe {

/// The array in the file at `path`.
result<tensor> read_npy(storage_port& storage, const std::string& path);
/// The same for a file's bytes; `name` stands in errors.
result<tensor> parse_npy(std::span<const std::byte> file, std::string_view name);

/// An array of an archive, without the ".npy" of its entry.
struct named_tensor {
  std::string name{};
  tensor value{};
};

/// The arrays called `names`, in that order, or all in the archive's order when it is empty. Stored
/// and deflated entries, checked against their CRC-32. `not_found` names an array that is missing
/// and those that are there.
result<std::vector<named_tensor>> read_npz(storage_port& storage, const std::string& path,
                                           std::span<const std::string> names = {});
/// The same for a file's bytes.
result<std::vector<named_tensor>> parse_npz(std::span<const std::byte> file, std::string_view name,
                                            std::span<const std::string> names = {});

} // namespace troupe
