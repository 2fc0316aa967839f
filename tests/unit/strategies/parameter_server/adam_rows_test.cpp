#include <doctest/doctest.h>

#include "cluster_support.hpp"

// Adam's two rules for sparse gradients, through the public calls.
namespace {

using namespace troupe;
using namespace troupe::test;

void push_dense(worker_context& ctx, const variable& v, const tensor& gradient) {
  ctx.apply(v, gradient);
}
TROUPE_FUNCTION(push_dense);

void push_rows(worker_context& ctx, const variable& v, const tensor& indices,
               const tensor& values) {
  ctx.apply(v, sparse_gradient{.indices = indices, .values = values});
}
TROUPE_FUNCTION(push_rows);

} // namespace

TEST_CASE("Adam's sparse rule was lazy: pushed rows train a cut table as the dense gradient does") {
  auto c = cut(3);
  const auto table = [&](const char* name, bool lazy) {
    return c.strategy.create_variable({.name = name,
                                       .initial = counted(6, 2, 1),
                                       .optimizer = adam{.learning_rate = 0.1f, .lazy = lazy}});
  };
  auto sparse = table("sparse", false), dense = table("dense", false), lazy = table("lazy", true);
  // A step's rows are in one shard; the other two get empty pieces.
  for (std::int64_t row : {5, 0, 5, 2}) {
    auto at = tensor::vector<std::int64_t>({row});
    auto values = floats({1, 2}, {1, -2});
    auto whole = tensor::zeros(dtype::f32, {6, 2});
    whole.mutable_as<float>()[static_cast<std::size_t>(2 * row)] = 1;
    whole.mutable_as<float>()[static_cast<std::size_t>(2 * row + 1)] = -2;
    c.coordinator.schedule(push_rows, sparse, at, values).fetch();
    c.coordinator.schedule(push_rows, lazy, at, values).fetch();
    c.coordinator.schedule(push_dense, dense, whole).fetch();
  }
  CHECK(sparse.read() == dense.read());
  CHECK(lazy.read() != dense.read());
  CHECK(lazy.read().rows(1, 2) == counted(6, 2, 1).rows(1, 2)); // never named
}
