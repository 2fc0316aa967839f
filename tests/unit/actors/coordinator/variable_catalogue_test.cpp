// Goal: a variable is there once all its servers have said so, or nowhere, and whoever waits is
// told once. Method: each rule alone, then every order of the servers' answers and losses.
#include <troupe/actors/coordinator/variable_catalogue.hpp>

#include <algorithm>
#include <chrono>
#include <string>

#include <doctest/doctest.h>

namespace {

using namespace troupe;
using namespace std::chrono_literals;

constexpr time_point start{10s};

variable_spec variable_on(std::uint64_t id, std::vector<std::uint32_t> servers) {
  variable_spec v;
  v.id = static_cast<variable_id>(id);
  v.name = "v" + std::to_string(id);
  for (auto server : servers)
    v.shards.push_back({.row_begin = 0, .row_end = 1, .server = server});
  return v;
}

std::vector<std::uint64_t> ids_of(const std::vector<variable_spec>& variables) {
  std::vector<std::uint64_t> out;
  for (const auto& v : variables)
    out.push_back(value_of(v.id));
  return out;
}

using ids = std::vector<std::uint64_t>;
using indices = std::vector<std::uint32_t>;

constexpr variable_id first{1};

void nobody(const failure&) {}

} // namespace

TEST_CASE("catalogue: each server makes the variables with a shard there, once each") {
  variable_catalogue c;
  const auto creation = c.begin(
    {variable_on(1, {2, 0, 2, 2}), variable_on(2, {0}), variable_on(3, {2})}, false, nobody, start);
  CHECK(creation.servers == indices{0, 2});
  CHECK(ids_of(*c.wanted_of(creation.number, 0)) == ids{1, 2});
  CHECK(ids_of(*c.wanted_of(creation.number, 2)) == ids{1, 3});
  CHECK(c.wanted_of(creation.number, 1) == nullptr);
  CHECK(c.wanted_of(creation.number + 1, 0) == nullptr);
  CHECK(c.all().empty()); // not before all have answered
}

TEST_CASE("catalogue: variables are there once the last server has made its part") {
  variable_catalogue c;
  const auto number =
    c.begin({variable_on(2, {0, 1}), variable_on(1, {1})}, true, nobody, start).number;
  CHECK_FALSE(c.part_made(number, 1).has_value());
  CHECK_FALSE(c.contains(first));
  CHECK(c.wanted_of(number, 1) == nullptr); // it has answered
  const auto over = c.part_made(number, 0);
  REQUIRE(over.has_value());
  CHECK(ids_of(over->variables) == ids{2, 1});
  CHECK(over->of_step);
  CHECK(over->waiting.size() == 1);
  CHECK(ids_of(c.all()) == ids{1, 2});             // by id
  CHECK_FALSE(c.part_made(number, 0).has_value()); // a second answer finds nothing
  CHECK_FALSE(c.failed(number).has_value());
  CHECK(c.contains(first));
  c.drop(first);
  CHECK(ids_of(c.all()) == ids{2});
}

TEST_CASE("catalogue: a part that fails leaves nothing, whoever had answered") {
  variable_catalogue c;
  const auto number = c.begin({variable_on(1, {0, 1})}, false, nobody, start).number;
  CHECK_FALSE(c.part_made(number, 0).has_value());
  const auto over = c.failed(number);
  REQUIRE(over.has_value());
  CHECK(ids_of(over->variables) == ids{1});
  CHECK_FALSE(over->of_step);
  CHECK(c.all().empty());
  CHECK_FALSE(c.part_made(number, 1).has_value()); // what comes later is of no use
  CHECK(c.all().empty());
  CHECK_FALSE(c.failed(number).has_value());
}

TEST_CASE("catalogue: creations have numbers of their own, also the same variable's next one") {
  variable_catalogue c;
  const auto one = c.begin({variable_on(1, {0})}, false, nobody, start).number;
  const auto two = c.begin({variable_on(2, {0})}, false, nobody, start).number;
  c.failed(one);
  const auto again = c.begin({variable_on(1, {0})}, false, nobody, start).number;
  CHECK(one != two);
  CHECK(again != one);
  CHECK(again != two);
  CHECK_FALSE(c.part_made(one, 0).has_value()); // the late answer of the first
  CHECK(c.wanted_of(again, 0) != nullptr);
}

TEST_CASE("catalogue: who asks for what is being made waits for it, and is told in order") {
  variable_catalogue c;
  std::string told;
  auto teller = [&](std::string who) {
    return variable_catalogue::done_function{[&told, who](const failure& why) {
      told += who + ":" + std::to_string(int(why.code)) + " ";
    }};
  };
  auto early = teller("early");
  CHECK_FALSE(c.wait_for(first, early)); // nobody makes it
  REQUIRE(early);                        // left as it was
  const auto number = c.begin({variable_on(1, {0})}, true, std::move(early), start).number;
  auto second = teller("second"), third = teller("third"), other = teller("other");
  CHECK(c.wait_for(first, second));
  CHECK(c.wait_for(first, third));
  CHECK_FALSE(c.wait_for(variable_id{2}, other));
  const auto over = c.part_made(number, 0);
  REQUIRE(over.has_value());
  for (const auto& done : over->waiting)
    done({});
  CHECK(told == "early:0 second:0 third:0 ");
  CHECK_FALSE(c.wait_for(first, other)); // it is over
}

TEST_CASE("catalogue: a server is idle since it last made more") {
  variable_catalogue c;
  const auto number = c.begin({variable_on(1, {0, 1})}, false, nobody, start).number;
  CHECK(c.made(number, 0, 0, start + 3s) == 3s); // since the beginning
  CHECK(c.made(number, 0, 100, start + 4s) == 0s);
  CHECK(c.made(number, 0, 100, start + 9s) == 5s);
  CHECK(c.made(number, 0, 101, start + 20s) == 0s);
  CHECK(c.made(number, 1, 0, start + 20s) == 20s); // the other one's work is its own
}

TEST_CASE("catalogue: a lost server takes with it what it made and what it was to make") {
  variable_catalogue c;
  const auto there = c.begin({variable_on(1, {0})}, false, nobody, start).number;
  c.part_made(there, 0);
  const auto making =
    c.begin({variable_on(2, {1}), variable_on(3, {0, 1})}, false, nobody, start).number;
  const auto elsewhere = c.begin({variable_on(4, {2})}, false, nobody, start).number;
  c.part_made(making, 0); // had answered: its shard is gone all the same
  CHECK(c.server_lost(0) == ids{making});
  CHECK(c.lost_servers() == std::set<std::uint32_t>{0});
  CHECK(c.server_lost(2) == ids{elsewhere});
  CHECK(c.lost_servers() == std::set<std::uint32_t>{0}); // 2 held no values
  CHECK(c.server_lost(3).empty());
  c.drop(first);
  CHECK(c.lost_servers() == std::set<std::uint32_t>{0}); // what was lost stays lost
}

TEST_CASE("catalogue: every order of three servers' answers, with any of them failing") {
  indices order{0, 1, 2};
  do {
    for (unsigned failing = 0; failing < 8; ++failing) {
      CAPTURE(failing);
      variable_catalogue c;
      const auto number =
        c.begin({variable_on(1, {0, 1, 2}), variable_on(2, {1})}, false, nobody, start).number;
      int ends = 0;
      bool failed = false;
      for (auto server : order) {
        const bool fails = (failing >> server & 1) != 0;
        const auto over = fails ? c.failed(number) : c.part_made(number, server);
        if (over) {
          ++ends;
          failed = fails;
        }
        CHECK(c.contains(first) == (ends == 1 && !failed));
        CHECK(c.contains(variable_id{2}) == c.contains(first)); // both or neither
      }
      CHECK(ends == 1);
      CHECK(failed == (failing != 0));
    }
  } while (std::next_permutation(order.begin(), order.end()));
}
