#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/actors/checkpoint/checkpoint_format.hpp>

/// The manifest as a value, its bytes, and the names in a checkpoint directory. Grammar:
/// checkpoint_format.hpp.
namespace troupe::detail {

inline constexpr std::string_view manifest_name = "manifest";
inline constexpr const char* lock_name = ".troupe-lock";
inline constexpr std::uint64_t manifest_bytes_max = std::uint64_t{1} << 30;
inline constexpr std::uint32_t no_file = ~std::uint32_t{0};

struct checkpoint_piece {
  std::int64_t row_begin = 0;
  std::int64_t row_end = 0;
  std::uint32_t file = 0;
  std::uint64_t offset_bytes = 0;
  std::uint64_t checksum = 0;
};

struct checkpoint_file {
  std::string name{};
  std::uint64_t size_bytes = 0;
  std::uint64_t checksum = 0;
};

/// `pieces[v][p]` are those of `variables[v].parts[p]`.
struct checkpoint_manifest {
  std::vector<checkpoint_file> files{};
  std::vector<checkpoint_variable> variables{};
  std::vector<std::vector<std::vector<checkpoint_piece>>> pieces{};
  std::map<std::string, std::string, std::less<>> extras{};
  std::map<std::string, std::size_t, std::less<>> index{}; ///< name to place in `variables`
};

/// Rows along axis 0; 1 for a scalar.
std::int64_t rows_of(const shape_t& shape);
/// Bytes of a row. @pre the shape is sane for the type.
std::uint64_t row_bytes_of(const shape_t& shape, dtype type);

/// Sorts each part's pieces by row. `invalid_argument` naming variable, part and row where they
/// don't cover the rows exactly once.
result<void> order_pieces(checkpoint_manifest& manifest);

std::string encode(const checkpoint_manifest& manifest);
/// Refuses whatever breaks the grammar or does not fit together: `corrupt`, the text says what and
/// where. Allocates at most a small multiple of `bytes`. A manifest that passes never leads a
/// reader outside its files, and its pieces together are no longer than the files.
result<checkpoint_manifest> decode(std::string_view bytes);

/// "data-00012".
std::string data_file_name(std::size_t number);
/// "ckpt-12".
std::string generation_name(std::uint64_t number);
/// The highest number that a checkpoint can have.
inline constexpr std::uint64_t generation_max = 999'999'999'999'999'998;
/// The number of "ckpt-12" or, when `temporary`, of "ckpt-12.tmp"; nothing for any other name.
std::optional<std::uint64_t> generation_number(std::string_view name, bool temporary);
/// Whether this is "ckpt-" and a number above `generation_max`, with or without ".tmp".
bool is_number_too_high(std::string_view name);

} // namespace troupe::detail
