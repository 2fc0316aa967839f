#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/core/environment.hpp>
#include <troupe/core/specs.hpp>
#include <troupe/core/tensor.hpp>

/// Checkpoints on a storage port. A variable is saved as one logical tensor: its full shape, and
/// pieces of rows wherever they lie, for the value and for each optimizer slot. The number of
/// shards that wrote it is not part of the checkpoint: any number of shards restores from any
/// other.
///
///   directory/ckpt-NUMBER/      a finished checkpoint; the newest has the highest number
///   directory/ckpt-NUMBER.tmp/  one that is written or removed, or the rest of a crash
///     data-00000 ...            pieces back to back, nothing else
///     manifest                  written last
///
/// Grammar of the manifest (little-endian; `text` is a u64 length and its bytes; `xs*` is a u64
/// count and the xs):
///
///   manifest := "TRPCKPT1" body_bytes:u64 body checksum:u64      the checksum is of all before it
///   body     := files:file* variables:variable* extras:extra*
///   file     := name:text size_bytes:u64 checksum:u64
///   variable := name:text rank:u64 extent:i64{rank} optimizer:u8 steps:u64 parts:part*
///   part     := name:text dtype:u8 pieces:piece*                 "value" or a slot's name
///   piece    := row_begin:i64 row_end:i64 file:u32 offset_bytes:u64 checksum:u64
///   extra    := key:text bytes:text
///
/// A piece's byte count follows from its rows. Pieces stand in row order and cover all rows of the
/// shape exactly once. All checksums are XXH3-64.
///
/// A save writes into the .tmp directory, syncs every file and that directory, renames it and syncs
/// the directory above: a crash at any point leaves the old checkpoint or the new one, whole.
///
/// One writer per directory at a time: it holds the lock `directory/.troupe-lock` from `begin`
/// until the commit, and a killed process leaves it free. The directory itself may be reached
/// through links; below it none is followed, by writers and readers alike. What has a checkpoint's
/// name and is no directory (a link, a file) is nobody's checkpoint: it is left alone, and numbers
/// start above it.
namespace troupe {

/// The part that holds a variable itself; other parts are slots ("m", "v", "accumulator",
/// "momentum").
inline constexpr std::string_view value_part = "value";

struct checkpoint_write_options {
  std::uint32_t keep =
    2; ///< generations that stay after a commit, the new one included; at least 1
  std::uint64_t file_bytes_max = std::uint64_t{4}
                                 << 30; ///< a data file takes no further piece beyond this
  std::uint64_t piece_bytes_max = std::uint64_t{8}
                                  << 20; ///< pieces are cut at whole rows; at least one row
  tracer* trace =
    nullptr; ///< hears the marks checkpoint.data_synced, .manifest_synced, .renamed, .committed
};

/// Writes one checkpoint after the other into a directory. One thread at a time. Holds no more than
/// one call's tensor. After a failure every call but `begin` answers with that failure, and the
/// checkpoint before stays the newest. What is not committed is taken away by the next `begin`, by
/// the destructor, or, after a crash, by the next save's `begin`.
class checkpoint_writer {
public:
  checkpoint_writer(storage_port& storage, std::string directory,
                    checkpoint_write_options options = {});
  ~checkpoint_writer();
  checkpoint_writer(checkpoint_writer&&) noexcept;
  checkpoint_writer& operator=(checkpoint_writer&&) = delete;

  /// Starts a checkpoint, numbered above all that are there; makes the directory. Errors:
  /// `try_again` while another writer is at work there, in any process; `out_of_range` where no
  /// higher number is left, naming what has the highest; those of the storage.
  result<void> begin();

  /// Writes rows [row_begin, row_begin + rows.rows()) of a part of variable `name`, whose whole
  /// shape is `shape`; a scalar is one row. Slices come in any order, from any number of shards;
  /// `commit` checks that they cover each part. `type` is the part's element type. Errors:
  /// `shape_mismatch`, `dtype_mismatch`, `out_of_range`, `mismatch` (another shape than before),
  /// `invalid_argument` (an empty name), those of the storage.
  result<void> add_slice(const std::string& name, dtype type, const shape_t& shape,
                         std::string_view part, std::int64_t row_begin, const tensor& rows);

  /// Keeps the optimizer's kind and its step count t, once per variable. The variable may still
  /// lack slices.
  result<void> set_steps(const std::string& name, std::uint64_t t,
                         optimizer_kind optimizer = optimizer_kind::none);

  /// Keeps a few bytes of the program's own in the manifest. The last call for a key counts.
  result<void> set_extra(const std::string& key, std::string bytes);

  /// Finishes: on return the checkpoint survives a crash. Then takes away generations beyond `keep`
  /// and left-overs. The path of the checkpoint. Errors: `invalid_argument` (rows that are missing
  /// or were given twice, by name), `too_large` (a manifest above 1 GiB), those of the storage.
  result<std::string> commit();

  /// The failure by which old generations could not be taken away by the last `commit`: the
  /// checkpoint is good all the same.
  const std::optional<failure>& cleanup_failure() const;

private:
  struct state;
  std::unique_ptr<state> state_;
};

struct checkpoint_part {
  std::string name{}; ///< "value" or a slot's name
  dtype type = dtype::f32;
};

struct checkpoint_variable {
  std::string name{};
  shape_t shape{};
  optimizer_kind optimizer = optimizer_kind::none;
  std::uint64_t steps = 0; ///< the optimizer's t
  std::vector<checkpoint_part> parts{};
};

/// A checkpoint that cannot be used, and why.
struct refused_checkpoint {
  std::string path{};
  failure why{};
};

struct checkpoint_read_options {
  /// Read all data once at the start and compare it with the manifest, so that a damaged checkpoint
  /// is refused while the one before it can still take its place. Without, damage shows at `read`.
  bool verify_data = true;
};

namespace detail {
struct checkpoint_manifest;
}

/// Reads one checkpoint. After opening, any thread. `storage` outlives it.
class checkpoint_reader {
public:
  /// The newest checkpoint that is whole; newer ones that are not stand in `refused()`. Errors:
  /// `not_found` (no checkpoint, no directory), `corrupt` (there are some, none is whole; the text
  /// says why of each), `io_failed`.
  static result<checkpoint_reader> open_latest(storage_port& storage, const std::string& directory,
                                               checkpoint_read_options options = {});
  /// The checkpoint at `path` (`directory/ckpt-7`). `path` itself may be a link, nothing below it.
  static result<checkpoint_reader> open(storage_port& storage, const std::string& path,
                                        checkpoint_read_options options = {});

  const std::string& path() const { return path_; }
  const std::vector<refused_checkpoint>& refused() const { return refused_; }
  /// The variables, in the order in which they were saved.
  const std::vector<checkpoint_variable>& variables() const;
  /// The variable of that name; null when there is none.
  const checkpoint_variable* find(std::string_view name) const;

  /// Rows [row_begin, row_end) of a part, whoever wrote them; a scalar's row has shape []. Checks
  /// the checksum of all it reads. Holds the answer and at most one piece beside it. Errors:
  /// `unknown_name`, `out_of_range`, `corrupt` naming the file, those of the storage.
  result<tensor> read(std::string_view name, std::string_view part, std::int64_t row_begin,
                      std::int64_t row_end) const;
  /// The step count t of a variable. `unknown_name`.
  result<std::uint64_t> steps(std::string_view name) const;
  /// The bytes of `set_extra`. `unknown_name` when the key was not set.
  result<std::string> extra(std::string_view key) const;

private:
  checkpoint_reader(std::shared_ptr<storage_port> folder, std::string within, std::string path,
                    std::shared_ptr<const detail::checkpoint_manifest> manifest);
  static result<checkpoint_reader> open_in(const std::shared_ptr<storage_port>& folder,
                                           const std::string& within, const std::string& path,
                                           checkpoint_read_options options);
  std::shared_ptr<storage_port> folder_; ///< the files are at `within_` + name in it
  std::string within_;
  std::string path_;
  std::shared_ptr<const detail::checkpoint_manifest> manifest_;
  std::vector<refused_checkpoint> refused_{};
};

} // namespace troupe
