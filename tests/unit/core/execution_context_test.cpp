#include <troupe/core/execution_context.hpp>

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

TEST_CASE("context_local: each type has a place of its own, empty at first") {
  CHECK(context_local<frame>() == nullptr);
  CHECK(context_local<place>() == nullptr);
  frame one{1};
  place two{2};
  CHECK(exchange_context_local(&one) == nullptr);
  CHECK(context_local<place>() == nullptr);
  CHECK(exchange_context_local(&two) == nullptr);
  CHECK(context_local<frame>() == &one);
  CHECK(exchange_context_local<frame>(nullptr) == &one);
  CHECK(context_local<frame>() == nullptr);
  CHECK(exchange_context_local<place>(nullptr) == &two);
}

TEST_CASE("context_local_scope: what was before is there again after the block") {
  frame outer{1}, inner{2};
  {
    const context_local_scope around{outer};
    {
      const context_local_scope within{inner};
      CHECK(context_local<frame>() == &inner);
    }
    CHECK(context_local<frame>() == &outer);
  }
  CHECK(context_local<frame>() == nullptr);
}

TEST_CASE("context_kept: the thread owns it, and it is not what the thread is in") {
  auto mine = std::make_shared<frame>();
  const std::weak_ptr<frame> seen = mine;
  keep_in_context(std::move(mine));
  CHECK(context_kept<frame>() == seen.lock());
  CHECK(context_kept<place>() == nullptr);
  CHECK(context_local<frame>() == nullptr);
  keep_in_context(std::shared_ptr<frame>{});
  CHECK(seen.expired());
}

TEST_CASE("context_local: a thread with a context of its own has state of its own") {
  frame mine{1};
  const context_local_scope here{mine};
  execution_context other;
  CHECK(exchange_context(&other) == nullptr);
  CHECK(context_local<frame>() == nullptr);
  frame its{2};
  (void)exchange_context_local(&its);
  CHECK(exchange_context(nullptr) == &other);
  CHECK(context_local<frame>() == &mine);
}
