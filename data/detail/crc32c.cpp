#include <troupe/data/detail/crc32c.hpp>

#include <array>
#include <cstring>

namespace troupe::detail {

namespace {

using table = std::array<std::uint32_t, 256>;
constexpr std::size_t word_bytes = 8;

/// tables[k][x]: what byte x does to the checksum k bytes later.
constexpr std::array<table, word_bytes> make_tables() {
  std::array<table, word_bytes> out{};
  for (std::uint32_t x = 0; x < 256; ++x) {
    auto crc = x;
    for (int bit = 0; bit < 8; ++bit)
      crc = (crc >> 1) ^ ((crc & 1u) != 0 ? 0x82f63b78u : 0u);
    out[0][x] = crc;
  }
  for (std::size_t k = 1; k < word_bytes; ++k)
    for (std::size_t x = 0; x < 256; ++x)
      out[k][x] = (out[k - 1][x] >> 8) ^ out[0][out[k - 1][x] & 0xffu];
  return out;
}

constexpr auto tables = make_tables();

} // namespace

// Eight bytes at a time. Source: Kounavis, Berry 2005 (slicing by 8).
std::uint32_t crc32c(std::span<const std::byte> bytes) {
  std::uint32_t crc = 0xffffffffu;
  while (bytes.size() >= word_bytes) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), word_bytes);
    word ^= crc;
    crc = 0;
    for (std::size_t k = 0; k < word_bytes; ++k)
      crc ^= tables[word_bytes - 1 - k][(word >> (8 * k)) & 0xffu];
    bytes = bytes.subspan(word_bytes);
  }
  for (auto x : bytes)
    crc = (crc >> 8) ^ tables[0][(crc ^ std::to_integer<std::uint32_t>(x)) & 0xffu];
  return ~crc;
}

} // namespace troupe::detail
