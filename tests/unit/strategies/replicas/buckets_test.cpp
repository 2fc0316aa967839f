// Many tensors in one all_reduce. Goal: each comes back as its own sum, with its own shape, however
// they are packed, and nobody's input changes. Method: the same tensors with buckets that take all,
// some and none of them together; gradients of one replica, which nothing is done to.

#include "support.hpp"

namespace {

using namespace replicas_test;

std::vector<tensor> tensors_of(float x) {
  const auto whole = static_cast<std::int64_t>(x);
  return {
    vec<float>({x, -x, x * x}),        tensor::scalar(x / 2),
    tensor::zeros(dtype::f32, {0, 7}), tensor::of<float>({2, 2}, std::vector<float>{x, 1, 2, x}),
    vec<std::int64_t>({whole, 5}),     vec<float>({x})};
}

void check_equal(const std::vector<tensor>& got, const std::vector<tensor>& want) {
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    CHECK(got[i].shape() == want[i].shape());
    CHECK(got[i] == want[i]);
  }
}

TEST_CASE("all_reduce of many: each is its own sum, whatever a bucket takes") {
  const std::vector<tensor> sums{vec<float>({3, -3, 5}),
                                 tensor::scalar(1.5f),
                                 tensor::zeros(dtype::f32, {0, 7}),
                                 tensor::of<float>({2, 2}, std::vector<float>{3, 2, 4, 3}),
                                 vec<std::int64_t>({3, 10}),
                                 vec<float>({3})};
  const std::vector<tensor> means{vec<float>({1.5f, -1.5f, 2.5f}),
                                  tensor::scalar(0.75f),
                                  tensor::zeros(dtype::f32, {0, 7}),
                                  tensor::of<float>({2, 2}, std::vector<float>{1.5f, 1, 2, 1.5f}),
                                  vec<double>({1.5, 5}),
                                  vec<float>({1.5f})};
  auto s = mirrored_over(2);
  for (std::size_t bucket_bytes :
       {collective_options{}.bucket_bytes, std::size_t{16}, std::size_t{1}}) {
    CAPTURE(bucket_bytes);
    const auto equal = s.run([&](replica_context& ctx) {
      const float x = ctx.replica_id_in_sync_group() == 0 ? 1.0f : 2.0f;
      const auto mine = tensors_of(x);
      collective_options how;
      how.bucket_bytes = bucket_bytes;
      check_equal(ctx.all_reduce(reduce_op::sum, mine, how), sums);
      check_equal(ctx.all_reduce(reduce_op::mean, mine, how), means);
      check_equal(mine, tensors_of(x));
      return true;
    });
    CHECK(equal[0]);
  }
}

TEST_CASE("all_reduce of many: whoever writes to one result changes no other, and no input") {
  auto s = mirrored_over(2);
  s.run([&](replica_context& ctx) {
    const auto mine = tensors_of(1);
    auto got = ctx.all_reduce(reduce_op::sum, mine);
    const auto second = got[1].clone();
    for (float& x : got[0].mutable_as<float>())
      x = 77;
    for (float& x : got[3].mutable_as<float>())
      x = 78;
    CHECK(got[1] == second);
    CHECK(got[0] == vec<float>({77, 77, 77}));
    check_equal(mine, tensors_of(1));
  });
}

TEST_CASE("apply: one replica's gradients are their own sum and mean, and stay as they are") {
  for (const bool mirrored : {true, false})
    for (auto op : {reduce_op::sum, reduce_op::mean}) {
      strategy s = mirrored ? strategy{mirrored_over(1)}
                            : strategy{one_device_strategy{shared_runtime(), "cpu:0"}};
      auto w = s.scope([] {
        return make_variable({.initial = vec<float>({1, 2}), .optimizer = sgd{0.5f}});
      });
      const auto gradient = vec<float>({2, 4});
      s.run([&](replica_context& ctx) { ctx.apply({w}, {gradient}, op); });
      CHECK(w.read() == vec<float>({0, 0}));
      CHECK(gradient == vec<float>({2, 4}));
      names(failure_of([&] {
              s.run([&](replica_context& ctx) { ctx.apply({w}, {vec<float>({1, 2, 3})}, op); });
            }),
            errc::shape_mismatch, {"[3]", "[2]"});
      CHECK(w.read() == vec<float>({0, 0}));
    }
}

TEST_CASE("apply: outside its replica's function a context applies nothing") {
  auto s = mirrored_over(1);
  auto w = s.scope([] {
    return make_variable({.initial = vec<float>({1, 2}), .optimizer = sgd{0.5f}});
  });
  s.run([&](replica_context& ctx) {
    ctx.merge_call([&](strategy&) {
      names(failure_of([&] {
              ctx.apply({w}, {vec<float>({2, 4})});
            }),
            errc::wrong_state, {"apply", "inside a function"});
    });
  });
  CHECK(w.read() == vec<float>({1, 2}));
}

} // namespace
