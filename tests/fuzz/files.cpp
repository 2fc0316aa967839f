// Checkpoints: the manifest with and without the checksum that a fuzzer can't guess, and reading a
// checkpoint whose checksums all hold.
#include <cstring>

#include <troupe/actors/checkpoint/checkpoint_format.hpp>
#include <troupe/actors/checkpoint/detail/checkpoint_manifest.hpp>
#include <troupe/kernels/hash.hpp>

#include "../support/fake_storage.hpp"
#include "message_decoders.hpp"

namespace fuzz {

namespace {

using namespace troupe;
using troupe::detail::checkpoint_manifest;
using troupe::testing::fake_storage;

__extension__ using wide = unsigned __int128; // sums of sizes don't wrap in it

constexpr std::size_t head_bytes = 16; // magic, length
constexpr const char* directory = "c";

void append(std::string& to, std::uint64_t number) {
  to.append(reinterpret_cast<const char*>(&number), sizeof number);
}

/// A manifest of that body, its length and checksum right.
std::string sealed(std::string_view body) {
  std::string out = "TRPCKPT1";
  append(out, body.size());
  out += body;
  append(out, kernels::hash64_text(out));
  return out;
}

std::string body_of(const checkpoint_manifest& manifest) {
  const auto whole = detail::encode(manifest);
  return whole.substr(head_bytes, whole.size() - head_bytes - sizeof(std::uint64_t));
}

/// What decode promises of whatever passes.
void check(const checkpoint_manifest& manifest, std::size_t bytes) {
  const auto again = detail::encode(manifest);
  require(again.size() == bytes, "a manifest's size changes when it is read and written");
  auto second = detail::decode(again);
  require(second && detail::encode(*second) == again, "a manifest that was written is refused");
  std::vector<wide> used(manifest.files.size());
  for (std::size_t v = 0; v < manifest.variables.size(); ++v)
    for (std::size_t p = 0; p < manifest.variables[v].parts.size(); ++p) {
      const auto& variable = manifest.variables[v];
      const auto row_bytes = detail::row_bytes_of(variable.shape, variable.parts[p].type);
      std::int64_t at = 0;
      for (const auto& piece : manifest.pieces[v][p]) {
        require(piece.row_begin == at && piece.row_end > at, "pieces cover the rows once");
        at = piece.row_end;
        const auto size = static_cast<wide>(piece.row_end - piece.row_begin) * row_bytes;
        used[piece.file] += size;
        require(piece.offset_bytes + size <= manifest.files[piece.file].size_bytes,
                "a piece lies in its file");
      }
      require(at == detail::rows_of(variable.shape), "pieces cover all rows");
    }
  for (std::size_t f = 0; f < used.size(); ++f)
    require(used[f] <= manifest.files[f].size_bytes, "pieces together are no longer than a file");
}

bool decode_manifest(std::string_view input) {
  auto manifest = detail::decode(input);
  if (!manifest) {
    require(manifest.error().code == errc::corrupt, "a manifest that is refused is corrupt");
    return false;
  }
  check(*manifest, input.size());
  return true;
}

bool decode_body(std::string_view input) { return decode_manifest(sealed(input)); }

/// Gives every file the same content and every piece the checksum of what it points at.
void fit_to(checkpoint_manifest& manifest, std::string_view content) {
  for (auto& file : manifest.files) {
    file.size_bytes = content.size();
    file.checksum = kernels::hash64_text(content);
  }
  for (std::size_t v = 0; v < manifest.variables.size(); ++v)
    for (std::size_t p = 0; p < manifest.variables[v].parts.size(); ++p) {
      const auto& variable = manifest.variables[v];
      const auto row_bytes = detail::row_bytes_of(variable.shape, variable.parts[p].type);
      for (auto& piece : manifest.pieces[v][p]) {
        const auto size = static_cast<std::uint64_t>(piece.row_end - piece.row_begin) * row_bytes;
        if (piece.offset_bytes <= content.size() && size <= content.size() - piece.offset_bytes)
          piece.checksum = kernels::hash64_text(content.substr(piece.offset_bytes, size));
      }
    }
}

void read_all(const checkpoint_reader& reader) {
  for (const auto& variable : reader.variables())
    for (const auto& part : variable.parts) {
      const auto rows = detail::rows_of(variable.shape);
      auto whole = reader.read(variable.name, part.name, 0, rows);
      require(whole && whole->shape() == variable.shape, "all rows of a whole checkpoint are read");
      if (variable.shape.empty() || rows == 0)
        continue;
      auto middle = reader.read(variable.name, part.name, rows / 3, rows - rows / 3);
      require(middle && *middle == whole->rows(rows / 3, rows - rows / 3),
              "rows are the same whoever asks for them");
    }
}

/// The length of a manifest's body (2 bytes), the body, and what stands in the data files.
bool decode_checkpoint(std::string_view input) {
  pieces in{input};
  const auto body = in.take(in.number16());
  const std::string content{in.rest()};
  auto manifest = detail::decode(sealed(body));
  if (!manifest)
    return false;
  fit_to(*manifest, content);
  fake_storage disk;
  const std::string path = std::string{directory} + "/" + detail::generation_name(1);
  require(disk.make_directories(path).operator bool(), "a directory is made");
  const auto put = [&](const std::string& name, const std::string& bytes) {
    auto file = disk.create(path + "/" + name);
    require(file && (*file)->write(std::as_bytes(std::span{bytes})), "a file is written");
  };
  put(std::string{detail::manifest_name}, detail::encode(*manifest));
  for (const auto& file : manifest->files)
    put(file.name, content);
  auto reader = checkpoint_reader::open_latest(disk, directory);
  if (!reader) {
    require(reader.error().code == errc::corrupt, "a checkpoint that is refused is corrupt");
    return false;
  }
  read_all(*reader);
  return true;
}

// --- seeds

/// Two variables in two files, with a slot, a step count and an extra.
fake_storage& small_checkpoint() {
  static fake_storage disk;
  if (disk.exists("c/ckpt-1"))
    return disk;
  checkpoint_writer writer{disk, directory, {.file_bytes_max = 64, .piece_bytes_max = 16}};
  writer.begin().value_or_throw();
  for (const char* part : {"value", "m"})
    writer.add_slice("w", dtype::f32, {5, 2}, part, 0, tensor::zeros(dtype::f32, {5, 2}))
      .value_or_throw();
  writer.add_slice("b", dtype::i64, {}, "value", 0, tensor::scalar<std::int64_t>(7))
    .value_or_throw();
  writer.set_steps("w", 9, optimizer_kind::momentum).value_or_throw();
  writer.set_extra("progress", "12").value_or_throw();
  writer.commit().value_or_throw();
  return disk;
}

std::string small_manifest() { return small_checkpoint().content("c/ckpt-1/manifest"); }

std::vector<std::string> manifest_seeds() { return {small_manifest(), sealed(body_of({}))}; }

std::vector<std::string> body_seeds() {
  return {body_of(*detail::decode(small_manifest())), body_of({})};
}

std::vector<std::string> checkpoint_seeds() {
  std::vector<std::string> out;
  for (const auto& body : body_seeds()) {
    std::string head;
    head += static_cast<char>(body.size() & 0xff);
    head += static_cast<char>(body.size() >> 8);
    out.push_back(head + body + std::string(64, 'd'));
  }
  return out;
}

} // namespace

void add_files(std::vector<decoder>& to) {
  to.push_back({"manifest", decode_manifest, manifest_seeds});
  to.push_back({"manifest body", decode_body, body_seeds});
  to.push_back({"checkpoint", decode_checkpoint, checkpoint_seeds});
}

} // namespace fuzz
