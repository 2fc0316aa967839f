#include <cmath>
#include <thread>

#include <doctest/doctest.h>

#include "cluster_support.hpp"

// Variables of a running cluster: where they land, what they start with, what steps and the program
// do to them. Sharded ones are in sharded_variable_test.cpp.
namespace {

using namespace troupe;
using namespace troupe::test;

variable_options scalar(std::string name, float value) {
  return {.name = std::move(name), .initial = tensor::scalar(value)};
}

float update_both(worker_context&, const variable& a, const variable& b) {
  a.assign_add(tensor::scalar(0.1f));
  b.assign_sub(tensor::scalar(0.2f));
  return (a.read().item<float>() + b.read().item<float>() * 0.03125f); // sees its own writes
}
TROUPE_FUNCTION(update_both);

void push_ones(worker_context& ctx, const variable& v) {
  tensor g{v.type(), v.shape()};
  for (float& x : g.mutable_as<float>())
    x = 1.0f;
  ctx.apply(v, g);
}
TROUPE_FUNCTION(push_ones);

} // namespace

TEST_CASE("PS-V1, PS-V2, PS-T-S4 four scalars on three servers land on 0, 1, 2, 0") {
  small_cluster c{{.servers = 3}};
  auto made = c.strategy.scope([&] {
    variable_list out;
    for (int i = 0; i < 4; ++i)
      out.push_back(create_variable(scalar("", static_cast<float>(i))));
    return out;
  });
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(servers_of(made[i]) == std::vector<std::uint32_t>{static_cast<std::uint32_t>(i % 3)});
    CHECK(made[i].read().item<float>() == static_cast<float>(i));
    CHECK_FALSE(made[i].is_sharded());
  }
  CHECK(c.strategy.variables().size() == 4);
  auto s = c.coordinator.statistics();
  REQUIRE(s.servers.size() == 3);
  CHECK(s.servers[0].shards == 2);
  CHECK(s.servers[1].shards == 1);
}

TEST_CASE("PS-V1 outside a scope create_variable is refused; the innermost scope counts") {
  small_cluster c;
  CHECK(failure_of([&] { create_variable(scalar("v", 0)); }).code == errc::wrong_state);
  c.strategy.scope([&] { create_variable(scalar("v", 0)); });
  CHECK(failure_of([&] { create_variable(scalar("w", 0)); }).code == errc::wrong_state);
  CHECK_THROWS_AS(c.strategy.scope([]() -> int { throw 1; }), int);
  CHECK(failure_of([&] { create_variable(scalar("w", 0)); }).code == errc::wrong_state);
}

TEST_CASE("PS-V5 a colocated variable follows, is never split and moves no counter") {
  small_cluster c{{.servers = 3}, {.partitioner = fixed_shards_partitioner{2}}};
  auto first = c.strategy.create_variable({.name = "a", .shape = {}});
  auto second = c.strategy.create_variable({.name = "b", .shape = {}});
  auto with_second =
    c.strategy.create_variable({.name = "c", .shape = {10, 2}, .colocate_with = second});
  CHECK(servers_of(with_second) == servers_of(second));
  CHECK_FALSE(with_second.is_sharded());
  CHECK(servers_of(c.strategy.create_variable({.name = "d", .shape = {}}))
        == std::vector<std::uint32_t>{2});
}

TEST_CASE("PS-V6 placement by bytes goes where the fewest are") {
  small_cluster c{{.servers = 2}, {.placement = placement::by_bytes}};
  CHECK(servers_of(c.strategy.create_variable({.name = "large", .shape = {1000}}))
        == std::vector<std::uint32_t>{0});
  CHECK(servers_of(c.strategy.create_variable({.name = "s1", .shape = {10}}))
        == std::vector<std::uint32_t>{1});
  CHECK(servers_of(c.strategy.create_variable({.name = "s2", .shape = {10}}))
        == std::vector<std::uint32_t>{1});
}

TEST_CASE("PS-V7 slots lie with their variable, shard by shard") {
  small_cluster plain{{.servers = 2}, {.partitioner = fixed_shards_partitioner{2}}};
  small_cluster slots{{.servers = 2}, {.partitioner = fixed_shards_partitioner{2}}};
  plain.strategy.create_variable({.name = "w", .shape = {6, 4}, .optimizer = sgd{}});
  slots.strategy.create_variable({.name = "w", .shape = {6, 4}, .optimizer = adam{}});
  for (std::size_t s = 0; s < 2; ++s) {
    auto without = plain.coordinator.statistics().servers[s].bytes;
    CHECK(without == 3 * 4 * sizeof(float));
    CHECK(slots.coordinator.statistics().servers[s].bytes == 3 * without);
  }
}

TEST_CASE(
  "PS-T-S2 two variables updated in one step: 0.1, 0.8 and what the step saw of its own writes") {
  small_cluster c;
  auto v1 = c.strategy.create_variable(scalar("v1", 0));
  auto v2 = c.strategy.create_variable(scalar("v2", 1));
  auto seen = c.coordinator.schedule(update_both, v1, v2).fetch();
  CHECK(v1.read().item<float>() == doctest::Approx(0.1).epsilon(1e-6));
  CHECK(v2.read().item<float>() == doctest::Approx(0.8).epsilon(1e-6));
  CHECK(seen == doctest::Approx(0.1 + 0.8 / 32).epsilon(1e-6));
}

TEST_CASE("PS-T-S6 small variables stay whole, one on each server") {
  small_cluster c{{.servers = 2}, {.partitioner = min_size_partitioner{64 << 20, 2}}};
  for (std::uint32_t i = 0; i < 2; ++i) {
    auto v = c.strategy.create_variable({.shape = {10}, .type = dtype::i64});
    CHECK_FALSE(v.is_sharded());
    CHECK(servers_of(v) == std::vector<std::uint32_t>{i});
  }
}

TEST_CASE("names are unique, made up when not given; shapes and empty tensors are checked") {
  small_cluster c;
  auto first = c.strategy.create_variable({.shape = {2}});
  CHECK(first.name().starts_with("variable_"));
  c.strategy.create_variable({.name = "w", .shape = {2}});
  auto why = failure_of([&] { c.strategy.create_variable({.name = "w", .shape = {2}}); });
  CHECK(why.code == errc::mismatch);
  CHECK(says(why, "'w'"));
  CHECK(failure_of([&] { c.strategy.create_variable({.name = "x", .shape = {-1}}); }).code
        == errc::invalid_argument);
  auto shapes = failure_of(
    [&] { c.strategy.create_variable({.name = "y", .shape = {3}, .initial = counted(2, 2)}); });
  CHECK(shapes.code == errc::shape_mismatch);
  CHECK(says(shapes, "[3]"));
  CHECK(says(shapes, "[2, 2]"));
  variable nothing;
  CHECK_FALSE(nothing);
  CHECK(failure_of([&] { nothing.read(); }).code == errc::wrong_state);
  CHECK(c.strategy.variables().size() == 2);
}

TEST_CASE(
  "PS-H14 without an initial value a variable starts by a rule, and an empty tensor is refused") {
  small_cluster c;
  CHECK(c.strategy.create_variable({.name = "z", .shape = {3}}).read()
        == tensor::zeros(dtype::f32, {3}));
  auto why = failure_of([&] { c.strategy.create_variable({.name = "e", .initial = tensor{}}); });
  CHECK(why.code == errc::invalid_argument);
  CHECK(says(why, "'e'"));
}

TEST_CASE("PS-G9 assignments of another shape or type are refused, naming both") {
  small_cluster c;
  auto v = c.strategy.create_variable({.name = "w", .initial = counted(2, 3)});
  for (auto shape : {shape_t{3, 3}, shape_t{1, 3}, shape_t{6}}) {
    auto why = failure_of([&] { v.assign(tensor::zeros(dtype::f32, shape)); });
    CHECK(why.code == errc::shape_mismatch);
    CHECK(says(why, "[2, 3]"));
    CHECK(says(why, to_string(shape)));
  }
  CHECK(failure_of([&] {
          v.assign_add(tensor::zeros(dtype::f64, {2, 3}));
        }).code
        == errc::dtype_mismatch);
  CHECK(v.read() == counted(2, 3));
}

TEST_CASE("the learning rate is a schedule on the server's own step, and can be set") {
  small_cluster c{{.workers = 1}};
  auto v = c.strategy.create_variable(
    {.name = "w",
     .shape = {1},
     .optimizer = sgd{piecewise_constant{.boundaries = {1, 2}, .values = {1.0f, 0.5f, 0.0f}}}});
  auto push = [&] {
    c.coordinator.schedule(push_ones, v).fetch();
    return v.read().at<float>(0);
  };
  CHECK(push() == -1.0f);
  CHECK(push() == -2.0f);
  CHECK(push() == -2.5f);
  CHECK(push() == -2.5f);
  v.set_learning_rate(2.0f);
  CHECK(push() == -4.5f);
}

TEST_CASE("PS-B13 each push of a finished closure is applied once, and the servers count it") {
  small_cluster c{{.workers = 3, .servers = 2}, {.partitioner = fixed_shards_partitioner{2}}};
  auto v = c.strategy.create_variable({.name = "w", .shape = {4}, .optimizer = sgd{1.0f}});
  for (int i = 0; i < 300; ++i)
    c.coordinator.schedule(push_ones, v);
  c.coordinator.join(patience);
  CHECK(values_of(v.read()) == std::vector<float>(4, -300.0f));
  auto s = c.coordinator.statistics();
  for (const auto& server : s.servers) {
    CHECK(server.pushes_applied == 300);
    CHECK(server.duplicates == 0);
  }
}

TEST_CASE("PS-B13 a step that is run again after it hung repeats its pushes without effect") {
  static gate door;
  static std::atomic<int> runs;
  runs = 0;
  small_cluster c{{.workers = 2, .servers = 2}, {.partitioner = fixed_shards_partitioner{2}}};
  opened_at_end guard{door};
  auto v = c.strategy.create_variable({.name = "w", .shape = {4}, .optimizer = sgd{1.0f}});
  auto step = [](worker_context& ctx, const variable& x) {
    push_ones(ctx, x); // both runs push; the first then hangs
    if (++runs == 1)
      door.pass();
  };
  c.coordinator.schedule(closure_options{.deadline = std::chrono::milliseconds{50}}, step, v);
  c.coordinator.join(patience);
  CHECK(runs == 2);
  CHECK(values_of(v.read()) == std::vector<float>(4, -1.0f));
  for (const auto& server : c.coordinator.statistics().servers) {
    CHECK(server.pushes_applied == 1);
    CHECK(server.duplicates == 1);
  }
}

TEST_CASE("with effect_once off the repeated pushes count twice") {
  static gate door;
  static std::atomic<int> runs;
  runs = 0;
  small_cluster c{{.workers = 2, .servers = 1, .effect_once = false}};
  opened_at_end guard{door};
  auto v = c.strategy.create_variable({.name = "w", .shape = {1}, .optimizer = sgd{1.0f}});
  auto step = [](worker_context& ctx, const variable& x) {
    push_ones(ctx, x);
    if (++runs == 1)
      door.pass();
  };
  c.coordinator.schedule(closure_options{.deadline = std::chrono::milliseconds{50}}, step, v);
  c.coordinator.join(patience);
  CHECK(v.read().at<float>(0) == -2.0f);
}

TEST_CASE("many program threads change a variable at once; every change counts once") {
  small_cluster c;
  auto v = c.strategy.create_variable(scalar("v", 0));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i)
        v.assign_add(tensor::scalar(1.0f));
    });
  for (auto& t : threads)
    t.join();
  CHECK(v.read().item<float>() == 400.0f);
}

TEST_CASE("a step gets the variable of a name, or makes it: the first specification wins") {
  small_cluster c{{.workers = 2, .servers = 3}, {.partitioner = fixed_shards_partitioner{2}}};
  auto step = [](worker_context& ctx) {
    auto v = ctx.get_or_create({.name = "made",
                                .shape = {4, 2},
                                .initial = initializer_spec{initializer_kind::ones},
                                .optimizer = sgd{1.0f}});
    push_ones(ctx, v);
    return v.spec().shards.size();
  };
  std::vector<remote_value<std::size_t>> got;
  for (int i = 0; i < 10; ++i)
    got.push_back(c.coordinator.schedule(step));
  for (auto& g : got)
    CHECK(g.fetch() == 2);
  REQUIRE(c.strategy.variables().size() == 1);
  auto v = c.strategy.variables()[0];
  CHECK(v.name() == "made");
  CHECK(values_of(v.read()) == std::vector<float>(8, -9.0f));
  CHECK(servers_of(c.strategy.create_variable({.name = "next", .shape = {}}))
        == std::vector<std::uint32_t>{2});

  auto other = [](worker_context& ctx) { ctx.get_or_create({.name = "made", .shape = {3}}); };
  auto why = failure_of([&] { c.coordinator.schedule(other).fetch(); });
  CHECK(why.code == errc::mismatch);
  CHECK(says(why, "made"));
}

TEST_CASE("PS-A18, PS-G8 a read of one block is one version; the next read sees later writes") {
  small_cluster c;
  auto v = c.strategy.create_variable({.name = "w", .initial = counted(2, 2)});
  auto before = v.read_blocks();
  v.assign_add(tensor::of<float>({2, 2}, {1, 1, 1, 1}));
  auto after = v.read_blocks();
  CHECK(before.to_tensor() == counted(2, 2)); // a snapshot stays what it was
  CHECK(after.to_tensor() == counted(2, 2, 1));
  CHECK(after.blocks[0].version == before.blocks[0].version + 1);
}
