// Goal: what the fuzz targets found, and what they start from, holds with any compiler. Method:
// every input of a target's corpus, and every seed, through the same function that libFuzzer calls;
// no allocation may be larger than any input asks for by right (bounded_new.cpp).
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include <doctest/doctest.h>

#include "fuzz.hpp"

namespace {

std::vector<std::filesystem::path> corpus() {
  std::vector<std::filesystem::path> out;
  for (const auto& entry : std::filesystem::directory_iterator{TROUPE_FUZZ_CORPUS})
    out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}

std::string content_of(const std::filesystem::path& path) {
  std::ifstream in{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}

} // namespace

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
  std::size_t inputs = 0;
  for (const auto& path : corpus()) {
    CAPTURE(path);
    const auto input = content_of(path);
    CHECK(input.size() <= 4096);
    CHECK_NOTHROW(fuzz::run(input));
    ++inputs;
  }
  CHECK(inputs > 0);
}
