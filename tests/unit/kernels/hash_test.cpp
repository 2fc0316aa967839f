#include <troupe/kernels/hash.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace k = troupe::kernels;

TEST_CASE("hash: published XXH3 values") {
  CHECK(k::hash64_text("")
        == 0x2D06800538D394C2u); // the empty input, from the reference's sanity checks
  CHECK(k::hash64(nullptr, 0) == 0x2D06800538D394C2u);
}

TEST_CASE("hash: a stream cut anywhere equals one piece") {
  std::vector<unsigned char> bytes(3000);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<unsigned char>(i * 131 + i / 7);
  for (std::size_t size : {0u, 1u, 16u, 128u, 129u, 240u, 241u, 256u, 1024u, 1025u, 3000u})
    for (std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{0x9E3779B97F4A7C15u}}) {
      CAPTURE(size);
      const auto whole = k::hash64(bytes.data(), size, seed);
      for (std::size_t piece : {1u, 3u, 64u, 255u, 256u, 257u, 2999u}) {
        k::hasher stream(seed);
        for (std::size_t at = 0; at < size; at += piece)
          stream.update(bytes.data() + at, size - at < piece ? size - at : piece);
        CHECK(stream.digest() == whole);
      }
    }
}

TEST_CASE("hash: a digest does not end the stream, a copy forks it, reset starts over") {
  k::hasher stream;
  stream.update("abc", 3);
  CHECK(stream.digest() == k::hash64_text("abc"));
  k::hasher fork = stream;
  stream.update("def", 3);
  CHECK(stream.digest() == k::hash64_text("abcdef"));
  fork.update("xyz", 3);
  fork.update(nullptr, 0);
  CHECK(fork.digest() == k::hash64_text("abcxyz"));
  stream.reset(7);
  stream.update("q", 1);
  CHECK(stream.digest() == k::hash64_text("q", 7));
}

TEST_CASE("hash: one changed bit and another seed change the value") {
  std::set<std::uint64_t> seen;
  std::string text(200, 'a');
  seen.insert(k::hash64_text(text));
  for (std::size_t bit = 0; bit < text.size() * 8; ++bit) {
    std::string changed = text;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    seen.insert(k::hash64_text(changed));
  }
  for (std::uint64_t seed = 1; seed <= 100; ++seed)
    seen.insert(k::hash64_text(text, seed));
  CHECK(seen.size() == 1 + 1600 + 100);
}
