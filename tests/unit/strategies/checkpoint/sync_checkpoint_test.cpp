// Checkpoints of synchronous programs. Goal: rows SYNC-CKP-1 to CKP-6, slots, counters and
// positions, damage and retention; the same error on every worker. Method: strategies of one
// process and workers as threads, on a real directory.

#include "../../../support/tensors.hpp"
#include "checkpoint_support.hpp"

namespace {

using namespace replicas_test;

distributed_variable on_read(const strategy& s, const std::string& name, variable_aggregation how) {
  return s.scope([&] {
    return make_variable({.name = name,
                          .initial = tensor::scalar(0.0f),
                          .synchronization = variable_synchronization::on_read,
                          .aggregation = how});
  });
}

void assign_each(const strategy& s, const distributed_variable& v, float a, float b) {
  s.run([&](replica_context& ctx) { v.assign(tensor::scalar(id_of(ctx) == 0 ? a : b)); });
}

TEST_CASE("SYNC-CKP-1 SYNC-CKP-2 SYNC-CKP-3 SYNC-CKP-5 values by their rule, whatever n is") {
  const checkpoint_folder at;
  {
    auto s = mirrored_over(2);
    auto w = s.scope([] { return make_variable({.name = "w", .initial = tensor::scalar(2.0f)}); });
    auto sum = on_read(s, "sum", variable_aggregation::sum);
    auto mean = on_read(s, "mean", variable_aggregation::mean);
    assign_each(s, sum, 4, 3);
    assign_each(s, mean, 4, 3);
    sync_checkpoint c{s, at.text()};
    c.add({w, sum, mean});
    CHECK(c.save() == at.text() + "/ckpt-1");
    w.assign(9.0f);
    sum.assign(0.0f);
    CHECK(c.restore() == at.text() + "/ckpt-1");
    for (std::size_t i = 0; i < 2; ++i) {
      CHECK(w.component(i).item<float>() == 2.0f);
      CHECK(sum.component(i).item<float>() == 3.5f);
      CHECK(mean.component(i).item<float>() == 3.5f);
    }
  }
  auto s = mirrored_over(4);
  auto w = s.scope([] { return make_variable({.name = "w", .initial = tensor::scalar(0.0f)}); });
  auto sum = on_read(s, "sum", variable_aggregation::sum);
  auto mean = on_read(s, "mean", variable_aggregation::mean);
  sync_checkpoint c{s, at.text()};
  c.add({w, sum, mean});
  CHECK(c.restore());
  CHECK(w.component(3).item<float>() == 2.0f);
  CHECK(sum.component(3).item<float>() == 1.75f);
  CHECK(sum.item<float>() == 7.0f);
  CHECK(mean.component(3).item<float>() == 3.5f);
}

/// Adam's next value depends on its slots and its t.
distributed_variable adam_variable(const strategy& s) {
  return s.scope([] {
    return make_variable({.name = "w",
                          .initial = tensor::zeros(dtype::f32, {3}),
                          .aggregation = variable_aggregation::mean,
                          .optimizer = adam{0.1f}});
  });
}

void train(const strategy& s, const distributed_variable& w, int from, int to) {
  for (int step = from; step < to; ++step)
    s.run([&](replica_context& ctx) {
      const auto x = static_cast<float>(step + 1) * (1.0f + static_cast<float>(id_of(ctx)));
      ctx.apply({w}, {vec<float>({x, -x, x * x})}, reduce_op::mean);
    });
}

TEST_CASE("SYNC-CKP-6 slots, step counts, counters and positions come back on every worker") {
  const checkpoint_folder at;
  std::vector<float> straight;
  std::mutex mutex;
  on_workers(
    2,
    [&](std::uint32_t worker, runtime& rt) {
      auto s = strategy_over(rt, 2);
      auto w = adam_variable(s);
      std::int64_t epoch = 3;
      std::string position = "row " + std::to_string(worker * 10);
      sync_checkpoint c{s, at.text()};
      c.add(w).add_counter("epoch", epoch);
      c.add_position(
        "input", [&] { return position; }, [&](const std::string& text) { position = text; });
      CHECK(!c.restore());
      train(s, w, 0, 5);
      CHECK(c.save() == at.text() + "/ckpt-1");
      train(s, w, 5, 9);
      std::lock_guard lock{mutex};
      straight = values_of(w.component(0));
    },
    2);
  on_workers(
    2,
    [&](std::uint32_t worker, runtime& rt) {
      auto s = strategy_over(rt, 2);
      auto w = adam_variable(s);
      std::int64_t epoch = 0;
      std::string position;
      sync_checkpoint c{s, at.text()};
      c.add(w).add_counter("epoch", epoch);
      c.add_position(
        "input", [&] { return position; }, [&](const std::string& text) { position = text; });
      CHECK(c.restore() == at.text() + "/ckpt-1");
      CHECK(epoch == 3);
      CHECK(position == "row " + std::to_string(worker * 10));
      train(s, w, 5, 9);
      for (std::size_t i = 0; i < 2; ++i)
        CHECK(values_of(w.component(i)) == straight);
    },
    2);
  CHECK(at.checkpoints() == std::vector<std::string>{"ckpt-1"});
}

TEST_CASE("as many checkpoints stay as were asked for; a damaged one gives way to the one before") {
  const checkpoint_folder at;
  auto s = mirrored_over(2);
  auto w = s.scope([] { return make_variable({.name = "w", .initial = tensor::scalar(0.0f)}); });
  sync_checkpoint c{s, at.text(), {.keep = 2}};
  c.add(w);
  for (int i = 1; i <= 3; ++i) {
    w.assign(i);
    (void)c.save();
  }
  CHECK(at.checkpoints() == std::vector<std::string>{"ckpt-2", "ckpt-3"});
  at.damage("ckpt-3/data-00000");
  CHECK(c.restore() == at.text() + "/ckpt-2");
  CHECK(w.item<float>() == 2.0f);
  REQUIRE(c.refused().size() == 1);
  CHECK(c.refused()[0].find("ckpt-3") != std::string::npos);
  at.damage("ckpt-2/manifest");
  names(failure_of([&] { (void)c.restore(); }), errc::corrupt, {"ckpt-2", "ckpt-3"});
  CHECK(w.item<float>() == 2.0f);
}

TEST_CASE("what does not fit is refused on every worker, and changes nothing") {
  const checkpoint_folder at;
  auto values = [](runtime& rt, shape_t shape, const std::string& name) {
    auto s = strategy_over(rt);
    auto v = s.scope(
      [&] { return make_variable({.name = name, .initial = tensor::zeros(dtype::f32, shape)}); });
    return std::pair{s, v};
  };
  on_workers(2, [&](std::uint32_t, runtime& rt) {
    auto [s, v] = values(rt, {2}, "w");
    sync_checkpoint c{s, at.text()};
    c.add(v).add_position(
      "input", [] { return "x"; }, [](const std::string&) {});
    (void)c.save();
  });
  on_workers(2, [&](std::uint32_t, runtime& rt) {
    auto [s, v] = values(rt, {3}, "w");
    v.assign(7.0f);
    sync_checkpoint c{s, at.text()};
    c.add(v);
    names(failure_of([&] { (void)c.restore(); }), errc::mismatch, {"'w'", "[3]", "[2]"});
    CHECK(v.read().at<float>(0) == 7.0f);
    auto [other, x] = values(rt, {2}, "x");
    sync_checkpoint d{other, at.text()};
    d.add(x);
    names(failure_of([&] { (void)d.restore(); }), errc::mismatch, {"'x'", "ckpt-1"});
    std::int64_t n = 5;
    sync_checkpoint e{other, at.text()};
    e.add_counter("n", n);
    names(failure_of([&] { (void)e.restore(); }), errc::mismatch, {"counter/n"});
    CHECK(n == 5);
  });
  on_workers(3, [&](std::uint32_t, runtime& rt) {
    auto [s, v] = values(rt, {2}, "w");
    sync_checkpoint c{s, at.text()};
    c.add(v).add_position(
      "input", [] { return ""; }, [](const std::string&) { FAIL("a position of other workers"); });
    names(failure_of([&] { (void)c.restore(); }), errc::mismatch, {"2 workers", "3"});
  });
}

TEST_CASE("a storage that fails fails the save on every worker, naming the path") {
  const checkpoint_folder at;
  std::ofstream{at.text()} << "a file stands where the directory should";
  on_workers(2, [&](std::uint32_t, runtime& rt) {
    auto s = strategy_over(rt);
    auto v = s.scope([] { return make_variable({.name = "w", .initial = tensor::scalar(1.0f)}); });
    sync_checkpoint c{s, at.text()};
    c.add(v);
    const auto why = failure_of([&] { (void)c.save(); });
    CHECK_MESSAGE(why.text.find(at.text()) != std::string::npos, to_string(why));
    s.barrier();
  });
}

TEST_CASE("links in the checkpoint folder: a save of replicas empties nobody's folder") {
  namespace fs = std::filesystem;
  const checkpoint_folder at;
  const fs::path folder = fs::path{at.text()} / "ckpts";
  const fs::path theirs = fs::path{at.text()} / "theirs";
  fs::create_directories(folder);
  fs::create_directories(theirs);
  std::ofstream{theirs / "precious"} << "precious";
  fs::create_directory_symlink(theirs, folder / "ckpt-5.tmp");
  fs::create_directory_symlink(theirs, folder / "ckpt-1");
  auto s = mirrored_over(2);
  auto w = s.scope([] { return make_variable({.name = "w", .initial = tensor::scalar(0.0f)}); });
  sync_checkpoint c{s, folder.string(), {.keep = 2}};
  c.add(w);
  for (int i = 1; i <= 4; ++i) {
    w.assign(i);
    CHECK(c.save() == (folder / ("ckpt-" + std::to_string(5 + i))).string());
  }
  CHECK(fs::exists(theirs / "precious"));
  CHECK_FALSE(fs::exists(folder / "ckpt-7"));
  fs::create_directory_symlink(folder / "ckpt-8", folder / "ckpt-10");
  CHECK(c.restore() == (folder / "ckpt-9").string());
  CHECK(w.item<float>() == 4.0f);
  REQUIRE(c.refused().size() == 1);
  CHECK(c.refused()[0].find("ckpt-10 is a symbolic link") != std::string::npos);
}

TEST_CASE("a folder that another one writes into refuses a save on every worker") {
  const checkpoint_folder at;
  const auto folder = at.text();
  std::filesystem::create_directories(folder);
  auto ports = make_production_ports();
  auto other = ports->storage().lock(at.text() + "/.troupe-lock");
  REQUIRE(other);
  on_workers(2, [&](std::uint32_t, runtime& rt) {
    auto s = strategy_over(rt);
    auto v = s.scope([] { return make_variable({.name = "w", .initial = tensor::scalar(1.0f)}); });
    sync_checkpoint c{s, at.text()};
    c.add(v);
    names(failure_of([&] { (void)c.save(); }), errc::try_again, {folder.c_str(), "another writer"});
    s.barrier();
  });
}

TEST_CASE("a checkpoint folder that is a file is an error of restore, and not no checkpoint") {
  const checkpoint_folder at;
  std::ofstream{at.text()} << "a file stands where the directory should";
  auto s = mirrored_over(2);
  auto w = s.scope([] { return make_variable({.name = "w", .initial = tensor::scalar(0.0f)}); });
  sync_checkpoint c{s, at.text()};
  c.add(w);
  const auto why = failure_of([&] { (void)c.restore(); });
  CHECK(why.code == errc::io_failed);
  CHECK_MESSAGE(why.text.find(at.text()) != std::string::npos, why.text);
}

TEST_CASE("checkpoints refuse names that are taken, other strategies' variables, no directory") {
  auto s = mirrored_over(2);
  auto other = mirrored_over(2);
  auto w = s.scope([] { return make_variable({.name = "w", .initial = tensor::scalar(0.0f)}); });
  sync_checkpoint c{s, "somewhere"};
  c.add(w);
  std::int64_t n = 0;
  c.add_counter("n", n);
  names(failure_of([&] { c.add(w); }), errc::invalid_argument, {"variable", "'w'"});
  names(failure_of([&] { c.add_counter("n", n); }), errc::invalid_argument, {"counter", "'n'"});
  names(failure_of([&] { c.add_counter("", n); }), errc::invalid_argument, {"counter"});
  sync_checkpoint d{other, "somewhere"};
  names(failure_of([&] { d.add(w); }), errc::invalid_argument, {"'w'", "mirrored_strategy"});
  names(failure_of([&] { (void)sync_checkpoint{s, ""}; }), errc::invalid_argument, {"directory"});
  names(failure_of([&] {
          (void)sync_checkpoint{s, "x", {.keep = 0}};
        }),
        errc::invalid_argument, {"keep"});
  names(failure_of([&] {
          (void)sync_checkpoint{strategy{}, "x"};
        }),
        errc::invalid_argument, {"default strategy"});
}

} // namespace

TEST_CASE("the learning rate that was set by hand is in the checkpoint of replicas") {
  using namespace replicas_test;
  const checkpoint_folder at;
  const auto make = [](const strategy& s, const std::string& name) {
    return s.scope([&] {
      return make_variable(
        {.name = name, .initial = tensor::vector<float>({0, 0}), .optimizer = sgd{0.5f}});
    });
  };
  const auto after_one = [](const strategy& s, const distributed_variable& v) {
    v.assign(tensor::vector<float>({0, 0}));
    s.run([&](replica_context& ctx) { apply_reduced(ctx, {v}, {tensor::vector<float>({1, 2})}); });
    return v.read();
  };
  {
    auto s = mirrored_over(2);
    auto set = make(s, "set");
    auto not_set = make(s, "not set");
    set_learning_rate(set, 0.1f);
    sync_checkpoint c{s, at.text()};
    c.add({set, not_set});
    (void)c.save();
  }
  auto s = mirrored_over(3);
  auto set = make(s, "set");
  auto not_set = make(s, "not set");
  set_learning_rate(not_set, 0.125f);
  sync_checkpoint c{s, at.text()};
  c.add({set, not_set});
  CHECK(c.restore());
  CHECK(after_one(s, set) == tensor::vector<float>({-0.1f, -0.2f}));
  CHECK(after_one(s, not_set) == tensor::vector<float>({-0.5f, -1.0f}));
}
