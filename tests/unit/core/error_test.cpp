#include <troupe/core/error.hpp>

#include <set>
#include <string>

#include <doctest/doctest.h>

#include <troupe/core/result.hpp>

namespace {
using namespace troupe;
} // namespace

TEST_CASE("an error's text names code, task and incarnation") {
  auto why = make_failure(errc::shape_mismatch, "w is [2], not [3]");
  CHECK(to_string(why).find("shape_mismatch") == 0);
  CHECK(to_string(why).find("w is [2], not [3]") != std::string::npos);
  why.where.task = {.job = job_kind::worker, .index = 1};
  why.where.inc = {.counter = 3, .nonce = 99};
  CHECK(to_string(why) == "shape_mismatch at worker:1 (incarnation 3): w is [2], not [3]");
  why.where.inc = {}; // one of peer workers
  CHECK(to_string(why) == "shape_mismatch at worker:1: w is [2], not [3]");
  why.text = "worker:1: w is [2], not [3]";
  CHECK(to_string(why) == "shape_mismatch: worker:1: w is [2], not [3]");
  why.where.inc.counter = 3;
  error thrown{why};
  CHECK(thrown.what() == to_string(why));
  CHECK(thrown.code() == errc::shape_mismatch);
  CHECK(thrown.where().task.index == 1);
}

TEST_CASE("every code has a name of its own") {
  std::set<std::string_view> names;
  int named = 0;
  for (int i = 0; i < 64; ++i) {
    auto name = to_string(static_cast<errc>(i));
    if (name.substr(0, 5) == "errc(")
      continue;
    ++named;
    names.insert(name);
  }
  CHECK(named == 40);
  CHECK(names.size() == static_cast<std::size_t>(named));
  CHECK(to_string(static_cast<errc>(77)) == "errc(?)");
}

TEST_CASE("whether trying again helps is the code's own") {
  CHECK(default_retry(errc::user_code) == retry_class::no);
  CHECK(default_retry(errc::unavailable) == retry_class::after_recovery);
  CHECK(default_retry(errc::deadline) == retry_class::yes);
  CHECK(make_failure(errc::wrong_shard_view, "").retry == retry_class::yes);
  CHECK(make_failure(errc::fenced, "").retry == retry_class::no);
}

TEST_CASE("a result is a value or a failure, and throws the failure when asked for the value") {
  result<int> good{4};
  CHECK(good);
  CHECK(*good == 4);
  CHECK(std::move(good).value_or_throw() == 4);
  result<int> bad{make_failure(errc::not_found, "no x")};
  REQUIRE_FALSE(bad);
  CHECK(bad.error().code == errc::not_found);
  CHECK_THROWS_AS(std::move(bad).value_or_throw(), error);
  result<void> done;
  CHECK(done);
  CHECK_NOTHROW(std::move(done).value_or_throw());
  CHECK_THROWS_AS(result<void>{make_failure(errc::io_failed, "x")}.value_or_throw(), error);
}
