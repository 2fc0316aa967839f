#include <atomic>
#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>

#include <doctest/doctest.h>

#include <troupe/strategies/runtime/detail/coordinator_client.hpp>

#include "cluster_support.hpp"

// save and restore through the coordinator, with optimizer slots and into other numbers of shards
// and servers. The files themselves are in tests/unit/actors/checkpoint/checkpoint_*.
namespace {

using namespace troupe;
using namespace troupe::test;
namespace fs = std::filesystem;

void push_counted(worker_context& ctx, const variable& v, float first) {
  tensor g{v.type(), v.shape()};
  for (float& x : g.mutable_as<float>())
    x = first++;
  ctx.apply(v, g);
}
TROUPE_FUNCTION(push_counted);

variable_options with_adam(std::string name) {
  return {.name = std::move(name), .initial = counted(7, 3), .optimizer = adam{0.1f}};
}

void train(small_cluster& c, const variable& v, int steps, float first) {
  for (int i = 0; i < steps; ++i)
    c.coordinator.schedule(push_counted, v, first + static_cast<float>(i));
  c.coordinator.join(patience);
}

/// Where the largest file under `directory` is.
fs::path largest_file(const fs::path& directory) {
  fs::path out;
  for (const auto& entry : fs::recursive_directory_iterator{directory})
    if (entry.is_regular_file() && (out.empty() || entry.file_size() > fs::file_size(out)))
      out = entry.path();
  return out;
}

} // namespace

TEST_CASE("PS-Y1, PS-G11 a sharded variable is one logical tensor: saved, changed, restored") {
  scratch_folder here;
  auto c = cut(4);
  auto v =
    c.strategy.create_variable({.name = "w", .initial = tensor::vector<float>({0, 1, 2, 3})});
  auto name = c.coordinator.save(here.text());
  CHECK_FALSE(name.empty());
  v.assign(tensor::vector<float>({4, 1, 2, 3}));
  CHECK(c.coordinator.restore(here.text()).empty());
  CHECK(v.read() == tensor::vector<float>({0, 1, 2, 3}));
}

TEST_CASE("PS-Y1, PS-Y6 values, slots and step counts go into any number of shards and servers") {
  scratch_folder here;
  tensor after_five;
  tensor after_six;
  {
    auto c = cut(2);
    auto v = c.strategy.create_variable(with_adam("w"));
    train(c, v, 5, 1);
    c.coordinator.save(here.text());
    after_five = v.read();
    train(c, v, 1, 50);
    after_six = v.read();
  }
  for (auto [shard_count, server_count] : {std::pair{2, 2}, {3, 2}, {1, 1}, {7, 3}, {2, 3}}) {
    const auto shards = shard_count; // what a lambda may name
    const auto servers = server_count;
    CAPTURE(shards);
    CAPTURE(servers);
    auto c = cut(shards, static_cast<std::uint32_t>(servers));
    auto v = c.strategy.create_variable(with_adam("w"));
    train(c, v, 2, -9); // what was there before must not show
    c.coordinator.restore(here.text());
    CHECK(v.read() == after_five);
    train(c, v, 1, 50); // m, v and t decide this step
    CHECK(v.read() == after_six);
  }
}

TEST_CASE("PS-Y6 the other optimizers' slots come back as well") {
  for (const optimizer& how :
       {optimizer{momentum{0.1f}}, optimizer{adagrad{0.1f}}, optimizer{sgd{0.1f}}}) {
    scratch_folder here;
    auto make = [&](small_cluster& c) {
      return c.strategy.create_variable({.name = "w", .initial = counted(7, 3), .optimizer = how});
    };
    auto from = cut(2);
    auto v = make(from);
    train(from, v, 3, 1);
    from.coordinator.save(here.text());
    train(from, v, 1, 50);
    auto to = cut(3);
    auto w = make(to);
    to.coordinator.restore(here.text());
    train(to, w, 1, 50);
    CHECK(w.read() == v.read());
  }
}

TEST_CASE("PS-Y3 a variable that is made after restore starts from the checkpoint") {
  scratch_folder here;
  tensor saved, next;
  {
    auto c = cut(2);
    auto v = c.strategy.create_variable(with_adam("late"));
    train(c, v, 4, 1);
    c.coordinator.save(here.text());
    saved = v.read();
    train(c, v, 1, 50);
    next = v.read();
  }
  auto c = cut(3, 3);
  c.coordinator.restore(here.text());
  auto other = c.strategy.create_variable({.name = "unknown there", .initial = counted(2, 2)});
  auto v = c.strategy.create_variable(with_adam("late"));
  CHECK(v.read() == saved);
  CHECK(other.read() == counted(2, 2));
  train(c, v, 1, 50);
  CHECK(v.read() == next);
}

TEST_CASE("restore into another shape, type or optimizer is refused, naming both") {
  scratch_folder here;
  {
    auto c = cut(2);
    c.strategy.create_variable({.name = "w", .initial = counted(4, 3), .optimizer = adam{}});
    c.coordinator.save(here.text());
  }
  auto refusal = [&](variable_options options) {
    auto c = cut(2);
    auto v = c.strategy.create_variable(std::move(options));
    return failure_of([&] { c.coordinator.restore(here.text()); });
  };
  auto shape = refusal({.name = "w", .initial = counted(4, 2), .optimizer = adam{}});
  CHECK(shape.code == errc::mismatch);
  CHECK(says(shape, "[4, 2]"));
  CHECK(says(shape, "[4, 3]"));
  CHECK(refusal({.name = "w", .shape = {4, 3}, .optimizer = adagrad{}}).code == errc::mismatch);
  auto missing = refusal({.name = "other", .initial = counted(4, 3)});
  CHECK(missing.code == errc::mismatch);
  CHECK(says(missing, "'other'"));
}

TEST_CASE("restore from a directory without a checkpoint says not_found") {
  scratch_folder here;
  auto c = cut(2);
  auto why = failure_of([&] { c.coordinator.restore(here.text()); });
  CHECK(why.code == errc::not_found);
  CHECK(says(why, here.text()));
}

TEST_CASE("a damaged checkpoint is refused by name and the one before it used") {
  scratch_folder here;
  auto c = cut(2);
  auto v = c.strategy.create_variable({.name = "w", .initial = counted(400, 3)});
  c.coordinator.save(here.text());
  v.assign(counted(400, 3, 5));
  auto second = c.coordinator.save(here.text());
  auto file = largest_file(here.path() / fs::path{second}.filename());
  REQUIRE(fs::exists(file));
  {
    std::fstream damage{file, std::ios::in | std::ios::out | std::ios::binary};
    damage.seekp(static_cast<std::streamoff>(fs::file_size(file) / 2));
    damage.put('x');
    damage.put('y');
  }
  auto refused = c.coordinator.restore(here.text());
  REQUIRE(refused.size() == 1);
  CHECK(refused[0].find(fs::path{second}.filename().string()) != std::string::npos);
  CHECK(v.read() == counted(400, 3));
}

TEST_CASE("save keeps as many checkpoints as asked") {
  scratch_folder here;
  auto c = cut(1);
  c.strategy.create_variable({.name = "w", .initial = counted(2, 2)});
  std::string last;
  for (int i = 0; i < 4; ++i)
    last = c.coordinator.save(here.text(), {.keep = 2});
  std::size_t entries = 0;
  bool has_last = false;
  for (const auto& entry : fs::directory_iterator{here.path()}) {
    ++entries;
    has_last |= entry.path().filename() == fs::path{last}.filename();
  }
  CHECK(entries == 2);
  CHECK(has_last);
}

TEST_CASE("save is a snapshot: it waits for what runs, and what is queued runs after it") {
  static gate door;
  scratch_folder here;
  small_cluster c{{.workers = 2, .servers = 2}, {.partitioner = fixed_shards_partitioner{2}}};
  opened_at_end guard{door};
  auto v = c.strategy.create_variable({.name = "w", .shape = {4}, .optimizer = sgd{1.0f}});
  auto step = [](worker_context& ctx, const variable& x) {
    door.pass();
    push_counted(ctx, x, 1); // -1, -2, -3, -4
  };
  c.coordinator.schedule(step, v);
  REQUIRE(door.seen(1));
  std::atomic<bool> saved{false};
  std::thread saving{[&] {
    c.coordinator.save(here.text());
    saved = true;
  }};
  // it has stopped the dispatch once a closure for the idle worker is not run
  auto idle = [](worker_context&) { return 1; };
  while (!saved && c.coordinator.schedule(idle).try_fetch(std::chrono::milliseconds{20})) {
  }
  CHECK_FALSE(saved);
  door.open();
  saving.join();
  c.coordinator.schedule(step, v);
  c.coordinator.join(patience);
  CHECK(v.read() == tensor::vector<float>({-2, -4, -6, -8}));
  c.coordinator.restore(here.text());
  CHECK(v.read()
        == tensor::vector<float>({-1, -2, -3, -4})); // whole: no part of a closure is in it
}

TEST_CASE("save gives up when a step does not end, naming the closure, and the work goes on") {
  static gate door;
  scratch_folder here;
  small_cluster c{{.workers = 1, .quiesce_ms_max = 30}};
  opened_at_end guard{door};
  auto v = c.strategy.create_variable({.name = "w", .shape = {4}});
  auto value = c.coordinator.schedule([](worker_context&) { return door.pass() ? 3 : 0; });
  REQUIRE(door.seen(1));
  auto why = failure_of([&] { c.coordinator.save(here.text()); });
  CHECK(why.code == errc::deadline);
  CHECK(says(why, "worker:0"));
  CHECK(fs::is_empty(here.path()));
  door.open();
  CHECK(value.fetch() == 3);
  CHECK(c.coordinator.schedule([](worker_context&) { return 4; }).fetch() == 4);
  c.coordinator.save(here.text());
  CHECK_FALSE(fs::is_empty(here.path()));
}

TEST_CASE("train, save, restart, restore, one step: the weights changed by exactly that step") {
  scratch_folder here;
  tensor saved;
  {
    auto c = cut(2);
    auto v =
      c.strategy.create_variable({.name = "w", .initial = counted(4, 1), .optimizer = sgd{1.0f}});
    train(c, v, 3, 1);
    c.coordinator.save(here.text());
    saved = v.read();
  }
  auto c = cut(2);
  auto v =
    c.strategy.create_variable({.name = "w", .initial = counted(4, 1), .optimizer = sgd{1.0f}});
  c.coordinator.restore(here.text());
  train(c, v, 1, 1);
  const auto after = v.read();
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(saved.as<float>()[i] - after.as<float>()[i] == static_cast<float>(i + 1));
}

TEST_CASE("links in the checkpoint folder: a save of parameter servers empties nobody's folder") {
  scratch_folder here;
  const fs::path folder = here.path() / "ckpts";
  const fs::path theirs = here.path() / "theirs";
  fs::create_directories(folder);
  fs::create_directories(theirs);
  std::ofstream{theirs / "precious"} << "precious";
  fs::create_directory_symlink(theirs, folder / "ckpt-5.tmp");
  fs::create_directory_symlink(theirs, folder / "ckpt-1");
  auto c = cut(2);
  auto v =
    c.strategy.create_variable({.name = "w", .initial = tensor::vector<float>({0, 1, 2, 3})});
  for (int i = 0; i < 4; ++i)
    CHECK(c.coordinator.save(folder.string())
          == (folder / ("ckpt-" + std::to_string(6 + i))).string());
  CHECK(fs::exists(theirs / "precious"));
  CHECK_FALSE(fs::exists(folder / "ckpt-7"));
  v.assign(tensor::vector<float>({9, 9, 9, 9}));
  fs::create_directory_symlink(folder / "ckpt-9", folder / "ckpt-10");
  const auto refused = c.coordinator.restore(folder.string());
  REQUIRE(refused.size() == 1);
  CHECK(refused[0].find("ckpt-10 is a symbolic link") != std::string::npos);
  CHECK(v.read() == tensor::vector<float>({0, 1, 2, 3}));
}

TEST_CASE("a folder that another one writes a checkpoint into refuses a save, and takes the next") {
  scratch_folder here;
  auto c = cut(1);
  auto v = c.strategy.create_variable({.name = "w", .initial = tensor::vector<float>({1, 2})});
  auto ports = make_production_ports();
  {
    auto other = ports->storage().lock(here / ".troupe-lock");
    REQUIRE(other);
    try {
      c.coordinator.save(here.text());
      FAIL("saved beside another writer");
    } catch (const error& why) {
      CHECK(why.code() == errc::try_again);
      CHECK(why.details().text.find(here.text() + ": another writer holds the lock")
            != std::string::npos);
    }
  }
  CHECK_FALSE(c.coordinator.save(here.text()).empty());
}

TEST_CASE("a checkpoint of parameter servers is exported whole as a numpy archive") {
  scratch_folder here;
  auto c = cut(3);
  auto v = c.strategy.create_variable(with_adam("w"));
  train(c, v, 2, 1);
  c.coordinator.save(here.text());
  auto ports = make_production_ports();
  const auto file = here / "out.npz";
  REQUIRE(export_checkpoint(ports->storage(), here.text(), file, {.slots = true}));
  const auto arrays = read_npz(ports->storage(), file).value_or_throw();
  REQUIRE(arrays.size() == 4);
  CHECK(arrays[0].name == "w");
  CHECK(arrays[0].value == v.read());
  CHECK(arrays[1].name == "w/m");
  CHECK(arrays[3].name == "w/steps");
  CHECK(arrays[3].value.item<std::int64_t>() == 2);
}

// --- learning rates

namespace {

void set_rate_step(worker_context&, const variable& v, float rate) { v.set_learning_rate(rate); }
TROUPE_FUNCTION(set_rate_step);

variable with_rate(small_cluster& c, const std::string& name, float rate) {
  return c.strategy.create_variable({.name = name, .shape = {2}, .optimizer = sgd{rate}});
}

tensor after_one(small_cluster& c, const variable& v) {
  v.assign(tensor::zeros(dtype::f32, {2}));
  train(c, v, 1, 1); // gradients 1 and 2
  return v.read();
}

} // namespace

TEST_CASE("set_learning_rate of less than 0, nan or inf is refused on parameter servers too") {
  auto c = cut(2);
  auto v = with_rate(c, "w", 0.5f);
  for (float rate : {-1.0f, -0.25f, std::numeric_limits<float>::quiet_NaN(),
                     std::numeric_limits<float>::infinity()}) {
    CAPTURE(rate);
    auto why = failure_of([&] { v.set_learning_rate(rate); });
    CHECK(why.code == errc::invalid_argument);
    CHECK(says(why, "'w'"));
    CHECK(says(why, std::to_string(rate)));
    auto in_step = failure_of([&] {
      c.coordinator.schedule(set_rate_step, v, rate);
      c.coordinator.join(patience);
    });
    CHECK(in_step.code == errc::invalid_argument);
    CHECK(says(in_step, std::to_string(rate)));
  }
  CHECK(after_one(c, v) == tensor::vector<float>({-0.5f, -1.0f})); // as before
  v.set_learning_rate(0);
  CHECK(after_one(c, v) == tensor::vector<float>({0, 0}));
}

TEST_CASE("the learning rate that was set by hand is in the checkpoint of parameter servers") {
  scratch_folder here;
  {
    auto c = cut(2);
    auto set = with_rate(c, "set", 0.5f);
    with_rate(c, "not set", 0.5f);
    set.set_learning_rate(0.1f); // no number of few binary digits
    c.coordinator.save(here.text());
  }
  auto c = cut(1, 3);
  auto set = with_rate(c, "set", 0.5f);
  auto not_set = with_rate(c, "not set", 0.5f);
  not_set.set_learning_rate(0.125f);
  c.coordinator.restore(here.text());
  CHECK(after_one(c, set) == tensor::vector<float>({-0.1f, -0.2f}));
  CHECK(after_one(c, not_set) == tensor::vector<float>({-0.5f, -1.0f}));
  auto d = cut(2);
  d.coordinator.restore(here.text());
  CHECK(after_one(d, with_rate(d, "set", 0.5f)) == tensor::vector<float>({-0.1f, -0.2f}));
}

TEST_CASE("a restore that fails on the second variable changes nothing on parameter servers") {
  scratch_folder here;
  {
    auto c = cut(2);
    c.strategy.create_variable({.name = "first", .initial = counted(4, 2), .optimizer = adam{}});
    c.strategy.create_variable({.name = "second", .initial = counted(4, 2), .optimizer = adam{}});
    c.coordinator.save(here.text());
  }
  const std::vector<variable_options> others{
    {.name = "second", .initial = counted(4, 3), .optimizer = adam{}},
    {.name = "second", .initial = counted(4, 2), .optimizer = adagrad{}},
    {.name = "second", .shape = {4, 2}, .type = dtype::f64, .optimizer = adam{}},
    {.name = "third", .initial = counted(4, 2)}};
  for (const auto& other : others) {
    auto c = cut(2);
    auto first = c.strategy.create_variable(
      {.name = "first", .initial = counted(4, 2, 7), .optimizer = adam{}});
    first.set_learning_rate(0.75f);
    c.strategy.create_variable(other);
    auto why = failure_of([&] { c.coordinator.restore(here.text()); });
    CHECK(why.code == errc::mismatch);
    CHECK(says(why, "'" + other.name + "'"));
    CHECK(first.read() == counted(4, 2, 7));
    // nor is the next variable made from that checkpoint
    auto later = c.strategy.create_variable(
      {.name = other.name == "third" ? "second" : "third", .initial = counted(4, 2, 9)});
    CHECK(later.read() == counted(4, 2, 9));
  }
}

// --- limits

TEST_CASE("save and restore of many variables open one session a server") {
  scratch_folder here;
  auto c = cut(3, 3);
  for (int i = 0; i < 40; ++i)
    c.strategy.create_variable({.name = "v" + std::to_string(i), .initial = counted(6, 2)});
  auto& sessions = c.rt.owner()->reader_pool();
  c.coordinator.save(here.text());
  c.coordinator.restore(here.text());
  c.coordinator.save(here.text());
  CHECK(sessions.opened() == 3);
}

namespace {

std::atomic<bool> works_on{false};

/// Reads until it is told to end: a step that takes long and shows that it works.
void reading_step(worker_context& ctx, const variable& v) {
  for (const auto until = std::chrono::steady_clock::now() + patience;
       works_on && std::chrono::steady_clock::now() < until;)
    (void)ctx.read(v);
}
TROUPE_FUNCTION(reading_step);

} // namespace

TEST_CASE("a save waits for a step that shows progress for longer than quiesce_ms_max") {
  scratch_folder here;
  small_cluster c{{.workers = 1, .quiesce_ms_max = 400}};
  auto v = c.strategy.create_variable({.name = "w", .shape = {4}});
  works_on = true;
  c.coordinator.schedule(reading_step, v);
  std::thread later{[] {
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds{1600};
    while (std::chrono::steady_clock::now() < until)
      std::this_thread::yield();
    works_on = false;
  }};
  CHECK_NOTHROW(c.coordinator.save(here.text()));
  later.join();
  c.coordinator.join(patience);
  CHECK_FALSE(fs::is_empty(here.path()));
}
