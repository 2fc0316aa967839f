#include <troupe/actors/support/blob_table.hpp>

#include <doctest/doctest.h>

namespace {

using namespace troupe;

blob_key argument(std::uint64_t seq) {
  return {.closure = {term_no{1}, seq}, .attempt = {}, .role = blob_role::argument};
}
blob_key result_of(std::uint64_t seq, std::uint32_t attempt) {
  return {.closure = {term_no{1}, seq}, .attempt = attempt_no{attempt}, .role = blob_role::result};
}

} // namespace

TEST_CASE("blobs are found by closure, attempt and role") {
  blob_table table;
  CHECK(table.put(argument(1), "in"));
  CHECK(table.put(result_of(1, 1), "first"));
  CHECK(table.put(result_of(1, 2), "second"));
  CHECK(*table.get(argument(1)) == "in");
  CHECK(*table.get(result_of(1, 2)) == "second");
  CHECK(table.get(result_of(1, 3)) == nullptr);
  CHECK(table.get(argument(2)) == nullptr);
  CHECK(table.size_bytes() == 2 + 5 + 6);
}

TEST_CASE("a blob put again replaces the one before, and its bytes are counted once") {
  blob_table table;
  CHECK(table.put(argument(1), "12345"));
  CHECK(table.put(argument(1), "123"));
  CHECK(*table.get(argument(1)) == "123");
  CHECK(table.size_bytes() == 3);
}

TEST_CASE("dropping a closure drops all of its blobs and no others; readers keep what they hold") {
  blob_table table;
  for (std::uint64_t seq : {1, 2, 3}) {
    CHECK(table.put(argument(seq), "a"));
    CHECK(table.put(result_of(seq, 1), "b"));
    CHECK(table.put(result_of(seq, 2), "c"));
  }
  auto held = table.get(result_of(2, 2));
  table.drop(closure_id{term_no{1}, 2});
  CHECK(table.get(argument(2)) == nullptr);
  CHECK(table.get(result_of(2, 1)) == nullptr);
  CHECK(table.get(result_of(2, 2)) == nullptr);
  CHECK(*held == "c");
  CHECK(table.get(argument(1)) != nullptr);
  CHECK(table.get(result_of(3, 2)) != nullptr);
  CHECK(table.size_bytes() == 6);
  table.drop(argument(1));
  table.drop(argument(1));
  CHECK(table.size_bytes() == 5);
}

TEST_CASE("a table at its bound refuses, naming closure and sizes, and keeps what it has") {
  blob_table table{10};
  CHECK(table.put(argument(1), "12345678"));
  auto refused = table.put(argument(2), "123");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::too_large);
  CHECK(refused.error().text.find("closure 2") != std::string::npos);
  CHECK(refused.error().text.find("3 bytes beside 8 of at most 10") != std::string::npos);
  CHECK(table.get(argument(2)) == nullptr);
  CHECK(table.put(argument(1), "1234567890")); // a larger one in its own place fits
  CHECK(table.size_bytes() == 10);
}

TEST_CASE("a result of a closure that has ended is refused, so that nobody has to drop it") {
  blob_table table;
  std::uint64_t open = 1;
  table.take_results_if([&](const closure_id& id) { return id.seq == open; });
  CHECK(table.empty());
  CHECK(table.put(result_of(1, 1), "wanted"));
  CHECK_FALSE(table.empty());
  auto late = table.put(result_of(2, 1), "late");
  REQUIRE_FALSE(late);
  CHECK(late.error().code == errc::cancelled);
  CHECK(late.error().text == "result of closure 2 attempt 1: the closure has ended");
  CHECK(table.put(argument(2), "arguments come before a closure is in flight"));
  table.drop(closure_id{term_no{1}, 1});
  table.drop(closure_id{term_no{1}, 2});
  CHECK(table.empty());
  CHECK(table.size_bytes() == 0);
}
