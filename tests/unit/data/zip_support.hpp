#pragma once

#include <string>
#include <vector>

#include <zlib.h>

#include "support.hpp"

/// Zip archives for tests of .npz files.
namespace data_test {

struct zip_entry {
  std::string name{};
  std::string plain{};
  bool deflated = false;
  bool zip64 = false; // sizes and offset in the extra field, as numpy may write them
  int flags = 0;
};

inline std::string raw_deflated(const std::string& plain) {
  z_stream state{};
  if (deflateInit2(&state, Z_BEST_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY)
      != Z_OK)
    return {};
  std::string out(deflateBound(&state, plain.size()) + 64, '\0');
  state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  state.avail_in = static_cast<uInt>(plain.size());
  state.next_out = reinterpret_cast<Bytef*>(out.data());
  state.avail_out = static_cast<uInt>(out.size());
  deflate(&state, Z_FINISH);
  out.resize(state.total_out);
  deflateEnd(&state);
  return out;
}

/// The local header leaves the sizes open, as numpy does.
inline std::string zip_bytes(const std::vector<zip_entry>& entries) {
  std::string file;
  std::string directory;
  for (const auto& x : entries) {
    auto at = file.size();
    auto packed = x.deflated ? raw_deflated(x.plain) : x.plain;
    auto crc =
      crc32(0, reinterpret_cast<const Bytef*>(x.plain.data()), static_cast<uInt>(x.plain.size()));
    std::string extra;
    if (x.zip64) {
      put_le(extra, 1, 2);
      put_le(extra, 24, 2);
      for (auto n : {x.plain.size(), packed.size(), at})
        put_le(extra, n, 8);
    }
    auto small = [&](std::size_t n) { return x.zip64 ? std::size_t{UINT32_MAX} : n; };
    auto common = [&](std::string& to) { // version needed ... crc
      put_le(to, 45, 2);
      put_le(to, static_cast<std::uint64_t>(x.flags), 2);
      put_le(to, x.deflated ? 8 : 0, 2);
      put_le(to, 0, 4);
      put_le(to, crc, 4);
    };
    put_le(file, 0x04034b50, 4);
    common(file);
    put_le(file, UINT32_MAX, 4);
    put_le(file, UINT32_MAX, 4);
    put_le(file, x.name.size(), 2);
    put_le(file, 0, 2);
    file += x.name + packed;
    put_le(directory, 0x02014b50, 4);
    put_le(directory, 45, 2);
    common(directory);
    put_le(directory, small(packed.size()), 4);
    put_le(directory, small(x.plain.size()), 4);
    put_le(directory, x.name.size(), 2);
    put_le(directory, extra.size(), 2);
    put_le(directory, 0, 8); // comment, disk, attributes
    put_le(directory, 0, 2);
    put_le(directory, small(at), 4);
    directory += x.name + extra;
  }
  auto at = file.size();
  file += directory;
  put_le(file, 0x06054b50, 4);
  put_le(file, 0, 4);
  put_le(file, entries.size(), 2);
  put_le(file, entries.size(), 2);
  put_le(file, directory.size(), 4);
  put_le(file, at, 4);
  put_le(file, 0, 2);
  return file;
}

} // namespace data_test
