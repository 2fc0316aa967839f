#include <troupe/core/fields.hpp>
#include <troupe/core/payload.hpp>

#include <limits>
#include <map>

#include <cereal/types/map.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/vector.hpp>
#include <doctest/doctest.h>

namespace {

using namespace troupe;

payload sample() {
  plain_writer out;
  out(std::string{"name"}, std::vector<std::int64_t>{1, 2, 3}, tensor::vector<float>({1, 2, 3}),
      2.5, tensor::scalar(std::int64_t{9}));
  return std::move(out.out);
}

/// Takes 100 bytes in the input, and counts how many of it were made.
struct counted {
  static inline std::size_t made = 0;
  counted() { ++made; }
  std::string bytes = std::string(100, '\0');
  template <detail::cereal_archive Archive>
  friend void serialize(Archive& ar, counted& x) {
    ar(cereal::binary_data(x.bytes.data(), x.bytes.size()));
  }
};

} // namespace

TEST_CASE("what is written is read, tensors by handle") {
  auto x = tensor::vector<float>({1, 2});
  plain_writer out;
  out(std::map<std::string, int>{{"a", 1}}, x);
  checked_reader in{out.out};
  std::map<std::string, int> m;
  tensor y;
  in(m, y);
  CHECK(m.at("a") == 1);
  CHECK(y.bytes().data() == x.bytes().data());
  CHECK(in.rest_bytes() == 0);
}

TEST_CASE("a flat payload comes back equal, empty and undefined parts included") {
  for (const payload& x : {payload{}, sample()}) {
    auto back = unflatten(flatten(x));
    REQUIRE(back);
    CHECK(back->bytes == x.bytes);
    REQUIRE(back->tensors.size() == x.tensors.size());
    for (std::size_t i = 0; i < x.tensors.size(); ++i)
      CHECK(back->tensors[i] == x.tensors[i]);
  }
}

TEST_CASE("a flat payload that is cut anywhere, or is longer, is corrupt") {
  const auto whole = flatten(sample());
  for (std::size_t n = 0; n < whole.size(); ++n) {
    auto back = unflatten(std::string_view{whole}.substr(0, n));
    REQUIRE_FALSE(back);
    REQUIRE(back.error().code == errc::corrupt);
  }
  CHECK_FALSE(unflatten(whole + "x"));
}

TEST_CASE("a count that the rest cannot hold is refused before anything is allocated") {
  plain_writer out;
  out(std::numeric_limits<std::uint64_t>::max());
  std::vector<double> huge;
  std::string text;
  CHECK_THROWS_AS(checked_reader{out.out}(huge), std::length_error);
  CHECK_THROWS_AS(checked_reader{out.out}(text), std::length_error);
  for (std::uint8_t byte : {0x7f, 0xff}) { // every byte of a good one, spoilt
    auto good = flatten(sample());
    for (std::size_t i = 0; i < good.size(); ++i) {
      auto bad = good;
      bad[i] = static_cast<char>(byte);
      auto back = unflatten(bad);
      REQUIRE((back || back.error().code == errc::corrupt));
    }
  }
}

TEST_CASE("a vector grows with the elements that are there, not to what its count says") {
  plain_writer out;
  out(std::uint64_t{1000});
  out.put(std::string(1050, 'x').data(), 1050); // ten elements and a half
  std::vector<counted> xs;
  counted::made = 0;
  CHECK_THROWS_AS(checked_reader{out.out}(xs), std::length_error);
  CHECK(counted::made == 11);

  plain_writer numbers;
  numbers(std::uint64_t{13});
  numbers.put(std::string(100, 'x').data(), 100); // twelve and a half of eight bytes
  std::vector<double> doubles;
  CHECK_THROWS_AS(checked_reader{numbers.out}(doubles), std::length_error);
  CHECK(doubles.empty());
}

TEST_CASE("a bool that is neither 0 nor 1 is refused") {
  for (int raw = 0; raw < 256; ++raw) {
    const auto byte = static_cast<char>(raw);
    bool x = false;
    checked_reader in{{&byte, 1}};
    if (raw > 1)
      CHECK_THROWS_AS(in(x), std::length_error);
    else
      CHECK_NOTHROW(in(x));
    CHECK(x == (raw == 1));
  }
}

TEST_CASE("a tensor number beyond the payload's tensors is refused") {
  plain_writer out;
  out(std::uint32_t{3});
  checked_reader in{out.out};
  tensor x;
  CHECK_THROWS_AS(in(x), std::length_error);
}
