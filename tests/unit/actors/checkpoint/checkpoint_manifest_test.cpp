#include <troupe/actors/checkpoint/detail/checkpoint_manifest.hpp>

#include <doctest/doctest.h>

#include <cstring>
#include <string>

#include <troupe/kernels/hash.hpp>

#include "../../../support/fake_storage.hpp"

using namespace troupe;
using testing::choices;
using testing::fake_storage;

// Goal: a manifest that lies, with a checksum that holds, neither crashes the reader nor makes it
// allocate or answer more than the files hold. Method: random mutations of a good one, with the
// checksum made right again.

namespace {

std::string reseal(std::string bytes) {
  const auto sum_at = bytes.size() - 8;
  const std::uint64_t body_bytes = sum_at - 16;
  std::memcpy(bytes.data() + 8, &body_bytes, 8);
  const auto sum = kernels::hash64(bytes.data(), sum_at);
  std::memcpy(bytes.data() + sum_at, &sum, 8);
  return bytes;
}

std::string mutated(std::string bytes, choices& pick) {
  const auto body = bytes.size() - 24; // between the head and the checksum
  static constexpr std::uint64_t odd[] = {0,     1,          2,          0xff,       0xffff,
                                          ~0ull, ~0ull >> 1, 1ull << 63, 1ull << 47, 1ull << 32};
  for (auto n = 1 + pick.below(3); n > 0; --n) {
    const auto at = 16 + pick.below(body);
    switch (pick.below(4)) {
      case 0: bytes[at] = static_cast<char>(pick.next()); break;
      case 1: bytes[at] = static_cast<char>(bytes[at] ^ (1 << pick.below(8))); break;
      case 2: {
        const auto x = odd[pick.below(std::size(odd))];
        std::memcpy(bytes.data() + at, &x, std::min<std::size_t>(8, bytes.size() - 8 - at));
        break;
      }
      default: {
        const auto from = 16 + pick.below(body);
        std::memmove(bytes.data() + at, bytes.data() + from,
                     std::min<std::size_t>(8, bytes.size() - 8 - std::max(at, from)));
        break;
      }
    }
  }
  if (pick.below(8) == 0)
    bytes.erase(16 + pick.below(body), 1 + pick.below(8));
  else if (pick.below(8) == 0)
    bytes.insert(16 + pick.below(body), 1 + pick.below(8), static_cast<char>(pick.next()));
  return bytes.size() < 24 ? std::string(24, '\0') : reseal(std::move(bytes));
}

void save_small(fake_storage& disk) {
  checkpoint_writer writer{disk, "c", {.file_bytes_max = 64, .piece_bytes_max = 16}};
  REQUIRE(writer.begin());
  for (const char* part : {"value", "m"})
    REQUIRE(writer.add_slice("w", dtype::f32, {5, 2}, part, 0, tensor::zeros(dtype::f32, {5, 2})));
  REQUIRE(writer.add_slice("b", dtype::i64, {}, "value", 0, tensor::scalar<std::int64_t>(7)));
  REQUIRE(writer.set_steps("w", 9, optimizer_kind::momentum));
  REQUIRE(writer.set_extra("progress", "12"));
  REQUIRE(writer.commit());
}

} // namespace

TEST_CASE("checkpoint manifest: encoding and decoding give the same") {
  fake_storage disk;
  save_small(disk);
  const auto bytes = disk.content("c/ckpt-1/manifest");
  auto manifest = detail::decode(bytes);
  REQUIRE(manifest);
  CHECK(manifest->files.size() == 2);
  CHECK(manifest->variables[0].steps == 9);
  CHECK(manifest->variables[0].optimizer == optimizer_kind::momentum);
  CHECK(manifest->extras.at("progress") == "12");
  CHECK(detail::encode(*manifest) == bytes);
  CHECK(reseal(bytes) == bytes);
}

TEST_CASE(
  "checkpoint manifest: 20000 lies with a checksum that holds neither crash nor answer too much") {
  fake_storage disk;
  save_small(disk);
  const auto path = std::string{"c/ckpt-1/manifest"};
  const auto good = disk.content(path);
  std::uint64_t data_bytes = 0;
  for (const auto& file : disk.files())
    if (file != path)
      data_bytes += disk.content(file).size();
  int refused = 0;
  int accepted = 0;
  for (std::uint64_t seed = 0; seed < 20000; ++seed) {
    choices pick{seed};
    disk.set_content(path, mutated(good, pick));
    CAPTURE(seed);
    auto reader = checkpoint_reader::open_latest(disk, "c");
    if (!reader) {
      ++refused;
      CHECK(reader.error().code == errc::corrupt);
      continue;
    }
    ++accepted; // harmless: a name, a step count, an extra
    std::uint64_t answered = 0;
    for (const auto& variable : reader->variables())
      for (const auto& part : variable.parts)
        if (auto rows = reader->read(variable.name, part.name, 0, detail::rows_of(variable.shape)))
          answered += rows->size_bytes();
    CHECK(answered <= data_bytes);
  }
  CHECK(refused > 10000);
  CHECK(accepted > 100);
}

TEST_CASE(
  "checkpoint manifest: counts beyond the bytes that are there are refused before anything is "
  "allocated") {
  fake_storage disk;
  save_small(disk);
  const auto good = disk.content("c/ckpt-1/manifest");
  for (std::uint64_t count : {std::uint64_t{1} << 20, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
    auto bytes = good;
    std::memcpy(bytes.data() + 16, &count, 8); // the count of files
    auto manifest = detail::decode(reseal(bytes));
    REQUIRE_FALSE(manifest);
    CHECK(manifest.error().code == errc::corrupt);
    CHECK(manifest.error().text.find(std::to_string(count)) != std::string::npos);
  }
}

TEST_CASE(
  "checkpoint manifest: pieces that lie on each other or lead out of the directory are refused") {
  fake_storage disk;
  save_small(disk);
  const auto good = *detail::decode(disk.content("c/ckpt-1/manifest"));
  const auto refused = [](const detail::checkpoint_manifest& lie) {
    auto decoded = detail::decode(detail::encode(lie));
    REQUIRE_FALSE(decoded);
    return decoded.error().text;
  };
  auto twice = good;
  for (auto& piece : twice.pieces[0][1])
    piece.file = 0, piece.offset_bytes = 0;
  CHECK(refused(twice).find("overlap") != std::string::npos);
  auto outside = good;
  outside.files[0].name = "../../secret";
  CHECK(refused(outside).find("data-00000") != std::string::npos);
  auto past = good;
  past.pieces[0][0][0].offset_bytes = ~0ull - 4;
  CHECK(refused(past).find("leave file") != std::string::npos);
  auto long_rows = good;
  long_rows.variables[0].shape = {5, std::int64_t{1} << 44};
  CHECK(refused(long_rows).find("w/value") != std::string::npos);
  auto no_file = good;
  no_file.pieces[0][0][0].file = 9;
  CHECK(refused(no_file).find("file 9 of 2") != std::string::npos);
}

TEST_CASE("checkpoint manifest: pieces whose sizes wrap around overlap all the same") {
  detail::checkpoint_manifest lie;
  lie.files.push_back({.name = detail::data_file_name(0), .size_bytes = 1ull << 63});
  const auto rows = std::int64_t{1} << 45; // of 4 bytes: 2^47, the most that a tensor may have
  for (int v = 0; v < 2048; ++v) {         // of 64 parts: 2^64 in all
    lie.variables.push_back({.name = std::to_string(v), .shape = {rows}});
    lie.pieces.emplace_back();
    for (int p = 0; p < 64; ++p) {
      lie.variables.back().parts.push_back({.name = std::to_string(p)});
      lie.pieces.back().push_back({{.row_begin = 0, .row_end = rows}});
    }
  }
  auto decoded = detail::decode(detail::encode(lie));
  REQUIRE_FALSE(decoded);
  CHECK(decoded.error().text.find("overlap") != std::string::npos);
}

TEST_CASE("checkpoint names: only exact generation names count") {
  using detail::generation_number;
  CHECK(generation_number("ckpt-0", false) == 0);
  CHECK(generation_number("ckpt-12", false) == 12);
  CHECK(generation_number("ckpt-12.tmp", true) == 12);
  for (const char* name : {"ckpt-", "ckpt-01", "ckpt-1a", "ckpt--1", "ckpt-1.tmp", "xckpt-1",
                           "ckpt", "ckpt-99999999999999999999", "ckpt-999999999999999999"})
    CHECK_FALSE(generation_number(name, false));
  CHECK_FALSE(generation_number("ckpt-1", true));
  CHECK(detail::data_file_name(7) == "data-00007");
  CHECK(detail::data_file_name(123456) == "data-123456");
}
