// Scopes on one thread: devices, names, creators of variables. Goal: rows SYNC-DEV-6, DEV-7, CTX-10
// to CTX-15, R13, N2. Method: strategies over CPU devices of this process.

#include "../replicas/support.hpp"

namespace {

using namespace replicas_test;

TEST_CASE("SYNC-DEV-6 SYNC-DEV-7 device scopes fill what a name leaves open, the inner first") {
  CHECK(to_string(resolve_device("")) == "/job:localhost/replica:0/task:0/device:CPU:0");
  device_scope outer{"/job:worker"};
  {
    device_scope inner{"/cpu:0"};
    CHECK(to_string(resolve_device("")) == "/job:worker/replica:0/task:0/device:CPU:0");
    device_scope gpu{"/gpu:0"};
    CHECK(to_string(resolve_device("")) == "/job:worker/replica:0/task:0/device:GPU:0");
    CHECK(to_string(resolve_device("/cpu:3")) == "/job:worker/replica:0/task:0/device:CPU:3");
  }
  CHECK(to_string(resolve_device("/task:1")) == "/job:worker/replica:0/task:1/device:CPU:0");
  names(failure_of([] { device_scope bad{"/cpu:x"}; }), errc::invalid_argument, {"cpu:x"});
  CHECK(*resolve_device("").job == "worker"); // the scope that failed left nothing behind
}

TEST_CASE("SYNC-DEV-6 inside a replica its device stands for open parts") {
  auto s = mirrored_over(2);
  device_scope around{"cpu:3"};
  auto seen = s.run([] {
    const auto own = short_name(resolve_device(""));
    device_scope inner{"cpu:2"};
    return own + " " + short_name(resolve_device(""));
  });
  CHECK(seen.local_results() == std::vector<std::string>{"cpu:0 cpu:2", "cpu:1 cpu:2"});
  CHECK(short_name(resolve_device("")) == "cpu:3");
}

/// A scope is left while `open` is open inside; then a proper exit works.
template <class Scope, class... Args>
void check_nesting(std::initializer_list<const char*> words, Args... args) {
  auto s = mirrored_over(2);
  strategy_scope outer{s};
  {
    Scope open{args...};
    names(failure_of([&] { outer.exit(); }), errc::wrong_state, words);
    CHECK(get_strategy() == s);
    CHECK(in_cross_replica_context());
  }
  outer.exit();
  CHECK(!has_strategy());
}

TEST_CASE("SYNC-CTX-10 SYNC-CTX-11 SYNC-CTX-12 SYNC-S4 SYNC-S5 SYNC-S6 leaving says what is open") {
  check_nesting<device_scope>({"mirrored_strategy(cpu:0, cpu:1)", "a device scope", "CPU:0"},
                              "CPU:0");
  check_nesting<variable_creator_scope>(
    {"variable creator's scope"},
    variable_creator{
      [](const next_creator& next, distributed_variable_options o) { return next(std::move(o)); }});
  check_nesting<name_scope>({"variable name scope", "AA"}, "AA");
}

TEST_CASE("scopes that end out of order take only themselves away") {
  auto a = std::make_unique<name_scope>("a");
  auto b = std::make_unique<name_scope>("b");
  CHECK(current_name_scope() == "a/b/");
  a = nullptr;
  CHECK(current_name_scope() == "b/");
  b = nullptr;
  CHECK(current_name_scope().empty());
  for (auto bad : {"", "/a", "a/"})
    names(failure_of([&] { name_scope open{bad}; }), errc::invalid_argument, {"name_scope"});
  CHECK(current_name_scope().empty());
}

TEST_CASE("SYNC-CTX-13 SYNC-S3 a creator sees synchronization and aggregation as they were asked") {
  auto s = mirrored_over(2);
  std::vector<std::string> order;
  std::vector<distributed_variable_options> seen;
  auto spy = [&](const char* who) {
    return [&, who](const next_creator& next, distributed_variable_options o) {
      order.push_back(who);
      seen.push_back(o);
      return next(std::move(o));
    };
  };
  variable_creator_scope outside{spy("outside")};
  s.scope([&] {
    variable_creator_scope inside{spy("inside")};
    CHECK(!get_replica_context());
    auto v = make_variable({.name = "v",
                            .initial = tensor::scalar(1.0f),
                            .synchronization = variable_synchronization::on_write,
                            .aggregation = variable_aggregation::mean});
    CHECK(v.components() == 2);
    (void)make_variable({.name = "w", .initial = tensor::scalar(1.0f)});
  });
  CHECK(order == std::vector<std::string>{"inside", "outside", "inside", "outside"});
  CHECK(seen[1].synchronization == variable_synchronization::on_write);
  CHECK(seen[1].aggregation == variable_aggregation::mean);
  CHECK(seen[3].synchronization == variable_synchronization::automatic);
  CHECK(seen[3].aggregation == variable_aggregation::none);
}

TEST_CASE("SYNC-CTX-13 a creator may change what is made; empty ones are refused") {
  auto s = mirrored_over(2);
  auto v = s.scope([&] {
    variable_creator_scope rename{[](const next_creator& next, distributed_variable_options o) {
      o.name = "other";
      o.initial = tensor::scalar(9.0f);
      return next(std::move(o));
    }};
    return make_variable({.name = "v", .initial = tensor::scalar(1.0f)});
  });
  CHECK(v.name() == "other");
  CHECK(v.component(1).item<float>() == 9);
  names(failure_of([] { variable_creator_scope bad{nullptr}; }), errc::invalid_argument,
        {"creator is empty"});
}

TEST_CASE("SYNC-CTX-13 SYNC-VCR-12 creators in a replica's function and around its run") {
  auto s = mirrored_over(2);
  std::atomic<int> inside{0};
  int around = 0;
  variable_creator_scope outer{[&](const next_creator& next, distributed_variable_options o) {
    ++around;
    return next(std::move(o));
  }};
  auto made = regroup(s.run([&] {
    variable_creator_scope inner{[&](const next_creator& next, distributed_variable_options o) {
      ++inside;
      return next(std::move(o));
    }};
    return make_variable({.name = "v", .initial = tensor::scalar(1.0f)});
  }));
  CHECK(made.components() == 2);
  CHECK(inside == 2);
  CHECK(around == 1);
}

class events final : public tracer {
public:
  void event(std::string_view id, std::span<const trace_field> fields) override {
    std::lock_guard lock{mutex_};
    ids.emplace_back(id);
    if (id == "strategy.partitioner_dropped")
      dropped += static_cast<int>(fields.size());
  }
  void mark(std::string_view) override {}
  std::vector<std::string> ids{};
  int dropped = 0;

private:
  std::mutex mutex_{};
};

TEST_CASE("SYNC-CTX-14 a partitioner is dropped with one warning") {
  auto seen = std::make_shared<events>();
  auto options = four_cpus();
  options.trace = seen.get();
  runtime rt{options};
  mirrored_strategy s{rt, cpus(2)};
  s.scope([&] {
    for (int i = 0; i < 2; ++i) {
      auto v = make_variable({.name = "v",
                              .shape = {4, 2},
                              .initial = ones(),
                              .partitioner = fixed_shards_partitioner{2}});
      CHECK(v.shape() == shape_t{4, 2});
      CHECK(v.component(1).size() == 8);
    }
  });
  CHECK(seen->dropped == 2); // one event of two fields
}

TEST_CASE("SYNC-CTX-15 a scope runs its code once") {
  int calls = 0;
  mirrored_over(4).scope([&] { ++calls; });
  CHECK(calls == 1);
}

TEST_CASE("SYNC-R13 SYNC-CTX-13 names of variables made in merge functions") {
  for (std::uint32_t n : {1u, 2u}) {
    auto s = mirrored_over(n);
    name_scope main{"main"};
    distributed_variable c;
    s.run([&](replica_context& ctx) {
      name_scope foo{"foo"};
      ctx.merge_call(
        [&](strategy&) { c = make_variable({.name = "c", .initial = tensor::scalar(1.0f)}); });
    });
    CHECK(c.name() == "main/foo/c");
    CHECK(c.component_name(0) == "main/foo/c");
    if (n == 2)
      CHECK(c.component_name(1) == "main/foo/c/replica_1");
  }
}

TEST_CASE("SYNC-R14 SYNC-R15 names in replicas' functions: the same with scopes, or refused") {
  auto s = mirrored_over(2);
  name_scope main{"main"};
  auto v = regroup(s.run([] {
    name_scope foo{"foo"};
    return make_variable({.name = "v", .initial = tensor::scalar(1.0f)});
  }));
  CHECK(v.name() == "main/foo/v");
  names(failure_of([&] {
          s.run([](replica_context& ctx) {
            name_scope own{id_of(ctx) == 0 ? "foo" : "bar"};
            return make_variable({.name = "v", .initial = tensor::scalar(1.0f)});
          });
        }),
        errc::mismatch, {"main/foo/v", "main/bar/v"});
  s.scope([&] {
    CHECK(make_variable({.name = "w", .initial = tensor::scalar(1.0f)}).name() == "main/w");
  });
}

TEST_CASE("SYNC-N2 names of what belongs to one replica") {
  auto s = mirrored_over(2);
  name_scope main{"main"};
  auto seen = s.run([] {
    name_scope foo{"foo"};
    return scoped_name("a");
  });
  CHECK(seen.local_results() == std::vector<std::string>{"main/foo/a", "main/replica_1/foo/a"});
  name_scope foo{"foo"};
  CHECK(scoped_name("a") == "main/foo/a");
}

TEST_CASE("SYNC-CTX-24 methods that do not need the scope work without, variables are then plain") {
  auto s = mirrored_over(2);
  auto plain = make_variable({.name = "p", .initial = tensor::scalar(2.0f)});
  CHECK(plain.distribute_strategy() == strategy{});
  CHECK(plain.components() == 1);
  auto seen = s.run([&](replica_context& ctx) {
    return plain.item<float>() + static_cast<float>(id_of(ctx)); // SYNC-VCR-11
  });
  CHECK(seen.local_results() == std::vector<float>{2, 3});
}

} // namespace
