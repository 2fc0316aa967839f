// Promises that were once broken, each test named after what it broke; and variables made from
// steps (protocol 3.8).
#include <doctest/doctest.h>

#include <filesystem>
#include <stdexcept>

#include "../../../support/failures.hpp"
#include "cluster_support.hpp"

using namespace troupe;
using namespace troupe::test;

namespace {

variable_options of_step(std::int64_t rows) {
  return {
    .name = "from_step", .shape = {rows, 2}, .initial = constant(3.0f), .optimizer = sgd{1.0f}};
}

float make_or_find(worker_context& ctx, std::int64_t rows) {
  auto v = ctx.get_or_create(of_step(rows));
  auto value = ctx.read(v).to_tensor();
  auto ones = tensor::zeros(dtype::f32, value.shape());
  for (auto& x : ones.mutable_as<float>())
    x = 1.0f;
  ctx.apply(v, ones);
  return value.as<float>()[0];
}
TROUPE_FUNCTION(make_or_find);

void throw_code(worker_context&, int code) {
  throw_failure(static_cast<errc>(code), "the step's own");
}
TROUPE_FUNCTION(throw_code);

} // namespace

TEST_CASE(
  "a member that has lived longer than it would wait for a coordinator says hello all the same") {
  runtime_options options;
  options.coordinator_lost_ms_max = 0; // every hello comes later than that
  options.start_timeout = patience;
  CHECK_NOTHROW(runtime{options});
}

TEST_CASE(
  "a creation that the servers refuse leaves no variable behind: the name is free, a save works") {
  scratch_folder at;
  runtime rt;
  parameter_server_strategy strategy{rt};
  cluster_coordinator coordinator{strategy};
  variable_options wrong{.name = "w", .shape = {4}, .type = dtype::i64, .optimizer = adam{1e-3f}};
  CHECK_THROWS_AS(strategy.create_variable(wrong), error);
  CHECK(strategy.variables().empty());
  auto right = strategy.create_variable({.name = "w", .shape = {4}});
  CHECK(right.read() == tensor::zeros(dtype::f32, {4}));
  CHECK_NOTHROW(coordinator.save(at.text()));
}

TEST_CASE(
  "a step that throws cancelled, fenced or unavailable of its own is the user's error, and no "
  "worker is fenced") {
  runtime rt;
  parameter_server_strategy strategy{rt};
  cluster_coordinator coordinator{strategy};
  for (auto code : {errc::cancelled, errc::fenced, errc::unavailable}) {
    CAPTURE(to_string(code));
    coordinator.schedule(throw_code, static_cast<int>(code));
    CHECK(code_of([&] { coordinator.join(patience); }) == errc::user_code);
  }
  CHECK(coordinator.statistics().fenced == 0);
}

TEST_CASE("start waits for as many workers as it was told") {
  runtime rt{runtime_options{.workers = 3, .start_workers = 3}};
  parameter_server_strategy strategy{rt};
  CHECK(cluster_coordinator{strategy}.workers().size() == 3);
}

TEST_CASE("after its runtime has ended a variable and a value say so") {
  variable left;
  remote_value<float> value;
  {
    runtime rt;
    parameter_server_strategy strategy{rt};
    cluster_coordinator coordinator{strategy};
    left = strategy.create_variable({.name = "w", .shape = {2}});
    value = coordinator.schedule(make_or_find, std::int64_t{2});
    coordinator.join(patience);
  }
  CHECK(code_of([&] { left.read(); }) == errc::unavailable);
  CHECK(value.fetch() == 3.0f); // it had arrived
}

TEST_CASE(
  "a step makes a variable once: the first specification wins, another is a mismatch, updates "
  "count once") {
  runtime rt;
  parameter_server_strategy strategy{rt, {.partitioner = fixed_shards_partitioner{2}}};
  cluster_coordinator coordinator{strategy};
  std::vector<remote_value<float>> seen;
  for (int i = 0; i < 20; ++i)
    seen.push_back(coordinator.schedule(make_or_find, std::int64_t{4}));
  coordinator.join(patience);
  auto all = strategy.variables();
  REQUIRE(all.size() == 1);
  CHECK(all[0].name() == "from_step");
  CHECK(all[0].spec().shards.size() == 2);
  CHECK(all[0].read().at<float>(0) == 3.0f - 20.0f);
  for (auto& x : seen)
    CHECK(x.fetch() <= 3.0f);
  coordinator.schedule(make_or_find, std::int64_t{5});
  CHECK(code_of([&] { coordinator.join(patience); }) == errc::mismatch);
  auto next = strategy.create_variable({.name = "next", .shape = {2}});
  CHECK(next.spec().shards[0].server == 0); // placement went on by two shards, once
}

TEST_CASE("a partitioner that throws for a step's variable fails the step, not the coordinator") {
  runtime rt;
  parameter_server_strategy strategy{
    rt, {.partitioner = [](const shape_t&, dtype) -> std::vector<std::int64_t> {
      throw std::runtime_error{"no idea"};
    }}};
  cluster_coordinator coordinator{strategy};
  coordinator.schedule(make_or_find, std::int64_t{4});
  CHECK_THROWS_AS(coordinator.join(patience), error);
  coordinator.schedule([](worker_context&) { return 1; });
  CHECK_NOTHROW(coordinator.join(patience));
}

TEST_CASE("PS-B4 with two threads: an iterator gives each element to one of them") {
  runtime rt{runtime_options{.workers = 1, .threads_per_worker = 2}};
  parameter_server_strategy strategy{rt};
  cluster_coordinator coordinator{strategy};
  auto it = coordinator.create_per_worker_dataset([] { return dataset::range(500).shuffle(500); })
              .iterator();
  std::vector<remote_value<std::int64_t>> seen;
  for (int i = 0; i < 500; ++i)
    seen.push_back(coordinator.schedule(
      [](worker_context&, dataset_iterator& from) { return from.next().item<std::int64_t>(); },
      it));
  std::vector<bool> given(500, false);
  for (auto& x : seen) {
    auto at = static_cast<std::size_t>(x.fetch());
    CHECK_FALSE(given.at(at));
    given.at(at) = true;
  }
}
