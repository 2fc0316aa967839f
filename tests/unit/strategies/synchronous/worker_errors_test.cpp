// Goal: what one worker fails with is what all are told: the code, its retry class and who it comes
// from, since a program decides by those whether it goes on. Method: workers as threads, each with
// a runtime and sockets of its own; tests/process/multi_worker_process.cpp has them as processes.

#include <optional>

#include "../checkpoint/checkpoint_support.hpp"

namespace {

using namespace replicas_test;

/// A device's failure as a program may throw it, with a retry class that is not the code's own.
failure odd_failure() {
  auto why = make_failure(errc::device_memory, "9 GiB are wanted");
  why.retry = retry_class::after_recovery;
  return why;
}

const task_id worker_1{.job = job_kind::worker, .index = 1};

/// What all workers of two with two replicas each were told when `body` failed in a run, and that
/// the strategy is usable afterwards.
std::vector<failure> told_in_a_run(const std::function<void(replica_context&)>& body) {
  std::vector<failure> out(2);
  on_workers(
    2,
    [&](std::uint32_t worker, runtime& rt) {
      auto s = strategy_over(rt, 2);
      CHECK(ids(s).item<std::int64_t>() == 6);
      out[worker] = failure_of([&] { s.run([&](replica_context& ctx) { body(ctx); }); });
      for (int i = 0; i < 20; ++i) // whoever has heard what, the groups come together again
        try {
          s.barrier();
          break;
        } catch (const error&) {
        }
      CHECK(ids(s).item<std::int64_t>() == 6);
    },
    2);
  return out;
}

} // namespace

TEST_CASE("a replica that strays is a mismatch on every worker, not revoked on the others") {
  const auto told = told_in_a_run([](replica_context& ctx) {
    if (ctx.replica_id_in_sync_group() == 3)
      (void)ctx.all_gather(vec<float>({1, 2}));
    else
      (void)ctx.all_reduce(reduce_op::sum, vec<float>({1, 2}));
  });
  for (const auto& why : told) {
    names(why, errc::mismatch, {"all_gather axis 0 f32[-1]", "all_reduce sum f32[2]"});
    CHECK(why.retry == retry_class::no);
  }
  // Found by worker 1 among its own replicas; or first by the members, each of which says it
  // itself.
  CHECK((told[0].where.task == worker_1 || !is_known(told[0].where)));
}

TEST_CASE("a user's exception has its type and text on every worker") {
  std::vector<failure> told(2);
  on_workers(2, [&](std::uint32_t worker, runtime& rt) {
    auto s = strategy_over(rt);
    const auto run = [&] {
      s.run([&](replica_context& ctx) {
        if (worker == 1)
          throw std::domain_error{"the loss is negative"};
        (void)ctx.all_reduce(reduce_op::sum, 1.0f);
      });
    };
    if (worker == 1)
      CHECK_THROWS_WITH_AS(run(), "the loss is negative", std::domain_error); // its own
    else
      told[worker] = failure_of(run);
  });
  names(told[0], errc::user_code, {"replica 1", "std::domain_error: the loss is negative"});
  CHECK(told[0].retry == retry_class::no);
  CHECK(told[0].where.task == worker_1);
}

TEST_CASE("a step's own error keeps its code and retry class on its way to the other workers") {
  const auto told = told_in_a_run([](replica_context& ctx) {
    if (ctx.replica_id_in_sync_group() == 2)
      throw error{odd_failure()};
    (void)ctx.all_reduce(reduce_op::sum, 1.0f);
  });
  for (const auto& why : told) {
    names(why, errc::device_memory, {"9 GiB are wanted"});
    CHECK(why.retry == retry_class::after_recovery);
  }
  CHECK(told[0].where.task == worker_1);
}

TEST_CASE("another worker's invalid_argument ends the epoch, unlike one's own") {
  const auto told = told_in_a_run([](replica_context& ctx) {
    if (ctx.replica_id_in_sync_group() == 3)
      throw_failure(errc::invalid_argument, "rate is -1");
    (void)ctx.all_reduce(reduce_op::sum, 1.0f);
  });
  for (const auto& why : told)
    names(why, errc::invalid_argument, {"rate is -1"});
}

TEST_CASE("what a worker's checkpoint position fails with is thrown whole on all") {
  const checkpoint_folder at;
  on_workers(2, [&](std::uint32_t worker, runtime& rt) {
    auto s = strategy_over(rt);
    sync_checkpoint checkpoint{s, at.text()};
    checkpoint.add_position(
      "input",
      [&]() -> std::string {
        if (worker == 1)
          throw error{odd_failure()};
        return "7";
      },
      [](const std::string&) {});
    const auto why = failure_of([&] { (void)checkpoint.save(); });
    names(why, errc::device_memory, {"worker:1", "save of position 'input'", "9 GiB are wanted"});
    CHECK(why.retry == retry_class::after_recovery);
    CHECK(why.where.task == worker_1);
  });
  CHECK(at.checkpoints().empty());
}

TEST_CASE("what the chief's save or restore fails with is thrown whole on all") {
  const checkpoint_folder at;
  on_workers(2, [&](std::uint32_t, runtime& rt) {
    auto s = strategy_over(rt);
    std::int64_t step = 4;
    {
      sync_checkpoint saved{s, at.text()};
      (void)saved.add_counter("step", step).save();
    }
    sync_checkpoint other{s, at.text()};
    other.add_counter("another", step);
    const auto why = failure_of([&] { (void)other.restore(); });
    names(why, errc::mismatch, {"counter/another"});
    CHECK(why.where.task == task_id{.job = job_kind::worker, .index = 0});
  });
}

TEST_CASE("agree: what one worker can't do, none does") {
  on_workers(3, [](std::uint32_t worker, runtime& rt) {
    auto s = strategy_over(rt);
    CHECK_NOTHROW(s.agree({}));
    const auto why = failure_of([&] {
      s.agree(worker == 0 ? std::nullopt
                          : std::optional{make_failure(worker == 1 ? errc::no_space : errc::corrupt,
                                                       "of worker " + std::to_string(worker))},
              "look at the disk");
    });
    names(why, errc::no_space, {"worker:1: of worker 1"});
    CHECK(why.where.task == worker_1);
    s.barrier();
  });
}
