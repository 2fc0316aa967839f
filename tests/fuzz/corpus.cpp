#include "corpus.hpp"

#include <zlib.h>

#include <array>
#include <cstdint>
#include <memory>
#include <stdexcept>

namespace fuzz {
namespace {

// A ustar archive is blocks of this size: a header, the file's bytes filled up with zeros, and so
// on; two blocks of zeros at its end.
constexpr std::size_t block_bytes = 512;

[[noreturn]] void damaged(const std::string& what) {
  throw std::runtime_error{"corpus archive: " + what};
}

// A header's number: octal digits, then a zero or a space.
std::size_t octal(std::string_view field) {
  std::size_t out = 0;
  for (const char c : field.substr(0, field.find_first_of(std::string_view{" \0", 2}))) {
    if (c < '0' || c > '7')
      damaged("malformed number in a header");
    out = out * 8 + static_cast<std::size_t>(c - '0');
  }
  return out;
}

// The sum of a header's bytes, its own field counted as spaces.
std::size_t checksum_of(std::string_view header) {
  std::size_t out = 0;
  for (std::size_t i = 0; i < header.size(); ++i)
    out += i >= 148 && i < 156 ? std::size_t{' '} : static_cast<std::uint8_t>(header[i]);
  return out;
}

} // namespace

std::string gunzipped(const std::filesystem::path& path) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file{gzopen(path.c_str(), "rb"), &gzclose};
  if (!file)
    damaged(path.string() + " can't be opened");
  std::string out;
  std::array<char, 16384> piece;
  int bytes = 0;
  while ((bytes = gzread(file.get(), piece.data(), static_cast<unsigned>(piece.size()))) > 0)
    out.append(piece.data(), static_cast<std::size_t>(bytes));
  int status = Z_OK;
  const std::string text = gzerror(file.get(), &status);
  if (bytes < 0 || status != Z_OK)
    damaged(text);
  if (gzdirect(file.get()) != 0)
    damaged(path.string() + " is not a gzip file");
  return out;
}

std::vector<corpus_input> unpacked(std::string_view archive) {
  std::vector<corpus_input> out;
  const auto take = [&archive](std::size_t bytes) {
    if (bytes > archive.size())
      damaged("cut short");
    const auto piece = archive.substr(0, bytes);
    archive.remove_prefix(bytes);
    return piece;
  };
  const std::string zeros(block_bytes, '\0');
  for (;;) {
    const auto header = take(block_bytes);
    if (header == zeros) {
      if (take(block_bytes) != zeros)
        damaged("one block of zeros instead of two at its end");
      return out;
    }
    if (octal(header.substr(148, 8)) != checksum_of(header))
      damaged("checksum mismatch in a header");
    const auto field = header.substr(0, 100);
    const std::string name{field.substr(0, field.find('\0'))};
    const std::size_t bytes = octal(header.substr(124, 12));
    const char kind = header[156];
    if (kind != '0' && kind != '5')
      damaged(name + " is neither a file nor a folder");
    const auto content = take(bytes);
    take((block_bytes - bytes % block_bytes) % block_bytes);
    if (kind == '0')
      out.push_back({name, std::string{content}});
  }
}

} // namespace fuzz
