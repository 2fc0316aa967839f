#include <troupe/core/thrown.hpp>

#include <new>
#include <stdexcept>

#include <doctest/doctest.h>

namespace {

using namespace troupe;

struct no_exception {};

} // namespace

TEST_CASE("an exception becomes a failure that names its type") {
  CHECK_FALSE(failure_in([] {}));
  const auto own = failure_in([] {
    auto why = make_failure(errc::no_space, "the disk is full");
    why.retry = retry_class::yes;
    throw error{why};
  });
  REQUIRE(own);
  CHECK(own->code == errc::no_space);
  CHECK(own->retry == retry_class::yes);
  CHECK(own->text == "the disk is full");
  const auto users = failure_in([] { throw std::out_of_range{"row 9"}; });
  REQUIRE(users);
  CHECK(users->code == errc::user_code);
  CHECK(users->text == "std::out_of_range: row 9");
  const auto other = failure_in([] { throw no_exception{}; });
  REQUIRE(other);
  CHECK(other->code == errc::user_code);
  CHECK(other->text.find("no_exception") != std::string::npos);
}

TEST_CASE("an exception for want of memory is out_of_memory, not the user's code") {
  const auto why = failure_in([] { throw std::bad_alloc{}; });
  REQUIRE(why);
  CHECK(why->code == errc::out_of_memory);
  CHECK(why->text == "out of memory (std::bad_alloc)");
}
