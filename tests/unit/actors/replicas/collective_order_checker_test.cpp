// What replicas of a run must do alike. Goal: every difference is found by whoever makes it, and
// quotes both sides. Method: the plain class, all interleavings of short programs.

#include <doctest/doctest.h>

#include <functional>
#include <set>
#include <vector>

#include <troupe/actors/replicas/collective_order_checker.hpp>

namespace {

using namespace troupe;

replica_call call(std::string kind, shape_t shape = {2}) {
  return {.kind = std::move(kind), .how = "sum", .type = dtype::f32, .shapes = {std::move(shape)}};
}

TEST_CASE("collective order checker: a call reads as a sentence") {
  CHECK(to_string(call("all_reduce")) == "all_reduce sum f32[2]");
  CHECK(to_string(replica_call{.kind = "barrier"}) == "barrier");
  CHECK(to_string(replica_call{
          .kind = "all_reduce", .how = "max", .type = dtype::i64, .shapes = {{}, {3, -1}}})
        == "all_reduce max i64[], i64[3, -1]");
}

TEST_CASE("collective order checker: alike calls agree, whoever is ahead") {
  collective_order_checker l{4, 3};
  for (int round = 0; round < 5; ++round) {
    for (std::uint32_t i = 0; i < 3; ++i) {
      CHECK(!l.begin((i + static_cast<std::uint32_t>(round)) % 3, call("a")));
      CHECK(l.all_in_call() == (i == 2));
    }
    CHECK(l.waiting() == "op " + std::to_string(round + 1) + " a sum f32[2] runs");
    for (std::uint32_t i = 0; i < 3; ++i)
      l.done(i);
    CHECK(l.waiting().empty());
  }
  CHECK(!l.begin(1, call("b")));
  CHECK(l.waiting() == "op 6 b sum f32[2] waits for {4, 6}");
}

TEST_CASE(
  "collective order checker: the call that a replica stands in, until the others' ends too") {
  collective_order_checker l{0, 2};
  CHECK(!l.begin(0, call("a")));
  CHECK(!l.begin(1, call("a")));
  l.done(0);
  CHECK(!l.begin(0, call("b")));
  CHECK(l.current(0) == call("b"));
  CHECK(l.current(1) == call("a"));
  l.done(1);
  CHECK(l.current(0) == call("b"));
}

TEST_CASE(
  "collective order checker: a different call quotes both, with the number and the replicas' ids") {
  collective_order_checker l{0, 2};
  CHECK(!l.begin(0, call("a")));
  auto why = l.begin(1, call("a", {3}));
  REQUIRE(why);
  CHECK(why->code == errc::mismatch);
  CHECK(why->text == "call 1: replica 1 calls a sum f32[3], replica 0 calls a sum f32[2]");
}

TEST_CASE(
  "collective order checker: parts of one gather that do not fit are bad values, with the code for "
  "that") {
  const auto gather = [](dtype type, shape_t shape, const char* how = "axis 0", bool on = false) {
    return replica_call{.kind = "all_gather",
                        .how = how,
                        .type = type,
                        .shapes = {std::move(shape)},
                        .on_devices = on};
  };
  const auto code = [&](const replica_call& a, const replica_call& b) {
    collective_order_checker l{0, 2};
    CHECK(!l.begin(0, a));
    const auto why = l.begin(1, b);
    return why ? why->code : errc::none;
  };
  const auto first = gather(dtype::f32, {-1, 2});
  CHECK(code(first, first) == errc::none);
  CHECK(code(first, gather(dtype::f32, {-1, 3})) == errc::shape_mismatch);
  CHECK(code(first, gather(dtype::f32, {-1})) == errc::shape_mismatch);
  CHECK(code(first, gather(dtype::f64, {-1, 3})) == errc::dtype_mismatch);
  CHECK(code(first, gather(dtype::f32, {2, -1}, "axis 1")) == errc::mismatch);
  CHECK(code(first, gather(dtype::f32, {-1, 2}, "axis 0", true)) == errc::mismatch);
  CHECK(code(first, call("all_gather")) == errc::mismatch);
  CHECK(code(call("all_reduce"), call("all_reduce", {3})) == errc::mismatch);
}

TEST_CASE("collective order checker: who ends early is found from both sides") {
  collective_order_checker l{0, 2};
  CHECK(!l.end(0, true));
  auto why = l.begin(1, call("a"));
  REQUIRE(why);
  CHECK(why->text == "call 1: replica 1 calls a sum f32[2], but replica 0 has ended after 0 calls");
  collective_order_checker m{0, 2};
  CHECK(!m.begin(1, call("a")));
  why = m.end(0, true);
  REQUIRE(why);
  CHECK(why->text == "call 1: replica 1 calls a sum f32[2], but replica 0 has ended after 0 calls");
  collective_order_checker n{0, 2};
  CHECK(!n.begin(1, call("a")));
  CHECK(!n.end(0, false)); // it failed: that is told by itself
}

/// Every order in which two programs can run: a difference is found if and only if there is one.
TEST_CASE("collective order checker: all interleavings of short programs") {
  const std::vector<std::vector<char>> programs{{},         {'a'},      {'b'},
                                                {'a', 'b'}, {'a', 'a'}, {'b', 'a'}};
  int runs = 0;
  for (const auto& p : programs)
    for (const auto& q : programs) {
      const std::vector<char>* both[] = {&p, &q};
      // A step of a program is a call, its return once both have made it, or the end.
      std::function<void(std::vector<int>)> go = [&](std::vector<int> order) {
        collective_order_checker l{0, 2};
        std::size_t next[] = {0, 0};
        bool found = false, in[] = {false, false}, ended[] = {false, false};
        auto step = [&](int r) { // false: it can't move
          const auto i = static_cast<std::uint32_t>(r);
          if (ended[r])
            return false;
          if (in[r]) {
            if (next[1 - r] < next[r])
              return false;
            l.done(i);
            in[r] = false;
            return true;
          }
          if (next[r] == both[r]->size()) {
            found = found || l.end(i, true).has_value();
            ended[r] = true;
            return true;
          }
          found = found || l.begin(i, call(std::string(1, (*both[r])[next[r]]))).has_value();
          ++next[r];
          in[r] = true;
          return true;
        };
        for (int r : order)
          if (!step(r) || found)
            break;
        bool moved = true;
        while (!found && std::exchange(moved, false))
          for (int r : {0, 1})
            moved = step(r) || moved;
        CHECK(found == (p != q));
        ++runs;
      };
      for (int bits = 0; bits < 64; ++bits) {
        std::vector<int> order;
        for (int k = 0; k < 6; ++k)
          order.push_back(bits >> k & 1);
        go(order);
      }
    }
  CHECK(runs == 36 * 64);
}

} // namespace
