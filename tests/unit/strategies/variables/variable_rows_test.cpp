// More rows of variables, and what single strategies are. Goal: rows SYNC-VCR, ONW, ONR, ONE, MIR,
// GRP-C2 and the scenarios V. Method: strategies over CPU devices of this process.

#include "variable_support.hpp"

#include <cstdlib>

namespace {

using namespace replicas_test;
using agg = variable_aggregation;
using sync = variable_synchronization;

float id_float(replica_context& ctx) { return static_cast<float>(id_of(ctx)); }

// --- variables

TEST_CASE("SYNC-VCR-9 a variable knows the strategy that made it") {
  auto s = mirrored_over(2);
  for (auto when : {sync::on_write, sync::on_read}) {
    auto v = scalar(s, 1, agg::sum, when);
    CHECK(v.distribute_strategy() == s);
    CHECK(!(v.distribute_strategy() == mirrored_over(2)));
    CHECK(s.extended().variable_created_in_scope(v));
  }
}

TEST_CASE("SYNC-VCR-17 SYNC-ONE-2 one device has plain variables there") {
  one_device_strategy s{shared_runtime(), "/cpu:1"};
  auto v = scalar(s, 1);
  CHECK(v.components() == 1);
  CHECK(v.component_name(0) == "v");
  CHECK(v.device() == "cpu:1");
  s.run([&] { v.assign_add(tensor::scalar(2.0f)); }); // without aggregation, nobody else has it
  CHECK(v.item<float>() == 3);
}

TEST_CASE("SYNC-ONW-13 an expression of an on_write variable") {
  auto s = mirrored_over(2);
  auto v = scalar(s, 1, agg::sum);
  CHECK(v.item<float>() + 1 == 2);
  CHECK(s.scope([&] { return v.item<float>() + 1; }) == 2);
  CHECK(s.run([&] { return v.item<float>() + 1; }).local_results() == std::vector<float>{2, 2});
}

TEST_CASE("SYNC-V15 an expression of an on_read variable") {
  auto s = mirrored_over(2);
  auto v = scalar(s, 0, agg::mean, sync::on_read);
  s.run([&](replica_context& ctx) { v.assign(tensor::scalar(id_float(ctx))); });
  CHECK(v.item<float>() + 1 == 1.5f);
  CHECK(s.run([&] { return v.item<float>() + 1; }).local_results() == std::vector<float>{1, 2});
}

TEST_CASE("SYNC-ONR-11 a distributed value for an on_read variable goes to each its own") {
  auto s = mirrored_over(2);
  auto v = scalar(s, 0, agg::sum, sync::on_read);
  v.assign(parts({tensor::scalar(3.0f), tensor::scalar(4.0f)}));
  CHECK(copies(v) == std::vector<float>{3, 4});
  CHECK(v.item<float>() == 7);
  names(failure_of([&] { v.assign(parts({tensor::scalar(3.0f)})); }), errc::invalid_argument,
        {"1 components", "2"});
  names(failure_of([&] {
          s.run([&] { v.assign(parts({tensor::scalar(3.0f), tensor::scalar(4.0f)})); });
        }),
        errc::invalid_argument, {"'v'", "cross-replica context only"});
}

TEST_CASE("SYNC-V1 SYNC-V2 assign, add and subtract, by number and from a variable, anywhere") {
  auto s = mirrored_over(2);
  auto two = scalar(s, 2), minus_two = scalar(s, -2);
  for (auto how : {agg::none, agg::mean, agg::only_first_replica, agg::sum}) {
    auto all = [&](auto change, float expected) {
      for (const bool in_replica : {true, false}) {
        if (in_replica && how == agg::sum)
          continue; // a sum of what is the same everywhere is refused
        auto v = scalar(s, 0, how);
        if (in_replica)
          s.run([&] { change(v); });
        else
          s.scope([&] { change(v); });
        CHECK(copies(v) == std::vector<float>{expected, expected});
      }
    };
    all([](auto& v) { v.assign(1); }, 1);
    all([](auto& v) { v.assign_add(1); }, 1);
    all([](auto& v) { v.assign_sub(-1); }, 1);
    all([&](auto& v) { v.assign(two); }, 2);
    if (how == agg::none)
      continue; // what a read gives is a tensor of the replica's own
    all([&](auto& v) { v.assign_add(two.read()); }, 2);
    all([&](auto& v) { v.assign_sub(minus_two.read()); }, 2);
  }
}

TEST_CASE("SYNC-V23 what one kind of variable saved, any other kind restores") {
  auto s = mirrored_over(2);
  auto on_write = [&] { return scalar(s, 0, agg::mean); };
  auto on_read = [&](agg how) { return scalar(s, 0, how, sync::on_read); };
  auto plain = [] { return make_variable({.name = "p", .initial = tensor::scalar(0.0f)}); };
  for (int from = 0; from < 4; ++from) {
    auto source = from == 0   ? on_write()
                  : from == 1 ? on_read(agg::sum)
                  : from == 2 ? on_read(agg::mean)
                              : plain();
    source.restore_value(tensor::scalar(3.0f));
    const auto saved = source.saved_value();
    CHECK(saved.item<float>() == 3);
    auto a = on_write(), sum = on_read(agg::sum), mean = on_read(agg::mean), p = plain();
    for (auto* to : {&a, &sum, &mean, &p})
      to->restore_value(saved);
    CHECK(copies(a) == std::vector<float>{3, 3});
    CHECK(copies(sum) == std::vector<float>{1.5f, 1.5f});
    CHECK(copies(mean) == std::vector<float>{3, 3});
    CHECK(p.item<float>() == 3);
  }
}

// --- strategies

TEST_CASE("SYNC-ONE-5 one device gives values back, along an axis too") {
  one_device_strategy s{shared_runtime(), "cpu:0"};
  const auto x = tensor::of<float>({2, 2}, {1, 2, 3, 4});
  CHECK(s.reduce(reduce_op::sum, x) == x);
  CHECK(s.reduce(reduce_op::mean, x, std::vector<std::int64_t>{0}) == vec<float>({2, 3}));
  CHECK(s.gather(x, 1) == x);
  CHECK(s.extended().broadcast_to(x, "cpu:0").value() == x);
}

TEST_CASE("SYNC-MIR-3 devices of other processes are not mirrored over") {
  for (const char* device : {"/job:worker/task:1/cpu:1", "/job:worker/cpu:1", "/task:1/cpu:1"})
    names(failure_of([&] {
            mirrored_strategy{shared_runtime(), std::vector<std::string>{"cpu:0", device}};
          }),
          errc::device_unavailable, {device, "another process"});
  names(failure_of([&] {
          mirrored_strategy{shared_runtime(), std::vector<std::string>{"cpu:0", "/cpu:0"}};
        }),
        errc::invalid_argument, {"'cpu:0' twice"});
  CHECK(mirrored_strategy{shared_runtime(), std::vector<std::string>{"/cpu:0", "cpu:1"}}
          .num_replicas_in_sync()
        == 2);
}

TEST_CASE("SYNC-MIR-4 TF_CONFIG is nothing to a strategy of one process") {
  setenv("TF_CONFIG", R"({"cluster":{"worker":["a:1","b:1"]},"task":{"type":"worker","index":1}})",
         1);
  auto s = mirrored_over(2);
  unsetenv("TF_CONFIG");
  CHECK(s.num_replicas_in_sync() == 2);
  CHECK(s.extended().num_hosts() == 1);
  CHECK(s.run(id_of).local_results() == std::vector<std::int64_t>{0, 1});
}

TEST_CASE("SYNC-MIR-6 whole numbers, and destinations without replicas") {
  auto s = mirrored_over(2);
  const per_replica<std::int32_t> x{{3, 4}};
  auto out = s.extended().reduce_to(reduce_op::sum, x, "cpu:3");
  CHECK(out.value().item<std::int32_t>() == 7);
  CHECK(out.devices() == std::vector<std::string>{"cpu:3"});
  CHECK(s.reduce(reduce_op::sum, x).type() == dtype::i32);
}

TEST_CASE("SYNC-MIR-10 a mirrored strategy of one device wraps all the same") {
  auto s = mirrored_over(1);
  auto v = scalar(s, 1, agg::sum);
  CHECK(v.components() == 1);
  CHECK(v.distribute_strategy() == s);
  CHECK(s.run([] { return 5; }).size() == 1);
  auto r = scalar(s, 4, agg::sum, sync::on_read);
  CHECK(r.synchronization() == sync::on_read);
  CHECK(r.item<float>() == 4);
}

TEST_CASE("SYNC-GRP-C2 ranks are in order of numbers, not of text") {
  auto options = four_cpus();
  options.cpu_devices = 12;
  runtime rt{options};
  mirrored_strategy s{rt, cpus(12)};
  auto devices = s.run([](replica_context& ctx) { return ctx.devices()[0]; });
  CHECK(devices[2] == "cpu:2");
  CHECK(devices[10] == "cpu:10");
  auto all =
    s.run([](replica_context& ctx) { return ctx.all_gather(vec<std::int64_t>({id_of(ctx)})); });
  CHECK(all[11] == vec<std::int64_t>({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
}

} // namespace
