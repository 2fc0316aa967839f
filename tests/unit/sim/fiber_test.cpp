// Goal: fibers that sanitizers, exceptions and ambient state understand, and that end when told to.

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include <troupe/sim/fiber.hpp>

using namespace troupe;
using troupe::sim::fiber;

namespace {

struct witness {
  int& count;
  ~witness() { ++count; }
};

} // namespace

TEST_CASE("fiber: half of a hundred are unwound in the middle, all of their objects go") {
  int unwound = 0, caught = 0;
  for (int round = 0; round < 100; ++round) {
    fiber f{"f", [&] {
              witness w{unwound};
              for (int k = 0; k < 20; ++k) {
                try {
                  throw std::runtime_error(std::string(100, 'x'));
                } catch (const std::runtime_error&) {
                  ++caught;
                }
                fiber::current()->suspend();
              }
            }};
    for (int k = 0; k < (round % 2 ? 5 : 25) && !f.ended(); ++k)
      f.run();
  }
  CHECK(unwound == 100);
  CHECK(caught == 50 * 20 + 50 * 5);
}

TEST_CASE("fiber: two that wait inside a catch block get their own exceptions back") {
  std::string first, second;
  auto keep = [](std::string& to, const char* text) {
    return [&to, text] {
      try {
        try {
          throw std::runtime_error(text);
        } catch (...) {
          fiber::current()->suspend();
          throw;
        }
      } catch (const std::runtime_error& e) {
        to = e.what();
      }
    };
  };
  fiber one{"one", keep(first, "one")}, two{"two", keep(second, "two")};
  one.run();
  two.run();
  one.run();
  two.run();
  CHECK(first == "one");
  CHECK(second == "two");
}

TEST_CASE("fiber: each has its own ambient state") {
  int a = 0, b = 0;
  std::vector<int*> seen;
  auto body = [&](int* mine) {
    return [&seen, mine] {
      (void)exchange_context_local(mine);
      fiber::current()->suspend();
      seen.push_back(context_local<int>());
    };
  };
  fiber one{"one", body(&a)}, two{"two", body(&b)};
  one.run();
  two.run();
  CHECK(context_local<int>() == nullptr);
  one.run();
  two.run();
  CHECK(seen == std::vector<int*>{&a, &b});
}

TEST_CASE("fiber: unwinding passes by a destructor that waits") {
  std::vector<std::string> log;
  struct waits_at_end {
    std::vector<std::string>& log;
    ~waits_at_end() {
      destructor_waits here;
      log.push_back(fiber::current()->suspend() ? "woken" : "ending");
    }
  };
  fiber f{"f", [&] {
            { waits_at_end w{log}; }
            log.push_back("after");
            fiber::current()->suspend();
            log.push_back("never");
          }};
  f.run();
  f.unwind();
  CHECK(f.ended());
  CHECK(log == std::vector<std::string>{"ending", "after"});
}

TEST_CASE("fiber: a wait in a destructor that unwinding runs returns at once") {
  int waits = 0;
  struct waits_at_end {
    int& waits;
    ~waits_at_end() { waits += fiber::current()->suspend() ? 100 : 1; }
  };
  fiber f{"f", [&] {
            waits_at_end w{waits};
            fiber::current()->suspend();
          }};
  f.run();
  f.unwind();
  CHECK(waits == 1);
}

TEST_CASE("fiber: what the body throws is kept, and a body that never ran is dropped") {
  fiber f{"f", [] { throw std::runtime_error("on purpose"); }};
  f.run();
  REQUIRE(f.ended());
  CHECK_THROWS_AS(std::rethrow_exception(f.error()), std::runtime_error);

  int gone = 0;
  std::shared_ptr<witness> held{new witness{gone}};
  fiber never_run{"n", [held] {}};
  held.reset();
  CHECK(gone == 0);
  never_run.unwind();
  CHECK(never_run.ended());
  CHECK(gone == 1);
}

TEST_CASE("fiber: one may end another") {
  int unwound = 0;
  fiber inner{"inner", [&] {
                witness w{unwound};
                fiber::current()->suspend();
              }};
  inner.run();
  fiber outer{"outer", [&] {
                inner.unwind();
                fiber::current()->suspend();
              }};
  outer.run();
  CHECK(inner.ended());
  CHECK(unwound == 1);
  CHECK(fiber::current() == nullptr);
}
