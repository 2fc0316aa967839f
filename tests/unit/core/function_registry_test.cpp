#include <troupe/core/function_registry.hpp>

#include <stdexcept>

#include <doctest/doctest.h>

namespace {

using namespace troupe;

function_entry entry(std::string name, std::string signature = "void ()") {
  return {.name = std::move(name), .signature = std::move(signature), .invoke = {}, .make = {}};
}

std::vector<function_line> lines(std::initializer_list<function_line> from) { return from; }

} // namespace

TEST_CASE("functions are numbered by name, whatever the order of registration") {
  function_table a, b;
  for (auto* name : {"m", "a", "z"})
    a.add(entry(name), nullptr);
  for (auto* name : {"z", "m", "a"})
    b.add(entry(name), nullptr);
  for (auto* name : {"m", "a", "z"}) {
    CHECK(a.index_of(name) == b.index_of(name));
    CHECK(a.at(a.index_of(name))->name == name);
  }
  CHECK(a.hash() == b.hash());
  CHECK(a.lines() == b.lines());
  CHECK(a.at(function_index{3}) == nullptr);
  CHECK(a.find("none") == nullptr);
}

TEST_CASE("an index stays right when a function is added after it was asked for") {
  function_table t;
  t.add(entry("m"), nullptr);
  CHECK(value_of(t.index_of("m")) == 0);
  t.add(entry("a"), nullptr);
  CHECK(value_of(t.index_of("m")) == 1);
  CHECK(t.at(function_index{0})->name == "a");
}

TEST_CASE("a name that is taken is refused; a function that was not registered is told by name") {
  function_table t;
  t.add(entry("step"), nullptr);
  CHECK_THROWS_AS(t.add(entry("step"), nullptr), std::logic_error);
  try {
    t.index_of("stop");
    FAIL("found");
  } catch (const error& e) {
    CHECK(e.code() == errc::not_registered);
    CHECK(std::string{e.what()}.find("'stop'") != std::string::npos);
  }
}

TEST_CASE("functions are found by address") {
  function_table t;
  int here = 0, there = 0;
  t.add(entry("step"), &here);
  CHECK(t.name_of(&here) == "step");
  CHECK(t.name_of(&there).empty());
}

TEST_CASE("lambdas of equal type names are told apart by their keys") {
  function_table t;
  int keys[3] = {};
  for (int& key : keys)
    t.add_unnamed(entry("{lambda}"), &key);
  CHECK(t.size() == 3);
  CHECK(t.name_of(&keys[0]) == "{lambda}");
  CHECK(t.name_of(&keys[1]) == "{lambda}#2");
  CHECK(t.name_of(&keys[2]) == "{lambda}#3");
}

TEST_CASE("the hash tells names and signatures apart") {
  function_table a, b, c;
  a.add(entry("step", "int (int)"), nullptr);
  b.add(entry("step", "int (float)"), nullptr);
  c.add(entry("stepi", "nt (int)"), nullptr);
  CHECK(a.hash() != b.hash());
  CHECK(a.hash() != c.hash());
}

TEST_CASE("the first function in which two programs differ is named, with the side that has it") {
  auto ours = lines({{"a", "int ()"}, {"c", "int ()"}});
  CHECK(first_difference(ours, ours).empty());
  auto more = first_difference(ours, lines({{"a", "int ()"}, {"b", "int ()"}, {"c", "int ()"}}));
  CHECK(more == "the builds differ: function 'b' is in the other build but not in this build");
  auto fewer = first_difference(ours, lines({{"a", "int ()"}}));
  CHECK(fewer == "the builds differ: function 'c' is in this build but not in the other build");
  auto named = first_difference(ours, lines({{"a", "int ()"}}), "the coordinator's", "worker:1's");
  CHECK(named == "the builds differ: function 'c' is in the coordinator's but not in worker:1's");
  auto other = first_difference(ours, lines({{"a", "int (int)"}, {"c", "int ()"}}));
  CHECK(other.find("'a'") != std::string::npos);
  CHECK(other.find("int ()") != std::string::npos);
  CHECK(other.find("int (int)") != std::string::npos);
}

TEST_CASE("a function that differs was told by the linker's name: it is demangled") {
  const auto why = first_difference(lines({{"Z4mainEUlvE1_", "void ()"}}), {});
  CHECK(
    why
    == "the builds differ: function 'main::{lambda()#3}' is in this build but not in the other build");
  function_table t;
  try {
    t.index_of("Z4mainEUlvE1_");
    FAIL("found");
  } catch (const error& e) {
    CHECK(std::string{e.what()}.find("'main::{lambda()#3}'") != std::string::npos);
  }
}
