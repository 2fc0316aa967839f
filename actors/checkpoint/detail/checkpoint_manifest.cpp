#include <troupe/actors/checkpoint/detail/checkpoint_manifest.hpp>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include <cereal/types/string.hpp>

#include <troupe/core/payload.hpp>
#include <troupe/core/shown.hpp>
#include <troupe/kernels/hash.hpp>

namespace troupe::detail {

namespace {

constexpr std::string_view magic = "TRPCKPT1";
constexpr std::string_view temporary_suffix = ".tmp";
constexpr std::string_view generation_prefix = "ckpt-";

// Bytes that each element of a list takes at least: what a count is held against.
constexpr std::size_t file_bytes_min = 24;
constexpr std::size_t variable_bytes_min = 33;
constexpr std::size_t part_bytes_min = 17;
constexpr std::size_t piece_bytes = 36;
constexpr std::size_t extra_bytes_min = 16;
constexpr std::size_t parts_max = 64;

/// What decoding throws; never leaves this file.
struct bad_manifest : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::string rows_text(std::int64_t begin, std::int64_t end) {
  return "rows [" + std::to_string(begin) + ", " + std::to_string(end) + ")";
}

std::size_t take_count(checked_reader& in, std::size_t element_bytes_min, const char* what) {
  std::uint64_t count = 0;
  in(count);
  if (count > in.rest_bytes() / element_bytes_min)
    throw bad_manifest{std::to_string(count) + " " + what + " in " + std::to_string(in.rest_bytes())
                       + " bytes"};
  return static_cast<std::size_t>(count);
}

/// What is wrong with the rows of sorted pieces, if anything.
std::optional<std::string> coverage_error(const std::vector<checkpoint_piece>& pieces,
                                          std::int64_t rows) {
  std::int64_t at = 0;
  for (const auto& piece : pieces) {
    if (piece.row_end <= piece.row_begin)
      return rows_text(piece.row_begin, piece.row_end) + " is an empty or negative range";
    if (piece.row_begin > at)
      return rows_text(at, piece.row_begin) + " are missing";
    if (piece.row_begin < at)
      return rows_text(piece.row_begin, std::min(at, piece.row_end)) + " are listed twice";
    at = piece.row_end;
  }
  if (at < rows)
    return rows_text(at, rows) + " are missing";
  if (at > rows)
    return rows_text(rows, at) + " are past the end";
  return {};
}

void decode_files(checked_reader& in, checkpoint_manifest& out) {
  out.files.resize(take_count(in, file_bytes_min, "files"));
  for (std::size_t i = 0; i < out.files.size(); ++i) {
    auto& file = out.files[i];
    in(file.name, file.size_bytes, file.checksum);
    if (file.name != data_file_name(i)) // any other could lead out of the directory
      throw bad_manifest{"file " + std::to_string(i) + " does not have the expected name "
                         + data_file_name(i)};
  }
}

void decode_pieces(checked_reader& in, const checkpoint_manifest& manifest, std::uint64_t row_bytes,
                   std::vector<checkpoint_piece>& out) {
  out.resize(take_count(in, piece_bytes, "pieces"));
  for (auto& piece : out) {
    in(piece.row_begin, piece.row_end, piece.file, piece.offset_bytes, piece.checksum);
    if (piece.row_begin < 0 || piece.row_end <= piece.row_begin)
      throw bad_manifest{rows_text(piece.row_begin, piece.row_end)
                         + " is an empty or negative range"};
    if (piece.file >= manifest.files.size())
      throw bad_manifest{"file " + std::to_string(piece.file) + " of "
                         + std::to_string(manifest.files.size())};
    const auto size_bytes = manifest.files[piece.file].size_bytes;
    const auto rows = static_cast<std::uint64_t>(piece.row_end - piece.row_begin);
    if (piece.offset_bytes > size_bytes
        || (row_bytes > 0 && rows > (size_bytes - piece.offset_bytes) / row_bytes))
      throw bad_manifest{rows_text(piece.row_begin, piece.row_end) + " leave file "
                         + std::to_string(piece.file)};
  }
}

/// Adds a piece to what was used of its file. Pieces that lie on each other would multiply what is
/// read.
void use_bytes(const checkpoint_manifest& manifest, const checkpoint_piece& piece,
               std::uint64_t row_bytes, std::uint64_t& used) {
  const auto bytes = static_cast<std::uint64_t>(piece.row_end - piece.row_begin) * row_bytes;
  if (bytes > manifest.files[piece.file].size_bytes - used)
    throw bad_manifest{"pieces of file " + std::to_string(piece.file) + " overlap"};
  used += bytes;
}

void decode_variable(checked_reader& in, checkpoint_manifest& out,
                     std::vector<std::uint64_t>& used_bytes) {
  auto& variable = out.variables.emplace_back();
  auto& pieces = out.pieces.emplace_back();
  in(variable.name);
  variable.shape.resize(take_count(in, sizeof(std::int64_t), "extents"));
  for (auto& extent : variable.shape)
    in(extent);
  std::uint8_t kind = 0;
  in(kind, variable.steps);
  variable.optimizer = static_cast<optimizer_kind>(kind);
  if (!find_optimizer(variable.optimizer))
    throw bad_manifest{shown(variable.name) + ": optimizer " + std::to_string(kind)};
  if (variable.name.empty() || !out.index.emplace(variable.name, out.variables.size() - 1).second)
    throw bad_manifest{"variable '" + shown(variable.name) + "' is listed twice or has no name"};
  const auto parts = take_count(in, part_bytes_min, "parts");
  if (parts == 0 || parts > parts_max)
    throw bad_manifest{shown(variable.name) + ": " + std::to_string(parts) + " parts"};
  for (std::size_t i = 0; i < parts; ++i) {
    auto& part = variable.parts.emplace_back();
    std::uint8_t type = 0;
    in(part.name, type);
    part.type = static_cast<dtype>(type);
    const auto what = shown(variable.name) + "/" + shown(part.name) + ": ";
    if (std::any_of(variable.parts.begin(), variable.parts.end() - 1,
                    [&](const auto& other) { return other.name == part.name; }))
      throw bad_manifest{what + "is listed twice"};
    if (!is_sane(variable.shape, part.type))
      throw bad_manifest{what + to_string(part.type) + to_string(variable.shape)};
    const auto row_bytes = row_bytes_of(variable.shape, part.type);
    decode_pieces(in, out, row_bytes, pieces.emplace_back());
    if (auto wrong = coverage_error(pieces.back(), rows_of(variable.shape)))
      throw bad_manifest{what + *wrong};
    for (const auto& piece : pieces.back())
      use_bytes(out, piece, row_bytes, used_bytes[piece.file]);
  }
}

checkpoint_manifest decode_body(std::string_view body) {
  checked_reader in{body};
  checkpoint_manifest out;
  decode_files(in, out);
  std::vector<std::uint64_t> used_bytes(out.files.size());
  const auto variables = take_count(in, variable_bytes_min, "variables");
  for (std::size_t i = 0; i < variables; ++i)
    decode_variable(in, out, used_bytes);
  const auto extras = take_count(in, extra_bytes_min, "extras");
  for (std::size_t i = 0; i < extras; ++i) {
    std::string key;
    std::string bytes;
    in(key, bytes);
    if (!out.extras.emplace(key, std::move(bytes)).second)
      throw bad_manifest{"extra '" + shown(key) + "' is listed twice"};
  }
  if (in.rest_bytes() != 0)
    throw bad_manifest{std::to_string(in.rest_bytes()) + " unexpected bytes at the end"};
  return out;
}

template <class T>
void append(std::string& out, T x) {
  out.append(reinterpret_cast<const char*>(&x), sizeof x);
}

std::uint64_t number_at(std::string_view bytes, std::size_t at) {
  std::uint64_t x = 0;
  std::memcpy(&x, bytes.data() + at, sizeof x);
  return x;
}

} // namespace

std::int64_t rows_of(const shape_t& shape) { return shape.empty() ? 1 : shape[0]; }

std::uint64_t row_bytes_of(const shape_t& shape, dtype type) {
  std::uint64_t bytes = size_of(type);
  for (std::size_t i = 1; i < shape.size(); ++i)
    bytes *= static_cast<std::uint64_t>(shape[i]);
  return bytes;
}

result<void> order_pieces(checkpoint_manifest& manifest) {
  for (std::size_t v = 0; v < manifest.variables.size(); ++v) {
    const auto& variable = manifest.variables[v];
    if (variable.parts.empty())
      return make_failure(errc::invalid_argument,
                          "checkpoint: " + variable.name + " has no slices");
    for (std::size_t p = 0; p < variable.parts.size(); ++p) {
      auto& pieces = manifest.pieces[v][p];
      std::sort(pieces.begin(), pieces.end(),
                [](const auto& a, const auto& b) { return a.row_begin < b.row_begin; });
      if (auto wrong = coverage_error(pieces, rows_of(variable.shape)))
        return make_failure(errc::invalid_argument, "checkpoint: " + variable.name + "/"
                                                      + variable.parts[p].name + " of shape "
                                                      + to_string(variable.shape) + ": " + *wrong);
    }
  }
  return {};
}

std::string encode(const checkpoint_manifest& manifest) {
  plain_writer body;
  const auto put_count = [&](std::size_t n) { body(static_cast<std::uint64_t>(n)); };
  put_count(manifest.files.size());
  for (const auto& file : manifest.files)
    body(file.name, file.size_bytes, file.checksum);
  put_count(manifest.variables.size());
  for (std::size_t v = 0; v < manifest.variables.size(); ++v) {
    const auto& variable = manifest.variables[v];
    body(variable.name);
    put_count(variable.shape.size());
    for (auto extent : variable.shape)
      body(extent);
    body(value_of(variable.optimizer), variable.steps);
    put_count(variable.parts.size());
    for (std::size_t p = 0; p < variable.parts.size(); ++p) {
      body(variable.parts[p].name, static_cast<std::uint8_t>(variable.parts[p].type));
      put_count(manifest.pieces[v][p].size());
      for (const auto& piece : manifest.pieces[v][p])
        body(piece.row_begin, piece.row_end, piece.file, piece.offset_bytes, piece.checksum);
    }
  }
  put_count(manifest.extras.size());
  for (const auto& [key, bytes] : manifest.extras)
    body(key, bytes);
  std::string out{magic};
  append(out, static_cast<std::uint64_t>(body.out.bytes.size()));
  out += body.out.bytes;
  append(out, kernels::hash64_text(out));
  return out;
}

result<checkpoint_manifest> decode(std::string_view bytes) {
  const auto refuse = [](const std::string& why) {
    return make_failure(errc::corrupt, "manifest: " + why);
  };
  const auto head_bytes = magic.size() + sizeof(std::uint64_t);
  if (bytes.size() < head_bytes + sizeof(std::uint64_t))
    return refuse(std::to_string(bytes.size()) + " bytes, too short for a manifest");
  if (bytes.substr(0, magic.size()) != magic)
    return refuse("it does not start with " + std::string{magic});
  const auto body = bytes.substr(head_bytes, bytes.size() - head_bytes - sizeof(std::uint64_t));
  if (number_at(bytes, magic.size()) != body.size())
    return refuse("body of " + std::to_string(number_at(bytes, magic.size())) + " bytes, "
                  + std::to_string(body.size()) + " present");
  const auto sum_at = bytes.size() - sizeof(std::uint64_t);
  if (number_at(bytes, sum_at) != kernels::hash64_text(bytes.substr(0, sum_at)))
    return refuse("checksum mismatch");
  try {
    return decode_body(body);
  } catch (const bad_manifest& e) {
    return refuse(e.what());
  } catch (const std::length_error& e) {
    return refuse(e.what());
  }
}

std::string data_file_name(std::size_t number) {
  char name[32];
  std::snprintf(name, sizeof name, "data-%05zu", number);
  return name;
}

std::string generation_name(std::uint64_t number) {
  return std::string{generation_prefix} + std::to_string(number);
}

namespace {

/// The digits of "ckpt-12", or none. Without leading zeros, as `generation_name` writes them.
std::string_view digits_of(std::string_view name) {
  if (!name.starts_with(generation_prefix))
    return {};
  name.remove_prefix(generation_prefix.size());
  const bool number = name.find_first_not_of("0123456789") == std::string_view::npos;
  return number && (name.size() == 1 || !name.starts_with('0')) ? name : std::string_view{};
}

/// A number that is no higher than `generation_max`.
std::optional<std::uint64_t> number_of(std::string_view digits) {
  std::uint64_t number = 0;
  const auto [end, why] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return why == std::errc{} && end == digits.data() + digits.size() && number <= generation_max
           ? std::optional{number}
           : std::nullopt;
}

} // namespace

std::optional<std::uint64_t> generation_number(std::string_view name, bool temporary) {
  if (temporary) {
    if (!name.ends_with(temporary_suffix))
      return {};
    name.remove_suffix(temporary_suffix.size());
  }
  const auto digits = digits_of(name);
  return digits.empty() ? std::nullopt : number_of(digits);
}

bool is_number_too_high(std::string_view name) {
  if (name.ends_with(temporary_suffix))
    name.remove_suffix(temporary_suffix.size());
  const auto digits = digits_of(name);
  return !digits.empty() && !number_of(digits);
}

} // namespace troupe::detail
