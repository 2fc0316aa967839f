// Goal: what the fuzz targets found, and what they start from, holds with any compiler. Method:
// every input of a target's corpus, and every seed, through the same function that libFuzzer calls;
// no allocation may be larger than any input asks for by right (bounded_new.cpp).
#include <fstream>
#include <set>

#include <doctest/doctest.h>

#include "../support/scratch_folder.hpp"
#include "corpus.hpp"
#include "fuzz.hpp"

using troupe::testing::content_of;

TEST_CASE("fuzz: every decoder takes all of its own seeds") {
  std::set<std::string> names;
  for (std::size_t i = 0; i < fuzz::decoders().size(); ++i) {
    const auto& decoder = fuzz::decoders()[i];
    CAPTURE(decoder.name);
    CHECK(names.insert(decoder.name).second);
    const auto seeds = decoder.seeds();
    CHECK_FALSE(seeds.empty());
    for (const auto& seed : seeds) {
      bool taken = false;
      CHECK_NOTHROW(taken = fuzz::run(fuzz::input_for(i, seed)));
      CHECK(taken);
    }
  }
}

TEST_CASE("fuzz: every seed that is cut short is refused or holds") {
  for (std::size_t i = 0; i < fuzz::decoders().size(); ++i) {
    CAPTURE(fuzz::decoders()[i].name);
    for (const auto& seed : fuzz::decoders()[i].seeds())
      for (std::size_t n = 0; n < seed.size(); n += 1 + seed.size() / 64) {
        CAPTURE(n);
        CHECK_NOTHROW(fuzz::run(fuzz::input_for(i, std::string_view{seed}.substr(0, n))));
      }
  }
}

TEST_CASE("fuzz: every input of the corpus holds") {
  const auto inputs = fuzz::unpacked(fuzz::gunzipped(TROUPE_FUZZ_CORPUS));
  CHECK_FALSE(inputs.empty());
  std::set<std::string> names;
  for (const auto& [name, bytes] : inputs) {
    CAPTURE(name);
    CHECK(names.insert(name).second);
    CHECK(bytes.size() <= 4096);
    CHECK_NOTHROW(fuzz::run(bytes));
  }
}

TEST_CASE("fuzz: a corpus file that is damaged is refused") {
  const auto whole = content_of(TROUPE_FUZZ_CORPUS);
  const auto refused = [](std::string_view bytes) {
    const troupe::testing::scratch_folder folder;
    const auto file = folder / "corpus.tar.gz";
    std::ofstream{file, std::ios::binary} << bytes;
    CHECK_THROWS_AS(fuzz::gunzipped(file), std::runtime_error);
  };
  REQUIRE(whole.size() > 1024);
  CHECK_NOTHROW(fuzz::gunzipped(TROUPE_FUZZ_CORPUS));
  refused("");
  refused("not a gzip file");
  refused(std::string_view{whole}.substr(0, whole.size() / 2));
  refused(std::string_view{whole}.substr(0, whole.size() - 1));
  auto flipped = whole;
  flipped[flipped.size() / 2] ^= 1;
  refused(flipped);
  CHECK_THROWS_AS(fuzz::gunzipped("no-such-corpus.tar.gz"), std::runtime_error);
}

TEST_CASE("fuzz: a corpus archive that is damaged is refused") {
  const auto whole = fuzz::gunzipped(TROUPE_FUZZ_CORPUS);
  const auto refused = [](std::string_view archive, const char* why) {
    CHECK_THROWS_WITH_AS(fuzz::unpacked(archive), doctest::Contains(why), std::runtime_error);
  };
  refused("", "cut short");
  refused(std::string_view{whole}.substr(0, 512), "cut short");
  refused(std::string_view{whole}.substr(0, whole.size() / 2 / 512 * 512), "cut short");
  auto renamed = whole;
  renamed[0] ^= 1;
  refused(renamed, "checksum mismatch");
  auto linked = whole; // the same sum of its bytes
  linked[0] = static_cast<char>(linked[0] - 2);
  linked[156] = '2';
  refused(linked, "neither a file nor a folder");
  CHECK(fuzz::unpacked(std::string(1024, '\0')).empty());
}
