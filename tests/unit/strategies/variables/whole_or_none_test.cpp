// Calls that are refused. Goal: a call that any part of is wrong changes nothing, and a
// checkpoint's restore and save end alike on every worker. Method: one bad part among good ones.

#include "../checkpoint/checkpoint_support.hpp"
#include "variable_support.hpp"

namespace {

using namespace replicas_test;

TEST_CASE("components of which one has a wrong type are not assigned at all") {
  auto s = mirrored_over(2);
  auto v = scalar(s, 1);
  names(failure_of([&] {
          v.assign(parts({tensor::scalar(2.0f), tensor::scalar(3.0)}));
        }),
        errc::dtype_mismatch, {"'v'", "component 1", "f64", "f32"});
  CHECK(copies(v) == std::vector<float>{1, 1});
}

TEST_CASE("gradients of which one does not fit are not applied at all") {
  auto s = mirrored_over(2), other = mirrored_over(2);
  auto of = [](const strategy& in, const char* name) {
    return in.scope([&] {
      return make_variable({.name = name, .initial = vec<float>({1, 2}), .optimizer = sgd(1.0f)});
    });
  };
  auto a = of(s, "a"), b = of(s, "b"), c = of(other, "c");
  const auto good = vec<float>({1, 1});
  auto refused = [&](const distributed_variable& second, const tensor& gradient) {
    return failure_of([&] {
      s.run([&](replica_context& ctx) { ctx.apply({a, second}, {good, gradient}); });
    });
  };
  names(refused(b, vec<float>({1})), errc::shape_mismatch, {"'b'", "[1]", "[2]"});
  names(refused(b, vec<double>({1, 1})), errc::dtype_mismatch, {"'b'", "f64", "f32"});
  names(refused(c, good), errc::wrong_state, {"'c'", "mixed"});
  auto reduced = failure_of([&] {
    s.run([&](replica_context& ctx) { apply_reduced(ctx, {a, b}, {good, vec<float>({1})}); });
  });
  names(reduced, errc::shape_mismatch, {"'b'", "[1]", "[2]"});
  names(refused(b, tensor{}), errc::invalid_argument, {"'b'", "no value"});
  auto plain = s.scope([] { // no optimizer: it was found when the first one had changed
    return make_variable({.name = "plain", .initial = vec<float>({1, 2})});
  });
  names(refused(plain, good), errc::wrong_state, {"'plain'", "no optimizer"});
  for (std::size_t i = 0; i < 2; ++i)
    CHECK(a.component(i) == vec<float>({1, 2}));
  s.run([&](replica_context& ctx) { ctx.apply({a, b}, {good, good}); });
  for (std::size_t i = 0; i < 2; ++i)
    CHECK(a.component(i) == vec<float>({-1, 0}));
}

TEST_CASE("SYNC-SCT-8 rows that differ are refused where copies would, unless they may") {
  auto s = mirrored_over(2);
  auto make = [&](bool diverge) {
    return s.scope([&] {
      return make_variable(
        {.name = "v", .initial = vec<float>({1, 2}), .allow_divergence = diverge});
    });
  };
  auto add = [&](const distributed_variable& v) {
    s.run([&](replica_context& ctx) {
      v.scatter_add(vec<std::int64_t>({0}), vec<float>({static_cast<float>(id_of(ctx))}));
    });
  };
  auto v = make(false), free = make(true);
  names(failure_of([&] { add(v); }), errc::invalid_argument,
        {"'v'", "scatter_add", "rows differ", "allow_divergence"});
  CHECK(v.component(1) == vec<float>({1, 2}));
  add(free);
  CHECK(free.component(0) == vec<float>({1, 2}));
  CHECK(free.component(1) == vec<float>({2, 2}));
}

TEST_CASE("SYNC-ARD-3 the mean of plain integers is refused before anything is sent") {
  auto s = mirrored_over(2);
  names(failure_of([&] {
          s.run([](replica_context& ctx) { return ctx.all_reduce(reduce_op::mean, id_of(ctx)); });
        }),
        errc::invalid_argument, {"all_reduce mean", "f64"});
  CHECK(s.run([](replica_context& ctx) {
           return ctx.all_reduce(reduce_op::mean, tensor::scalar(id_of(ctx)));
         })[0]
          .item<double>()
        == 0.5);
}

TEST_CASE("SYNC-RTO-9 means of small integers over workers are those of wide ones") {
  on_workers(2, [](std::uint32_t worker, runtime& rt) {
    auto s = strategy_over(rt);
    const auto x = vec<std::uint8_t>({static_cast<std::uint8_t>(worker == 0 ? 200 : 100)});
    CHECK(s.reduce(reduce_op::mean, x).at<double>(0) == 150);
    CHECK(s.reduce(reduce_op::mean, x, std::vector<std::int64_t>{0}).item<double>() == 150);
    const auto big = vec<std::int32_t>({2'000'000'000});
    CHECK(s.reduce("MEAN", big).at<double>(0) == 2e9);
  });
}

/// A position that refuses on one worker.
struct picky {
  std::int64_t at = 1;
  bool refuses = false;
  void add_to(sync_checkpoint& to) {
    to.add_position(
      "where",
      [this] {
        if (refuses)
          throw_failure(errc::wrong_state, "no position");
        return std::to_string(at);
      },
      [this](const std::string& text) {
        if (refuses)
          throw std::runtime_error{"not there any more"};
        at = std::stoll(text);
      });
  }
};

TEST_CASE("SYNC-CKP-6 a position that refuses on one worker ends all alike, and nothing changes") {
  for (std::uint32_t bad : {0u, 1u}) {
    CAPTURE(bad);
    const checkpoint_folder at;
    on_workers(2, [&](std::uint32_t worker, runtime& rt) {
      auto s = strategy_over(rt);
      auto v = scalar(s, 1);
      std::int64_t count = 1;
      picky first, second;
      sync_checkpoint ck{s, at.text()};
      ck.add(v)
        .add_counter("count", count)
        .add_position(
          "first", [&] { return std::to_string(first.at); },
          [&](const std::string& text) { first.at = std::stoll(text); });
      second.add_to(ck);
      (void)ck.save();
      v.assign(2.0f);
      count = first.at = second.at = 2;
      second.refuses = worker == bad;
      const auto who = "worker:" + std::to_string(bad);
      const auto begun = std::chrono::steady_clock::now();
      names(failure_of([&] { (void)ck.restore(); }), errc::user_code,
            {who.c_str(), "restore of position 'where'", "not there any more"});
      names(failure_of([&] { (void)ck.save(); }), errc::wrong_state,
            {who.c_str(), "save of position 'where'", "no position"});
      CHECK(std::chrono::steady_clock::now() - begun < 15s); // not a deadline of 20
      CHECK(copies(v) == std::vector<float>{2});
      CHECK(count == 2);
      CHECK(first.at == 2);
      second.refuses = false;
      CHECK(ck.restore());
      CHECK(copies(v) == std::vector<float>{1});
      CHECK(first.at == 1);
      CHECK(second.at == 1);
    });
  }
}

TEST_CASE("SYNC-CEN-1 a parameter device that is not there ends the construction, by any name") {
  auto& rt = shared_runtime();
  auto make = [&](const char* where) {
    return central_storage_strategy{rt, cpus(2), std::string{where}};
  };
  names(failure_of([&] { (void)make("cpu:9"); }), errc::device_unavailable, {"cpu:9"});
  CHECK_THROWS_AS(make("nonsense"), error);
  CHECK(make("/cpu:0").extended().parameter_devices() == std::vector<std::string>{"cpu:0"});
}

TEST_CASE("SYNC-TPU-1 devices by their full names are known, and twice the same is refused") {
  auto& rt = shared_runtime();
  tpu_strategy s{rt, {.devices = {"/cpu:0", "cpu:1"}}};
  CHECK(s.num_replicas_in_sync() == 2);
  names(failure_of([&] {
          tpu_strategy{rt, {.devices = {"/cpu:0", "cpu:0"}}};
        }),
        errc::invalid_argument, {"tpu_strategy", "'cpu:0'", "twice"});
}

TEST_CASE("SYNC-CTX-29 SYNC-S20 a resolver is told by those that have one, through the base too") {
  auto s = mirrored_over(2);
  CHECK(s.cluster_resolver() == nullptr);
  CHECK(strategy{}.cluster_resolver() == nullptr);
  const auto given =
    std::make_shared<const simple_resolver>(simple_resolver_options{.rpc_layer = "x"});
  tpu_strategy slice{shared_runtime(), {.devices = cpus(2), .resolver = given}};
  const strategy& base = slice;
  CHECK(base.cluster_resolver() == given);
}

TEST_CASE("SYNC-RED-2 SYNC-ARD-2 an operator by its name, wherever one is taken") {
  auto s = mirrored_over(2);
  auto numbers = s.run([](replica_context& ctx) {
    CHECK(ctx.all_reduce("Sum", 1.0f) == 2);
    return static_cast<float>(id_of(ctx));
  });
  CHECK(s.reduce("SUM", numbers).item<float>() == 1);
  CHECK(s.reduce("mean", numbers).item<float>() == 0.5f);
  CHECK(s.reduce("max", 3.0f).item<float>() == 3);
  CHECK(std::get<0>(s.reduce("min", std::tuple{numbers})).item<float>() == 0);
  names(failure_of([&] { (void)s.reduce("median", numbers); }), errc::invalid_argument,
        {"'median'", "expected sum"});
}

TEST_CASE("a deadline of 30 seconds that is given is not taken for none") {
  CHECK(collective_options{}.deadline != duration{30s});
  auto s = mirrored_over(2, {.collective_timeout = 200ms});
  std::atomic<bool> over{false};
  const auto begun = std::chrono::steady_clock::now();
  names(failure_of([&] {
          s.run([&](replica_context& ctx) {
            if (id_of(ctx) == 0) {
              const auto why = failure_of([&] { (void)ctx.all_reduce(reduce_op::sum, 1.0f); });
              over = true;
              throw_failure(why);
            }
            while (!over)
              std::this_thread::yield();
          });
        }),
        errc::deadline, {"waiting for member 1"});
  CHECK(std::chrono::steady_clock::now() - begun < 15s);
  // One that is given is kept, be it that of a bare group.
  over = false;
  s.run([&](replica_context& ctx) {
    if (id_of(ctx) == 1) {
      const auto until = std::chrono::steady_clock::now() + 600ms; // three times the strategy's
      while (std::chrono::steady_clock::now() < until)
        std::this_thread::yield();
    }
    (void)ctx.all_reduce(reduce_op::sum, vec<float>({1}), {.deadline = 30s});
  });
}

TEST_CASE(
  "a tensor without a value was as good as an f32 scalar: it is refused, and nothing changes") {
  auto s = mirrored_over(2);
  auto v = s.scope([&] {
    return make_variable({.name = "v",
                          .initial = tensor::scalar(1.0f),
                          .aggregation = variable_aggregation::mean,
                          .optimizer = sgd(1.0f)});
  });
  auto in_replicas = [&](auto f) {
    return failure_of([&] { s.run([&](replica_context& ctx) { f(ctx); }); });
  };
  names(failure_of([&] { v.assign(tensor{}); }), errc::invalid_argument, {"expected f32[]"});
  names(failure_of([&] {
          v.assign(parts({tensor::scalar(2.0f), tensor{}}));
        }),
        errc::invalid_argument, {"'v'", "component 1", "no value"});
  names(in_replicas([&](auto&) { v.assign_add(tensor{}); }), errc::invalid_argument,
        {"expected f32[]"});
  names(in_replicas([&](auto& ctx) { ctx.apply({v}, {tensor{}}); }), errc::invalid_argument,
        {"'v'", "the gradient has no value", "expected f32[]"});
  names(in_replicas([&](auto& ctx) { (void)ctx.all_reduce(reduce_op::sum, tensor{}); }),
        errc::invalid_argument, {"all_reduce", "no value"});
  names(in_replicas([&](auto& ctx) { (void)ctx.all_gather(tensor{}); }), errc::invalid_argument,
        {"all_gather", "no value"});
  names(in_replicas([&](auto& ctx) { (void)ctx.broadcast(tensor{}, 0); }), errc::invalid_argument,
        {"broadcast", "no value"});
  CHECK(copies(v) == std::vector<float>{1, 1});
}

} // namespace
