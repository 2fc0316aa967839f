#include <troupe/core/lane_context.hpp>

#include <memory>

#include <doctest/doctest.h>

namespace {

using namespace troupe;

struct frame {
  int depth = 0;
};
struct place {
  int number = 0;
};

} // namespace

TEST_CASE("lane_local: each type has a place of its own, empty at first") {
  CHECK(lane_local<frame>() == nullptr);
  CHECK(lane_local<place>() == nullptr);
  frame one{1};
  place two{2};
  CHECK(exchange_lane_local(&one) == nullptr);
  CHECK(lane_local<place>() == nullptr);
  CHECK(exchange_lane_local(&two) == nullptr);
  CHECK(lane_local<frame>() == &one);
  CHECK(exchange_lane_local<frame>(nullptr) == &one);
  CHECK(lane_local<frame>() == nullptr);
  CHECK(exchange_lane_local<place>(nullptr) == &two);
}

TEST_CASE("lane_local_scope: what was before is there again after the block") {
  frame outer{1}, inner{2};
  {
    const lane_local_scope around{outer};
    CHECK(around.before() == nullptr);
    {
      const lane_local_scope within{inner};
      CHECK(within.before() == &outer);
      CHECK(lane_local<frame>() == &inner);
    }
    CHECK(lane_local<frame>() == &outer);
  }
  CHECK(lane_local<frame>() == nullptr);
}

TEST_CASE("lane_kept: the lane owns it, and it is not what the lane is in") {
  auto mine = std::make_shared<frame>();
  const std::weak_ptr<frame> seen = mine;
  keep_on_lane(std::move(mine));
  CHECK(lane_kept<frame>() == seen.lock());
  CHECK(lane_kept<place>() == nullptr);
  CHECK(lane_local<frame>() == nullptr);
  keep_on_lane(std::shared_ptr<frame>{});
  CHECK(seen.expired());
}

TEST_CASE("lane_local: a lane with a context of its own has state of its own") {
  frame mine{1};
  const lane_local_scope here{mine};
  execution_context other;
  CHECK(exchange_context(&other) == nullptr);
  CHECK(lane_local<frame>() == nullptr);
  frame its{2};
  (void)exchange_lane_local(&its);
  CHECK(exchange_context(nullptr) == &other);
  CHECK(lane_local<frame>() == &mine);
}
