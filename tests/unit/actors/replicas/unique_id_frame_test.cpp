// The key of the devices' communicator on its way to the other replicas. Goal: what was packed
// comes out, and nothing else is taken for a key. Method: each byte of the head wrong once.

#include <cstring>

#include <doctest/doctest.h>

#include <troupe/actors/replicas/detail/unique_id_frame.hpp>

namespace {

using namespace troupe;
using namespace troupe::detail;

unique_id some_key() {
  unique_id out;
  for (std::size_t i = 0; i < sizeof out.bytes; ++i)
    out.bytes[i] = static_cast<std::uint8_t>(i * 7 + 1);
  return out;
}

TEST_CASE("comm key frame: a key, and none, come out as they were") {
  const auto key = some_key();
  const auto got = unpack_unique_id(pack_unique_id(key)).value_or_throw();
  REQUIRE(got);
  CHECK(std::memcmp(got->bytes, key.bytes, sizeof key.bytes) == 0);
  CHECK(!unpack_unique_id(pack_unique_id(std::nullopt)).value_or_throw());
}

TEST_CASE("comm key frame: another format, length or size is refused, naming it") {
  auto refused = [](const tensor& frame, const char* word) {
    auto got = unpack_unique_id(frame);
    REQUIRE(!got);
    CHECK(got.error().code == errc::bad_frame);
    CHECK_MESSAGE(got.error().text.find(word) != std::string::npos, got.error().text);
  };
  auto with = [](std::size_t at, std::uint8_t value) {
    auto frame = pack_unique_id(some_key());
    frame.mutable_as<std::uint8_t>()[at] = value;
    return frame;
  };
  refused(with(0, 2), "format 2");
  refused(with(1, 2), "2 keys");
  refused(with(2, 127), "127 bytes");
  refused(with(3, 1), "384 bytes");
  refused(tensor::zeros(dtype::u8, {131}), "131 bytes");
  refused(tensor::zeros(dtype::f32, {33}), "132 bytes");
}

} // namespace
