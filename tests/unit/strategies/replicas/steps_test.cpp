// Loops over steps. Goal: protocol 6.3, the group's counter: where a loop begins, what commits a
// step and what does not. Method: strategies over CPU devices of this process.

#include "support.hpp"

namespace {

using namespace replicas_test;

std::vector<std::int64_t> walked(const strategy& s, std::int64_t n) {
  std::vector<std::int64_t> out;
  for (auto step : s.steps(n))
    out.push_back(step);
  return out;
}

TEST_CASE("SYNC-STEPS a loop takes the steps that are not committed yet") {
  auto s = mirrored_over(2);
  CHECK(s.committed_steps() == 0);
  CHECK(walked(s, 3) == std::vector<std::int64_t>{0, 1, 2});
  CHECK(s.committed_steps() == 3);
  CHECK(walked(s, 3).empty());
  CHECK(walked(s, 2).empty());
  CHECK(s.committed_steps() == 3);
  CHECK(walked(s, 5) == std::vector<std::int64_t>{3, 4});
  CHECK(strategy{s.state()}.committed_steps() == 5); // copies are the same strategy
  CHECK(mirrored_over(2).committed_steps() == 0);    // others are not
}

TEST_CASE("SYNC-STEPS a step is committed at its end, not before") {
  auto s = mirrored_over(2);
  for (auto step : s.steps(4)) {
    CHECK(s.committed_steps() == step);
    if (step % 2 == 0)
      continue; // an end like any other
    CHECK(
      s.run([](replica_context& ctx) { return ctx.all_reduce(reduce_op::sum, 1.0f); }).as_single()
      == 2);
  }
  CHECK(s.committed_steps() == 4);
}

TEST_CASE("SYNC-STEPS a step that throws, or that is left, is done again") {
  auto s = mirrored_over(2);
  const auto failing = [&](std::int64_t at) {
    for (auto step : s.steps(10))
      s.run([&](replica_context& ctx) {
        if (step == at && id_of(ctx) == 1)
          throw std::runtime_error{"replica 1"};
      });
  };
  CHECK_THROWS_AS(failing(2), std::runtime_error);
  CHECK(s.committed_steps() == 2);
  for (auto step : s.steps(10)) {
    CHECK(step == 2);
    break;
  }
  CHECK(s.committed_steps() == 2);
  failing(-1);
  CHECK(s.committed_steps() == 10);
}

TEST_CASE("SYNC-STEPS a restored program goes on where the checkpoint was") {
  auto s = mirrored_over(2);
  s.set_committed_steps(7);
  CHECK(walked(s, 9) == std::vector<std::int64_t>{7, 8});
  s.set_committed_steps(0);
  CHECK(walked(s, 1) == std::vector<std::int64_t>{0});
  names(failure_of([&] { s.set_committed_steps(-2); }), errc::invalid_argument,
        {"set_committed_steps", "-2", "mirrored_strategy"});
  names(failure_of([&] { (void)s.steps(-1); }), errc::invalid_argument, {"steps", "-1"});
  CHECK(s.committed_steps() == 1);
}

TEST_CASE("SYNC-STEPS two loops at once do not count a step twice") {
  auto s = mirrored_over(2);
  const auto why = failure_of([&] {
    for (auto step : s.steps(3))
      if (step == 1)
        (void)walked(s, 2);
  });
  names(why, errc::wrong_state, {"step 1", "2 are committed", "mirrored_strategy"});
  CHECK(s.committed_steps() == 2);
  names(failure_of([&] {
          for ([[maybe_unused]] auto step : s.steps(3))
            s.set_committed_steps(0);
        }),
        errc::wrong_state, {"step 2", "0 are committed", "set_committed_steps"});
}

TEST_CASE("SYNC-STEPS loops are of the program, not of a replica") {
  auto s = mirrored_over(2);
  names(failure_of([&] { s.run([&] { (void)walked(s, 2); }); }), errc::wrong_state,
        {"steps", "replica"});
  names(failure_of([&] { s.run([&] { s.set_committed_steps(1); }); }), errc::wrong_state,
        {"set_committed_steps", "replica"});
  CHECK(s.committed_steps() == 0);
  s.scope([&] { CHECK(walked(s, 2).size() == 2); });
  one_device_strategy one{shared_runtime(), "cpu:0"};
  CHECK(walked(one, 2) == std::vector<std::int64_t>{0, 1});
}

TEST_CASE("SYNC-STEPS a loop with an end and input that goes on") {
  auto s = mirrored_over(2);
  auto input = distribute_dataset(s, dataset::range(100).batch(4)).iterate();
  double total = 0;
  for ([[maybe_unused]] auto step : s.steps(3)) {
    auto out = s.run(
      [](const element& x) {
        std::int64_t sum = 0;
        for (auto each : x.only().as<std::int64_t>())
          sum += each;
        return tensor::scalar(sum);
      },
      input.next());
    total += static_cast<double>(s.reduce(reduce_op::sum, out).item<std::int64_t>());
  }
  CHECK(total == 66); // 0 to 11
  CHECK(s.committed_steps() == 3);
}

} // namespace
