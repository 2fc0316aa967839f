#include <troupe/core/thrown.hpp>

#include <new>
#include <stdexcept>

#include <doctest/doctest.h>

namespace {

using namespace troupe;

struct no_exception {};
struct forced_unwind {}; // only by its name
struct end_of_a_thread final : thread_unwind {};

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

TEST_CASE("what ends the thread passes, whatever its name, and nothing else does") {
  CHECK_FALSE(ends_the_thread()); // nothing is thrown
  CHECK_THROWS_AS((void)failure_in([] { throw end_of_a_thread{}; }), end_of_a_thread);
  CHECK_THROWS_AS((void)failure_in([] { throw thread_unwind{}; }), thread_unwind);
  const auto other = failure_in([] { throw forced_unwind{}; });
  REQUIRE(other);
  CHECK(other->code == errc::user_code);
  try {
    throw end_of_a_thread{};
  } catch (...) {
    CHECK(ends_the_thread());
    CHECK(current_exception_name().find("end_of_a_thread") != std::string::npos); // still current
  }
}
