#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/core/environment.hpp>
#include <troupe/core/tensor.hpp>

/// numpy's files: .npy, one array, and .npz, a zip archive of them.
///
/// Read: versions 1 to 3, C and Fortran order (the array comes in C order), either byte order.
/// Element types, as numpy names them, become the type that holds all their values: b1 (bool), u1
/// -> u8, i1 -> i8, i2, u2, i4 -> i32, u4, i8, u8 -> i64, f2 -> f16, f4 -> f32, f8 -> f64;
/// bfloat16, which numpy writes as V2, -> bf16. A u8 above i64's highest is `out_of_range`, by its
/// index.
///
/// Errors name the file, the field and the value: `not_found` and `io_failed` from the storage;
/// `corrupt` for what does not hold together, ends early or has bytes after the array;
/// `invalid_argument` for what is sound but not read here: other element types (complex numbers,
/// text, dates, structures, objects), encrypted or otherwise compressed entries. Never allocates
/// much more than the file can hold.
///
/// Written: version 1 (2 for a long header), C order, little-endian, the element types above.
namespace troupe {

/// The array in the file at `path`.
result<tensor> read_npy(storage_port& storage, const std::string& path);
/// The array in a file's bytes, as `read_npy`; `name` stands in errors.
result<tensor> parse_npy(std::span<const std::byte> file, std::string_view name);

/// An array of an archive, without the ".npy" of its entry.
struct named_tensor {
  std::string name{};
  tensor value{};
};

/// The arrays called `names`, in that order, whatever else the archive holds; or all in the
/// archive's order when `names` is empty, and then every entry must be an array. Stored and
/// deflated entries, checked against their CRC-32; `corrupt` for those that lie on others in the
/// file. `not_found` names an array that is missing and those that are there.
result<std::vector<named_tensor>> read_npz(storage_port& storage, const std::string& path,
                                           std::span<const std::string> names = {});
/// The arrays in a file's bytes, as `read_npz`; `name` stands in errors.
result<std::vector<named_tensor>> parse_npz(std::span<const std::byte> file, std::string_view name,
                                            std::span<const std::string> names = {});

/// A .npy file's bytes before the elements of an array of that type and shape: magic, header, and
/// blanks up to a multiple of 64 bytes. `invalid_argument` for a shape that is none.
result<std::string> npy_head(dtype type, const shape_t& shape);
/// Writes `x` to the file at `path`, in place of what was there only once all of it is on the disk.
/// `invalid_argument` for an undefined tensor; the storage's errors.
result<void> write_npy(storage_port& storage, const std::string& path, const tensor& x);

/// Writes an archive, one array after the other, stored as they are. One thread at a time; movable.
/// The file is beside `path` under a temporary name until `close`; without `close` it is removed
/// with the writer. After a failure every call answers with that failure.
class npz_writer {
public:
  /// A writer of the archive at `path`. `storage` outlives it.
  static result<npz_writer> create(storage_port& storage, std::string path);
  ~npz_writer();
  npz_writer(npz_writer&&) noexcept;
  npz_writer& operator=(npz_writer&&) = delete;

  /// Adds an array. `invalid_argument` for an empty name, one above 65,000 bytes, one that was
  /// added before, and an undefined tensor.
  result<void> add(const std::string& name, const tensor& x);
  /// Ends the archive and puts it in place. On return it survives a crash. No call may follow.
  result<void> close();

private:
  struct state;
  explicit npz_writer(std::unique_ptr<state> made);
  std::unique_ptr<state> state_;
};

/// Writes all of `arrays` to one archive, as `npz_writer` does.
result<void> write_npz(storage_port& storage, const std::string& path,
                       std::span<const named_tensor> arrays);

} // namespace troupe
