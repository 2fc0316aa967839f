// Goal: what an error shows of a function is what its author wrote. Method: names that the compiler
// makes of lambdas here; functions of this file, which no other object sees.
#include <troupe/core/readable_name.hpp>

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "../../support/failures.hpp"

namespace {

using namespace troupe;
using namespace troupe::testing;

int nobody_registered_me(int x) { return x + 1; }

} // namespace

TEST_CASE("a lambda's name was the linker's: it is shown as the function that it stands in") {
  CHECK(readable_function("Z4mainEUlvE1_") == "main::{lambda()#3}");
  CHECK(readable_function("Z4mainEUlvE1_#2") == "main::{lambda()#3}#2");
  const auto here = [](const std::vector<int>&) {};
  const auto own = readable_function(typeid(here).name());
  CHECK_MESSAGE(says(own, "lambda("), own);
  CHECK_FALSE(own.starts_with("Z"));
}

TEST_CASE("a name that was spelled out stays as it is, whatever it looks like") {
  for (const char* name :
       {"train_step", "f", "i", "Zebra", "Nothing", "troupe.make_iterator", "", "Z"})
    CHECK(readable_function(name) == name);
}

TEST_CASE("types are shown as they are written") {
  CHECK(readable_name(typeid(float(int, const double&))) == "float (int, double const&)");
}

TEST_CASE("a function without a registration had no name: the program's own symbols tell it") {
  const auto* at = reinterpret_cast<const void*>(&nobody_registered_me);
  const auto name = function_at(at);
  CHECK_MESSAGE(says(name, "nobody_registered_me(int)"), name);
  CHECK(says(function_at(reinterpret_cast<const void*>(&std::abort)), "abort")); // of a library
  int no_function = 0;
  CHECK(function_at(&no_function).empty());
  CHECK(function_at(nullptr).empty());
}
