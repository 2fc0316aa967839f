#include <troupe/core/nearest_word.hpp>

#include <doctest/doctest.h>

using namespace troupe;

TEST_CASE("a mistyped word finds the one that was meant") {
  for (const char* word : {"trian", "tran", "traiin", "Train", "TRAIN", "tarin"})
    CHECK_MESSAGE(nearest_word(word, {"serve", "train", "version"}) == "train", word);
  for (const char* word : {"clustr", "Cluster", "custer", "clutser", "clusters", "c-luster"})
    CHECK_MESSAGE(nearest_word(word, {"task", "cluster", "environment"}) == "cluster", word);
  CHECK(nearest_word("--troupe-wrokers", {"--troupe-servers", "--troupe-workers"})
        == "--troupe-workers");
  CHECK(nearest_word("cluster", {"cluster", "clusters"}) == "cluster");
}

TEST_CASE("a word that is another one finds nothing") {
  for (const char* word : {"sparseCluster", "job", "cloud", "master", "", "x", "chief"})
    CHECK_MESSAGE(nearest_word(word, {"task", "cluster", "environment"}).empty(), word);
  CHECK(nearest_word("ab", {"cd"}).empty());
  CHECK(nearest_word(std::string(100'000, 'a'), {"aaaa"}).empty());
}

TEST_CASE("the sentence for an error is whole or empty") {
  CHECK(did_you_mean("trian", {"train"}) == "; did you mean 'train'?");
  CHECK(did_you_mean("bake", {"train"}).empty());
}
