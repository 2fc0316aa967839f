// The parameter-server strategy as a strategy. Goal: rows PS-N1, PS-N2, SYNC-CTX-4, CTX-9, CTX-29,
// EXT-2, EXT-8. Method: a whole cluster in this process.

#include <doctest/doctest.h>

#include <mutex>

#include "../../../support/failures.hpp"
#include "cluster_support.hpp"

namespace {

using namespace troupe;
using namespace troupe::testing;

runtime_options small(tracer* trace = nullptr) {
  runtime_options out;
  out.workers = 1;
  out.servers = 2;
  out.trace = trace;
  return out;
}

TEST_CASE("SYNC-CTX-4 SYNC-CTX-7 the ambient functions tell of a parameter-server scope") {
  runtime rt{small()};
  parameter_server_strategy s{rt};
  s.scope([&] {
    CHECK(get_strategy() == s);
    CHECK(has_strategy());
    CHECK(in_cross_replica_context());
    CHECK(get_replica_context() == nullptr);
    CHECK(get_strategy().num_replicas_in_sync() == 1);
    auto v = create_variable({.name = "v", .initial = tensor::scalar(1.0f)});
    CHECK(v.read().item<float>() == 1);
    names(failure_of([] { (void)make_variable({.name = "w", .initial = tensor::scalar(1.0f)}); }),
          errc::wrong_state,
          {"make_variable", "parameter_server_strategy(2 servers)", "create_variable"});
  });
  CHECK(!has_strategy());
  names(failure_of([] { (void)create_variable({.name = "x", .shape = {1}}); }), errc::wrong_state,
        {"outside a parameter_server_strategy's scope"});
  CHECK(s.variables().size() == 1);
  experimental_set_strategy(s);
  CHECK(create_variable({.name = "y", .shape = {2}}).shape() == shape_t{2});
  experimental_set_strategy({});
  CHECK(s.variables().size() == 2);
}

TEST_CASE("SYNC-CTX-9 SYNC-CTX-22 it does not mix with synchronous strategies") {
  runtime rt{small()};
  parameter_server_strategy s{rt};
  mirrored_strategy m{rt, std::vector<std::string>{"cpu:0"}};
  s.scope([&] {
    names(failure_of([&] { m.scope([] {}); }), errc::wrong_state,
          {"mixed", "parameter_server_strategy(2 servers)", "mirrored_strategy(cpu:0)"});
    names(failure_of([&] { (void)m.reduce(reduce_op::sum, per_replica<float>{{1}}); }),
          errc::wrong_state, {"mixed"});
    s.scope([&] { CHECK(get_strategy() == s); });
  });
  m.scope([&] {
    names(failure_of([&] { s.scope([] {}); }), errc::wrong_state, {"mixed"});
    names(failure_of([&] { (void)s.gather(tensor::scalar(1.0f), 0); }), errc::wrong_state,
          {"gather", "mixed"});
    names(failure_of([] { (void)create_variable({.name = "x", .shape = {1}}); }), errc::wrong_state,
          {"create_variable", "mirrored_strategy(cpu:0)"});
  });
}

class events final : public tracer {
public:
  void event(std::string_view id, std::span<const trace_field>) override {
    std::lock_guard lock{mutex_};
    if (id == "strategy.outside_closure")
      ++outside;
  }
  void mark(std::string_view) override {}
  int outside = 0;

private:
  std::mutex mutex_{};
};

TEST_CASE("PS-N1 PS-N2 run and reduce on the one replica, in and out of scope, with a note") {
  events seen;
  runtime rt{small(&seen)};
  parameter_server_strategy s{rt};
  auto v = s.create_variable({.name = "v", .initial = tensor::scalar(1.0f)});
  auto both = [&] {
    auto [sum, difference] = s.run(
      [&](replica_context& ctx, const tensor& x) {
        CHECK(ctx.replica_id_in_sync_group() == 0);
        CHECK(ctx.num_replicas_in_sync() == 1);
        const auto w = v.read().item<float>(), y = x.item<float>();
        return std::pair{tensor::scalar(y + w), tensor::scalar(y - w)};
      },
      tensor::scalar(3.0f));
    CHECK(s.reduce(reduce_op::sum, sum).item<float>() == 4);
    CHECK(s.reduce("SUM", per_replica<tensor>{{difference}}).item<float>() == 2);
  };
  both();
  CHECK(seen.outside == 3);
  s.scope(both);
  CHECK(seen.outside == 6);
  int calls = 0;
  s.run([&] { ++calls; });
  CHECK(calls == 1);
}

TEST_CASE("SYNC-RED-9 SYNC-GAT-9 SYNC-LOC-3 the rest of the base with one replica") {
  runtime rt{small()};
  parameter_server_strategy s{rt};
  const auto x = tensor::of<float>({2, 2}, {1, 2, 3, 4});
  CHECK(s.reduce(reduce_op::mean, per_replica<tensor>{{x}}, std::vector<std::int64_t>{0, 1})
          .item<float>()
        == 2.5f);
  CHECK(s.reduce(reduce_op::sum, per_replica<tensor>{{x}}, {0, 1}).item<float>() == 10);
  CHECK(s.reduce(reduce_op::sum, per_replica<tensor>{{x}}, 0) == tensor::vector<float>({4, 6}));
  CHECK(s.gather(x, 0) == x);
  CHECK(s.gather(per_replica<tensor>{{x}}, 1) == x);
  CHECK(s.local_results(3) == std::vector<int>{3});
  CHECK(s.num_replicas_in_sync() == 1);
  CHECK(s.num_local_replicas() == 1);
  auto ids = s.distribute_values_from_function(
    [](const value_context& ctx) { return ctx.replica_id_in_sync_group; });
  CHECK(ids.as_single() == 0);
}

TEST_CASE("SYNC-CTX-29 SYNC-EXT-2 SYNC-EXT-8 SYNC-S20 resolver, devices and flags") {
  runtime rt{small()};
  auto resolver =
    std::make_shared<const simple_resolver>(simple_resolver_options{.rpc_layer = "x"});
  parameter_server_strategy with{rt, {.resolver = resolver}};
  CHECK(with.cluster_resolver() == resolver);
  parameter_server_strategy s{rt};
  CHECK(s.cluster_resolver() == nullptr);
  CHECK(s.extended().worker_devices() == std::vector<std::string>{"cpu:0"});
  CHECK(s.extended().parameter_devices()
        == std::vector<std::string>{"/job:ps/replica:0/task:0/device:CPU:0",
                                    "/job:ps/replica:0/task:1/device:CPU:0"});
  CHECK(s.extended().experimental_between_graph());
  CHECK(s.extended().should_checkpoint());
  CHECK(!s.extended().experimental_require_static_shapes());
  CHECK(s.extended().reduce_to("sum", 2.0f, "cpu:0").value().item<float>() == 2);
}

} // namespace
