// Goal: the ledger answers as a plain model that never forgets would, for any order of operations,
// attempts and settled lists; and it forgets what it may.
#include <doctest/doctest.h>

#include <random>
#include <set>

#include <troupe/actors/shards/ledger.hpp>

using namespace troupe;

namespace {

op_key key(std::uint32_t term, std::uint64_t seq, std::uint32_t op = 0) {
  return {{static_cast<term_no>(term), seq}, static_cast<op_no>(op)};
}

op_key call(std::uint32_t term, std::uint32_t thread, std::uint64_t number, std::uint32_t op = 0) {
  return {program_call(static_cast<term_no>(term), thread, number), static_cast<op_no>(op)};
}

void settle(ledger& to, std::uint32_t term, std::uint64_t highest,
            std::vector<std::uint64_t> unsettled) {
  to.settle(static_cast<term_no>(term), highest, unsettled);
}

} // namespace

TEST_CASE("ledger: an operation is fresh once and a duplicate afterwards, whatever the attempt") {
  ledger x;
  CHECK(x.check(key(1, 5)) == ledger_verdict::fresh);
  x.record(key(1, 5));
  CHECK(x.check(key(1, 5)) == ledger_verdict::duplicate);
  CHECK(x.check(key(1, 5, 1)) == ledger_verdict::fresh);
  CHECK(x.check(key(1, 6)) == ledger_verdict::fresh);
  CHECK(x.check(key(2, 5)) == ledger_verdict::fresh);
}

TEST_CASE("ledger: operation numbers from 64 on are told apart as well") {
  ledger x;
  for (std::uint32_t op : {200u, 63u, 64u, 0u, 65u}) {
    CHECK(x.check(key(1, 1, op)) == ledger_verdict::fresh);
    x.record(key(1, 1, op));
  }
  for (std::uint32_t op = 0; op < 300; ++op) {
    bool known = op == 200 || op == 63 || op == 64 || op == 0 || op == 65;
    CHECK((x.check(key(1, 1, op)) == ledger_verdict::duplicate) == known);
  }
}

TEST_CASE("ledger: closure 0 before any list is fresh, not settled") {
  ledger x;
  CHECK(x.check(key(0, 0)) == ledger_verdict::fresh);
}

TEST_CASE("ledger: settled ids lose their entries and stay settled") {
  ledger x;
  for (std::uint64_t seq = 0; seq < 10; ++seq)
    x.record(key(1, seq));
  settle(x, 1, 7, {6, 2});
  CHECK(x.size() == 4); // 2, 6, 8, 9
  CHECK(x.check(key(1, 3)) == ledger_verdict::settled);
  CHECK(x.check(key(1, 3, 9)) == ledger_verdict::settled);
  CHECK(x.check(key(1, 2)) == ledger_verdict::duplicate);
  CHECK(x.check(key(1, 2, 1)) == ledger_verdict::fresh);
  CHECK(x.check(key(1, 9)) == ledger_verdict::duplicate);
  CHECK(x.check(key(1, 10)) == ledger_verdict::fresh);
}

TEST_CASE("ledger: an overtaken list changes nothing and no list brings a settled id back") {
  ledger x;
  settle(x, 1, 9, {4});
  settle(x, 1, 5, {1, 2, 3, 4, 5});
  CHECK(x.check(key(1, 3)) == ledger_verdict::settled);
  settle(x, 1, 9, {3, 4});
  CHECK(x.check(key(1, 3)) == ledger_verdict::settled);
  settle(x, 1, 12, {3, 4, 11});
  CHECK(x.check(key(1, 3)) == ledger_verdict::settled);
  CHECK(x.check(key(1, 4)) == ledger_verdict::fresh);
  CHECK(x.check(key(1, 11)) == ledger_verdict::fresh);
  CHECK(x.check(key(1, 12)) == ledger_verdict::settled);
  settle(x, 1, 12, {11});
  CHECK(x.check(key(1, 4)) == ledger_verdict::settled);
}

TEST_CASE("ledger: a new term starts counting from 0 and settles the old one") {
  ledger x;
  x.record(key(1, 0));
  x.record(key(2, 0));
  settle(x, 1, 100, {});
  CHECK(x.check(key(2, 0)) == ledger_verdict::duplicate);
  CHECK(x.check(key(2, 1)) == ledger_verdict::fresh);
  settle(x, 2, 0, {0});
  CHECK(x.check(key(1, 100000)) == ledger_verdict::settled);
  CHECK(x.check(key(2, 0)) == ledger_verdict::duplicate);
  settle(x, 1, 1000, {7});
  CHECK(x.check(key(1, 7)) == ledger_verdict::settled);
  CHECK(x.check(key(2, 5)) == ledger_verdict::fresh);
}

TEST_CASE("ledger: of the program's own calls only the newest of each thread is kept") {
  ledger x;
  for (std::uint64_t n = 1; n <= 1000; ++n)
    for (std::uint32_t thread : {0u, 1u, 7u}) {
      CHECK(x.check(call(3, thread, n)) == ledger_verdict::fresh);
      x.record(call(3, thread, n));
      CHECK(x.check(call(3, thread, n)) == ledger_verdict::duplicate);
      CHECK(x.check(call(3, thread, n, 1)) == ledger_verdict::fresh);
      CHECK(x.check(call(3, thread, n - 1)) == ledger_verdict::settled);
    }
  CHECK(x.size() == 3);
  settle(x, 3, 1000000, {}); // lists are about closures
  CHECK(x.check(call(3, 7, 1001)) == ledger_verdict::fresh);
  CHECK(x.check(call(3, 7, 1000)) == ledger_verdict::duplicate);
  settle(x, 4, 0, {});
  CHECK(x.size() == 0);
  CHECK(x.check(call(3, 7, 1001)) == ledger_verdict::settled);
  CHECK(x.check(call(4, 7, 1)) == ledger_verdict::fresh);
}

TEST_CASE(
  "ledger: random operations, duplicates and reordered lists agree with a model that forgets "
  "nothing") {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random{seed};
    ledger x;
    std::set<std::pair<std::uint64_t, std::uint32_t>> applied;
    std::set<std::uint64_t> open; // may still run
    std::set<std::uint64_t> closed_for_ledger;
    std::uint64_t dispatched = 0;
    std::vector<std::pair<std::uint64_t, std::vector<std::uint64_t>>> on_the_way;
    auto check_all = [&] {
      for (std::uint64_t seq = 0; seq <= dispatched + 2; ++seq)
        for (std::uint32_t op = 0; op < 3; ++op) {
          auto expected = closed_for_ledger.count(seq) ? ledger_verdict::settled
                          : applied.count({seq, op})   ? ledger_verdict::duplicate
                                                       : ledger_verdict::fresh;
          REQUIRE(x.check(key(1, seq, op)) == expected);
        }
    };
    std::uint64_t newest = 0;
    for (int step = 0; step < 120; ++step) {
      auto dice = random() % 10;
      if (dice < 3) {
        open.insert(++dispatched);
      } else if (dice < 7 && dispatched > 0) {
        auto seq = 1 + random() % dispatched;
        auto op = static_cast<std::uint32_t>(random() % 3);
        if (x.check(key(1, seq, op)) == ledger_verdict::fresh) {
          REQUIRE(applied.insert({seq, op}).second);
          x.record(key(1, seq, op));
        }
      } else if (dice == 7 && !open.empty()) {
        open.erase(std::next(open.begin(), static_cast<long>(random() % open.size())));
      } else if (dice == 8) {
        on_the_way.push_back({dispatched, {open.begin(), open.end()}});
      } else if (!on_the_way.empty()) {
        auto at = on_the_way.begin() + static_cast<long>(random() % on_the_way.size());
        auto [highest, list] = *at;
        on_the_way.erase(at);
        settle(x, 1, highest, list);
        if (highest >= newest) {
          newest = highest;
          std::set<std::uint64_t> kept{list.begin(), list.end()};
          for (std::uint64_t seq = 0; seq <= highest; ++seq)
            if (!kept.count(seq))
              closed_for_ledger.insert(seq);
        }
      }
      check_all();
    }
    std::set<std::uint64_t> remembered;
    for (auto [seq, op] : applied)
      if (!closed_for_ledger.count(seq))
        remembered.insert(seq);
    CHECK(x.size() == remembered.size());
  }
}

TEST_CASE("ledger: room that is made for an operation is no record of it") {
  for (std::uint32_t op : {0u, 63u, 64u, 65u, 1000u}) {
    ledger x;
    for (const auto& k : {key(1, 5, op), call(1, 2, 7, op)}) {
      x.prepare(k);
      CHECK(x.check(k) == ledger_verdict::fresh);
      x.prepare(k);
      x.record(k);
      CHECK(x.check(k) == ledger_verdict::duplicate);
    }
    x.prepare(key(1, 6, op)); // never applied
    settle(x, 1, 6, {});
    CHECK(x.check(key(1, 6, op)) == ledger_verdict::settled);
    CHECK(x.size() == 1);
  }
}
