// One replica's part of a step. Goal: on a device, whichever, it makes the same weights as plain
// CPU code, also when replicas have different numbers of rows or none. Method: the same batches
// through both, on CPU devices and on GPUs that are made up.
#include "replica_step.hpp"

#include "../strategies/replicas/device_support.hpp"

namespace {

using namespace replicas_test;
using tool::replica_step;
using tool::step_place;

/// Images and labels that a seed draws.
dataset made_up(std::int64_t n) {
  tensor images{dtype::f32, {n, 28, 28}};
  tensor labels{dtype::i64, {n}};
  std::uint64_t random = 1;
  const auto draw = [&](std::uint64_t below) { return next_random(random) % below; };
  for (auto& x : images.mutable_as<float>())
    x = static_cast<float>(draw(256)) / 256;
  for (auto& x : labels.mutable_as<std::int64_t>())
    x = static_cast<std::int64_t>(draw(10));
  return dataset::from_tensors({images, labels});
}

struct trained {
  std::vector<tensor> weights{};
  double loss_sum = 0;
  std::int64_t rows = 0;
};

/// A few steps under `s`; the last batch has 9 rows, so that replicas get different ones, or none.
trained train(const strategy& s, step_place where) {
  distributed_variables weights;
  s.scope([&] {
    const auto make = [&](shape_t shape, initializer_spec initial) {
      weights.push_back(make_variable({.name = "v" + std::to_string(weights.size()),
                                       .shape = std::move(shape),
                                       .initial = initial,
                                       .optimizer = adam{1e-2f}}));
    };
    make({784, 128}, glorot_uniform(3));
    make({128}, zeros());
    make({128, 10}, glorot_uniform(4));
    make({10}, zeros());
  });
  replica_step step{weights, s.num_local_replicas(), where};
  trained out;
  for (auto& batch : distribute_dataset(s, made_up(57).batch(16))) {
    const auto seen =
      s.run([&](replica_context& ctx, const element& mine) { return step(ctx, mine); }, batch);
    for (const auto& each : seen) {
      out.loss_sum += each.loss_sum;
      out.rows += each.rows;
    }
  }
  for (const auto& v : weights)
    for (std::size_t i = 0; i < v.components(); ++i) {
      CHECK(v.component(i) == v.component(0));
      if (i == 0)
        out.weights.push_back(v.component(0));
    }
  return out;
}

void check_same_bits(const trained& got, const trained& want) {
  CHECK(got.rows == 57);
  CHECK(got.loss_sum == doctest::Approx(want.loss_sum));
  REQUIRE(got.weights.size() == want.weights.size());
  for (std::size_t i = 0; i < want.weights.size(); ++i) {
    CAPTURE(i);
    CHECK(same_bits(got.weights[i], want.weights[i]));
  }
}

TEST_CASE("replica step: on CPU devices the weights have the bits of plain CPU code") {
  for (std::uint32_t n : {1u, 2u, 4u}) {
    CAPTURE(n);
    check_same_bits(train(mirrored_over(n), step_place::device),
                    train(mirrored_over(n), step_place::host));
  }
  const strategy shared = central_storage_strategy{shared_runtime(), cpus(2)};
  check_same_bits(train(shared, step_place::device), train(mirrored_over(2), step_place::host));
}

TEST_CASE("replica step: on GPUs it runs their kernels, and ends with the same weights") {
  gpu_host host;
  for (const auto& devices :
       {std::vector<std::string>{"gpu:0"}, std::vector<std::string>{"gpu:0", "gpu:1"}}) {
    const auto before = host.backend().calls("run");
    const auto n = static_cast<std::uint32_t>(devices.size());
    check_same_bits(train(host.over(devices), step_place::device),
                    train(mirrored_over(n), step_place::host));
    CHECK(host.backend().calls("run") > before);
  }
  // Four steps of two: the last layer's gradients by themselves, before the first layer's are
  // there.
  CHECK(host.backend().calls("comm_all_reduce") == 4 * 2 * 3);
}

TEST_CASE("replica step: a device that breaks is named") {
  gpu_host host;
  const auto s = host.over({"gpu:0", "gpu:1"});
  host.backend().plant({.function = "execute:dense_backward", .device = 1});
  const auto why = failure_of([&] { (void)train(s, step_place::device); });
  CHECK_MESSAGE(why.text.find("gpu:1") != std::string::npos, to_string(why));
}

} // namespace
