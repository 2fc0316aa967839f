// Goal: memory is used again once nobody holds it, never before, and what lies idle is bounded.
#include <doctest/doctest.h>

#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include <troupe/actors/support/tensor_pool.hpp>
#include <troupe/core/error.hpp>

using namespace troupe;

namespace {

constexpr std::int64_t mib = 1 << 20;

const std::byte* place(const tensor& x) { return x.bytes().data(); }

} // namespace

TEST_CASE("tensor_pool: memory is used again when its last handle has gone, and not before") {
  tensor_pool pool;
  auto first = pool.make(dtype::u8, {mib});
  auto view = first.rows(10, 20);
  const auto* at = place(first);
  first = {};
  CHECK(pool.kept_bytes() == 0);
  CHECK(place(pool.make(dtype::u8, {mib})) != at);
  view = {};
  CHECK(pool.kept_bytes() >= static_cast<std::size_t>(mib));
  std::vector<tensor> all;
  for (int i = 0; i < 3; ++i)
    all.push_back(pool.make(dtype::f32, {mib / 4}));
  CHECK(pool.kept_bytes() == 0);
  bool again = false;
  for (const auto& x : all)
    again = again || place(x) == at;
  CHECK(again);
  CHECK(place(all[0]) != place(all[1]));
  CHECK(place(all[1]) != place(all[2]));
}

TEST_CASE(
  "tensor_pool: shapes, types and alignment are as without it, and small ones are not kept") {
  tensor_pool pool;
  pool.make(dtype::u8, {4 * mib});
  auto x = pool.make(dtype::f64, {mib / 4, 2}); // smaller than what lies there, not by much
  CHECK(x.shape() == shape_t{mib / 4, 2});
  CHECK(x.type() == dtype::f64);
  CHECK(x.size_bytes() == static_cast<std::size_t>(4 * mib));
  CHECK(reinterpret_cast<std::uintptr_t>(place(x)) % 64 == 0);
  x = {};
  const auto kept = pool.kept_bytes();
  auto much_smaller = pool.make(dtype::u8, {mib});
  CHECK(pool.kept_bytes() == kept); // most of it would be wasted
  pool.make(dtype::u8, {100});
  pool.make(dtype::f32, {});
  CHECK(pool.kept_bytes() == kept);
  CHECK_THROWS_AS(pool.make(dtype::f32, {-1}), troupe::error);
}

TEST_CASE("tensor_pool: what lies idle is bounded, and a pool may go before its tensors") {
  auto pool = std::make_unique<tensor_pool>(static_cast<std::size_t>(3 * mib));
  {
    std::vector<tensor> all;
    for (int i = 0; i < 5; ++i)
      all.push_back(pool->make(dtype::u8, {mib}));
    all.push_back(pool->make(dtype::u8, {4 * mib})); // more than may lie idle at all
  }
  CHECK(pool->kept_bytes() == static_cast<std::size_t>(3 * mib));
  auto kept = pool->make(dtype::u8, {mib});
  pool.reset();
  kept.mutable_bytes()[0] = std::byte{1};
}

TEST_CASE("tensor_pool: tensors are let go on any thread") {
  tensor_pool pool;
  for (int round = 0; round < 200; ++round) {
    auto x = pool.make(dtype::u8, {mib / 2});
    x.mutable_bytes()[0] = static_cast<std::byte>(round);
    std::thread other{[y = std::move(x), round]() mutable {
      if (y.bytes()[0] != static_cast<std::byte>(round))
        std::abort();
      y = {};
    }};
    if (round % 2 == 0)
      other.join();
    else
      other.detach();
  }
}
