#include <stdexcept>

#include <doctest/doctest.h>

#include "cluster_support.hpp"

// What steps throw, how it is raised, and what a cancellation reaches.
namespace {

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

gate door;

int fine(worker_context&) { return 1; }
TROUPE_FUNCTION(fine);

int refuse(worker_context&) { throw_failure(errc::invalid_argument, "this step says no"); }
TROUPE_FUNCTION(refuse);

struct odd_exception : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Runs until it is cancelled, asking only `cancelled`; then ends as if nothing were.
int until_cancelled(worker_context& ctx) {
  door.pass();
  const auto until = std::chrono::steady_clock::now() + patience;
  while (!ctx.cancelled())
    if (std::chrono::steady_clock::now() > until)
      return 0;
  return 7;
}
TROUPE_FUNCTION(until_cancelled);

/// Runs until reading throws.
void read_until_cancelled(worker_context& ctx, const variable& v) {
  door.pass();
  const auto until = std::chrono::steady_clock::now() + patience;
  while (std::chrono::steady_clock::now() < until)
    ctx.read(v);
}
TROUPE_FUNCTION(read_until_cancelled);

std::int64_t next_number(worker_context&, dataset_iterator& it) {
  return it.next().item<std::int64_t>();
}
TROUPE_FUNCTION(next_number);

int pass_door(worker_context&) {
  door.pass();
  return 2;
}
TROUPE_FUNCTION(pass_door);

void three_good_one_bad(cluster_coordinator& c) {
  for (int i = 0; i < 3; ++i)
    c.schedule(fine);
  c.schedule(refuse);
}

errc raised_by_join(cluster_coordinator& c) {
  return failure_of([&] { c.join(patience); }).code;
}

} // namespace

TEST_CASE("PS-E6, PS-T-E1 three good closures and a bad one: join raises its error") {
  small_cluster c;
  three_good_one_bad(c.coordinator);
  auto why = failure_of([&] { c.coordinator.join(patience); });
  CHECK(why.code == errc::invalid_argument);
  CHECK(why.text == "step 'refuse', closure 1:4, attempt 1: this step says no");
  CHECK(why.where.task.job == job_kind::worker);
  CHECK(why.where.inc.counter == 1);
}

TEST_CASE(
  "PS-E6, PS-T-E2, PS-B8 the same is raised from schedule, whose closure is then cancelled") {
  small_cluster c;
  three_good_one_bad(c.coordinator);
  std::uint64_t in = 4;
  auto why = failure_of([&] {
    const auto until = std::chrono::steady_clock::now() + patience;
    for (; std::chrono::steady_clock::now() < until; ++in)
      c.coordinator.schedule(fine);
  });
  CHECK(why.code == errc::invalid_argument);
  auto s = c.coordinator.statistics();
  CHECK(s.scheduled == in); // without the one that raised
  CHECK(s.failed == 1);
  CHECK(s.finished + s.cancelled == in - 1);
  c.coordinator.join(patience);
}

TEST_CASE(
  "PS-T-E3, PS-E1, PS-E7, PS-B10 many bad ones: one is raised, once; errors() has them all") {
  small_cluster c{{.workers = 1}};
  opened_at_end guard{door};
  c.coordinator.schedule(pass_door);
  REQUIRE(door.seen(1));
  c.coordinator.schedule([](worker_context&) { throw odd_exception{"first"}; });
  c.coordinator.schedule([](worker_context&) { throw odd_exception{"second"}; });
  door.open();
  REQUIRE(comes_true([&] { return c.coordinator.errors().size() == 2; }));
  auto why = failure_of([&] { c.coordinator.join(patience); });
  CHECK(why.code == errc::user_code);
  CHECK(says(why, "odd_exception: first")); // its type, and its own words
  c.coordinator.join(patience);
  c.coordinator.schedule(fine).fetch();
  auto all = c.coordinator.errors();
  REQUIRE(all.size() == 2);
  CHECK(says(all[1], "odd_exception: second"));
}

TEST_CASE("PS-CLS5 what a step throws fails the closure, with type and text, whatever it is") {
  small_cluster c;
  auto of = [&](auto step) {
    auto why = failure_of([&] { c.coordinator.schedule(step).fetch(); });
    (void)failure_of([&] { c.coordinator.join(patience); });
    return why;
  };
  CHECK(
    says(of([](worker_context&) { throw std::out_of_range{"at 9"}; }), "std::out_of_range: at 9"));
  CHECK(says(of([](worker_context&) { throw 5; }), "int"));
  CHECK(of([](worker_context&) { throw_failure(errc::not_found, "no file"); }).code
        == errc::not_found);
  // an error that would mean a lost worker, made by the user's own code, is the user's
  auto why = of([](worker_context&) { throw_failure(errc::unavailable, "my database"); });
  CHECK(why.code == errc::user_code);
  CHECK(says(why, "my database"));
  CHECK(c.coordinator.statistics().retried == 0);
  CHECK(c.coordinator.workers().size() == 2);
}

TEST_CASE("PS-T-E4 a second batch raises its own error") {
  small_cluster c;
  c.coordinator.schedule(refuse);
  CHECK(raised_by_join(c.coordinator) == errc::invalid_argument);
  three_good_one_bad(c.coordinator);
  CHECK(raised_by_join(c.coordinator) == errc::invalid_argument);
  CHECK(raised_by_join(c.coordinator) == errc::none);
}

TEST_CASE("PS-T-E5, PS-D7 fetch raises the closure's own error and leaves it for join") {
  small_cluster c;
  auto bad = c.coordinator.schedule(refuse);
  CHECK(failure_of([&] { bad.fetch(); }).code == errc::invalid_argument);
  CHECK(failure_of([&] { bad.fetch(); }).code == errc::invalid_argument);
  CHECK(raised_by_join(c.coordinator) == errc::invalid_argument);
}

TEST_CASE("PS-C7 done raises the first error and clears it") {
  small_cluster c;
  c.coordinator.schedule(refuse);
  errc raised = errc::none;
  CHECK(comes_true([&] {
    raised = failure_of([&] { c.coordinator.done(); }).code;
    return raised != errc::none;
  }));
  CHECK(raised == errc::invalid_argument);
  CHECK(c.coordinator.done());
}

TEST_CASE(
  "PS-E9, PS-E3, PS-D8, PS-B9 a running step sees the cancellation; its fetch says cancelled") {
  small_cluster c;
  opened_at_end guard{door};
  auto endless = c.coordinator.schedule(until_cancelled);
  REQUIRE(door.seen(1));
  door.open();
  c.coordinator.schedule(refuse);
  CHECK(raised_by_join(c.coordinator) == errc::invalid_argument);
  CHECK(endless.ready()); // nothing runs any more when join has raised
  CHECK(failure_of([&] { endless.fetch(); }).code == errc::cancelled);
  CHECK(c.coordinator.statistics().cancelled == 1);
}

TEST_CASE(
  "PS-E9, PS-E4 a cancelled step ends at its next call; its own end does not replace the error") {
  small_cluster c;
  opened_at_end guard{door};
  auto v = c.strategy.create_variable({.shape = {4}});
  auto endless = c.coordinator.schedule(read_until_cancelled, v);
  REQUIRE(door.seen(1));
  door.open();
  c.coordinator.schedule(refuse);
  CHECK(raised_by_join(c.coordinator) == errc::invalid_argument);
  auto why = failure_of([&] { endless.fetch(); });
  CHECK(why.code == errc::cancelled);
  CHECK(raised_by_join(c.coordinator) == errc::none);
}

TEST_CASE("PS-E12 a cancellation is no error: errors() has the first failure only") {
  small_cluster c;
  opened_at_end guard{door};
  c.coordinator.schedule(until_cancelled);
  REQUIRE(door.seen(1));
  door.open();
  c.coordinator.schedule(refuse);
  CHECK(raised_by_join(c.coordinator) == errc::invalid_argument);
  REQUIRE(c.coordinator.errors().size() == 1);
  CHECK(c.coordinator.errors()[0].code == errc::invalid_argument);
}

TEST_CASE("PS-E3, PS-D8 what is queued when an error is raised is cancelled, not run") {
  small_cluster c{{.workers = 2}};
  opened_at_end guard{door};
  static std::atomic<int> ran;
  ran = 0;
  c.coordinator.schedule(closure_options{.worker = 1}, until_cancelled); // holds its only thread
  c.coordinator.schedule(closure_options{.worker = 0}, pass_door);
  REQUIRE(door.seen(2));
  auto bad = c.coordinator.schedule(closure_options{.worker = 0}, refuse); // sent ahead
  std::vector<remote_value<int>> queued;
  constexpr int n = 400; // more than are sent ahead
  for (int i = 0; i < n; ++i)
    queued.push_back(
      c.coordinator.schedule(closure_options{.worker = 1}, [](worker_context&) { return ++ran; }));
  door.open();
  CHECK(raised_by_join(c.coordinator) == errc::invalid_argument);
  for (auto& q : queued)
    CHECK(failure_of([&] { q.fetch(); }).code == errc::cancelled);
  CHECK(says(failure_of([&] { queued.back().fetch(); }), "schedule it again"));
  CHECK(ran == 0);
  CHECK(c.coordinator.statistics().cancelled == n + 1);
}

TEST_CASE("PS-E3 a step that never asks is given up after the grace and its thread replaced") {
  small_cluster c{{.workers = 2, .cancel_grace_ms = 30}};
  opened_at_end guard{door};
  auto deaf = c.coordinator.schedule(pass_door);
  REQUIRE(door.seen(1));
  c.coordinator.schedule(refuse);
  CHECK(raised_by_join(c.coordinator) == errc::invalid_argument);
  CHECK(failure_of([&] { deaf.fetch(); }).code == errc::cancelled);
  std::vector<remote_value<int>> after;
  for (std::uint32_t i = 0; i < 6; ++i)
    after.push_back(c.coordinator.schedule(closure_options{.worker = i % 2}, fine));
  for (auto& a : after)
    CHECK(a.try_fetch(patience).value() == 1);
}

TEST_CASE("PS-T-E9, PS-E8 an iterator is usable after a cancelled batch, where it stood") {
  small_cluster c{{.workers = 1}};
  auto data = c.coordinator.create_per_worker_dataset([] { return dataset::range(100); });
  auto it = data.iterator();
  CHECK(c.coordinator.schedule(next_number, it).fetch() == 0);
  c.coordinator.schedule(refuse);
  CHECK(raised_by_join(c.coordinator) == errc::invalid_argument);
  CHECK(c.coordinator.schedule(next_number, it).fetch() == 1);
  c.coordinator.join(patience);
}

TEST_CASE("PS-T-E6, PS-E10, PS-E11, PS-R3 a resource that cannot be built fails what takes it") {
  small_cluster c;
  auto broken =
    c.coordinator.create_per_worker_value([]() -> int { throw odd_exception{"no such thing"}; });
  auto value = c.coordinator.schedule(
    [](worker_context&, per_worker_value<int>& x) { return x.value; }, broken);
  auto why = failure_of([&] { value.fetch(); });
  CHECK(why.code == errc::input_failed);
  CHECK(says(why, "odd_exception: no such thing"));
  CHECK(raised_by_join(c.coordinator) == errc::input_failed);
}

TEST_CASE(
  "PS-T-E6, PS-E10 a dataset that cannot be opened fails the iterator's user with its own error") {
  small_cluster c;
  auto data =
    c.coordinator.create_per_worker_dataset([] { return dataset::idx("/nowhere/at-all.gz"); });
  auto it = data.iterator();
  auto why = failure_of([&] { c.coordinator.schedule(next_number, it).fetch(); });
  CHECK(why.code == errc::input_failed);
  CHECK(says(why, "/nowhere/at-all.gz"));
  CHECK(raised_by_join(c.coordinator) == errc::input_failed);
}

TEST_CASE(
  "PS-T-E7, PS-E10 a broken resource that nobody takes is never raised, but errors() shows it") {
  small_cluster c;
  auto broken =
    c.coordinator.create_per_worker_value([]() -> int { throw odd_exception{"unused"}; });
  auto good = c.coordinator.create_per_worker_value([] { return 4; });
  auto value =
    c.coordinator.schedule([](worker_context&, per_worker_value<int>& x) { return x.value; }, good);
  CHECK(value.fetch() == 4);
  c.coordinator.join(patience);
  CHECK(comes_true([&] {
    auto all = c.coordinator.errors();
    return !all.empty() && says(all[0], "unused");
  }));
}

TEST_CASE("PS-L10 a finite dataset that ends is the batch's error") {
  small_cluster c{{.workers = 1}};
  auto data = c.coordinator.create_per_worker_dataset([] { return dataset::range(2); });
  auto it = data.iterator();
  c.coordinator.schedule(next_number, it);
  c.coordinator.schedule(next_number, it);
  c.coordinator.join(patience);
  c.coordinator.schedule(next_number, it);
  CHECK(raised_by_join(c.coordinator) == errc::end_of_data);
}

TEST_CASE("PS-T-E10 the errors are the same with room for two in the queue") {
  small_cluster c{{.workers = 5, .queue_len_max = 2}};
  for (int round = 0; round < 3; ++round) {
    auto why = failure_of([&] {
      three_good_one_bad(c.coordinator);
      const auto until = std::chrono::steady_clock::now() + patience;
      while (std::chrono::steady_clock::now() < until)
        c.coordinator.schedule(fine);
    });
    CHECK(why.code == errc::invalid_argument);
    c.coordinator.join(patience);
    CHECK(c.coordinator.done());
  }
}

TEST_CASE(
  "a gradient of the wrong shape is refused: the error names the variable, expected and given") {
  small_cluster c{{}, {.partitioner = fixed_shards_partitioner{2}}};
  auto v = c.strategy.create_variable({.name = "table", .shape = {4, 3}, .optimizer = sgd{1.0f}});
  auto apply = [](worker_context& ctx, const variable& x) {
    ctx.apply(x, tensor::zeros(dtype::f32, {4, 2}));
  };
  auto why = failure_of([&] { c.coordinator.schedule(apply, v).fetch(); });
  CHECK(why.code == errc::shape_mismatch);
  CHECK(says(why, "table"));
  CHECK(says(why, "[4, 3]"));
  CHECK(says(why, "[4, 2]"));
  CHECK(raised_by_join(c.coordinator) == errc::shape_mismatch);
  CHECK(v.read() == tensor::zeros(dtype::f32, {4, 3}));
}

TEST_CASE("a variable that does not exist is told by its number") {
  small_cluster c;
  auto step = [](worker_context& ctx) {
    (void)detail::variable_in_step(ctx, static_cast<variable_id>(77));
  };
  auto why = failure_of([&] { c.coordinator.schedule(step).fetch(); });
  CHECK(why.code == errc::unknown_variable);
  CHECK(says(why, "77"));
}

TEST_CASE(
  "'values are f32, expected f32' was said of none: an error says that no values were given") {
  small_cluster c;
  auto v = c.strategy.create_variable({.name = "w", .shape = {3}, .optimizer = sgd{1.0f}});
  auto scalar = c.strategy.create_variable({.name = "s", .initial = tensor::scalar(2.0f)});
  auto of_step = [&](auto step) {
    auto why = failure_of([&] { c.coordinator.schedule(step, v, scalar).fetch(); });
    (void)failure_of([&] { c.coordinator.join(patience); });
    return why;
  };
  const std::vector<failure> all{
    of_step(
      [](worker_context& ctx, const variable& x, const variable&) { ctx.apply(x, tensor{}); }),
    of_step([](worker_context&, const variable& x, const variable&) { x.assign(tensor{}); }),
    of_step([](worker_context&, const variable&, const variable& s) { s.assign_add(tensor{}); }),
    failure_of([&] { v.assign(tensor{}); }), failure_of([&] { scalar.assign(tensor{}); })};
  for (const auto& why : all) {
    CHECK_MESSAGE(why.code == errc::invalid_argument, to_string(why));
    CHECK_MESSAGE((says(why, "given") || says(why, "no value") || says(why, "value is missing")),
                  to_string(why));
    CHECK_MESSAGE(says(why, "expected f32["), to_string(why));
  }
  CHECK(v.read() == tensor::zeros(dtype::f32, {3}));
  CHECK(scalar.read().item<float>() == 2.0f);
}

TEST_CASE(
  "what a step threw named neither the step nor the attempt: it names both, and the closure") {
  small_cluster c;
  auto why = failure_of([&] {
    c.coordinator.schedule([](worker_context&) { throw odd_exception{"bad batch"}; }).fetch();
  });
  CHECK(says(why, "odd_exception: bad batch"));
  CHECK_MESSAGE(says(why, "lambda("), why.text); // and not Z...E_
  CHECK(says(why, "closure 1:1, attempt 1"));
  CHECK(to_string(why).find("worker:") != std::string::npos);
}
