// Goal: nothing is lost, forgotten or raced for. Method: threads, of which each user waits only
// when the queue says so and the coordinator looks only after a wake-up or a credit.
#include <doctest/doctest.h>

#include <random>
#include <semaphore>

#include "queue_support.hpp"

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr std::uint32_t worker_count = 3;

/// A coordinator that acts only on wake-ups and on credits that its own workers free, so that a
/// wake-up that the queue forgets leaves it asleep. Steps fail, workers die and closures are
/// recalled by the dice.
class lazy_coordinator {
public:
  lazy_coordinator() {
    closure_queue_hooks hooks;
    hooks.on_work = [this] { wake_.release(); };
    hooks.on_cancel = [this](std::uint64_t) { wake_.release(); };
    hooks.name_of = name_of_function;
    queue = std::make_unique<closure_queue>(
      world_.env(), board_, term_no{1},
      closure_queue_options{.queue_len_max = 16, .max_failed_attempts = 0}, hooks);
    queue->set_live_workers(worker_count);
    thread_ = std::thread{[this] { loop(); }};
  }
  ~lazy_coordinator() {
    ending_ = true;
    wake_.release();
    thread_.join();
    queue.reset();
  }
  std::unique_ptr<closure_queue> queue{};
  completion_board& board() { return board_; }

private:
  void loop() {
    while (!ending_) {
      wake_.acquire();
      for (bool more = true; more;) {
        more = false;
        for (std::uint32_t worker = 0; worker < worker_count; ++worker) {
          for (auto& c : queue->take(worker, 4 - flying_[worker].size(), flying_[worker].empty()))
            flying_[worker].push_back(std::move(c));
          while (!flying_[worker].empty()) {
            more = true;
            end(worker);
          }
        }
      }
    }
  }
  void end(std::uint32_t worker) {
    closure_ptr c = std::move(flying_[worker].back());
    flying_[worker].pop_back();
    switch (dice_() % 40) {
      case 0: queue->mark_failed(c, make_failure(errc::user_code, "boom")); break;
      case 1: queue->put_back(c, put_back_reason::recalled); break;
      case 2:
        queue->put_back(c, put_back_reason::worker_lost_running, task_id{job_kind::worker, worker});
        break;
      default: queue->mark_finished(c, {.bytes = "done"});
    }
  }
  still_world world_{};
  completion_board board_{world_.env()};
  std::counting_semaphore<> wake_{0};
  std::atomic<bool> ending_{false};
  std::mt19937_64 dice_{7};
  std::vector<closure_ptr> flying_[worker_count]{};
  std::thread thread_{};
};

} // namespace

TEST_CASE("closure queue: many users and a coordinator that only follows wake-ups lose nothing") {
  lazy_coordinator coordinator;
  closure_queue& queue = *coordinator.queue;
  std::atomic<std::uint64_t> raised{0};
  std::atomic<std::uint64_t> accepted{0};
  auto user = [&](std::uint64_t seed) {
    std::mt19937_64 dice{seed};
    std::vector<std::shared_ptr<remote_state>> values;
    for (int i = 0; i < 3000; ++i) {
      closure c = make_closure();
      c.options.priority = static_cast<int>(dice() % 7) - 3;
      if (dice() % 4 == 0)
        c.options.worker = static_cast<std::uint32_t>(dice() % worker_count);
      if (!values.empty() && dice() % 8 == 0)
        c.inputs.push_back(values.back());
      auto got = queue.put(std::move(c), never);
      raised += !got;
      accepted += static_cast<bool>(got);
      if (got)
        values.push_back(*got);
      if (dice() % 50 == 0)
        raised += !queue.wait(never);
      if (dice() % 50 == 0)
        raised += !queue.done();
    }
    for (const auto& value : values)
      coordinator.board().wait(*value, never);
  };
  std::thread a{user, 1};
  std::thread b{user, 2};
  std::thread c{user, 3};
  a.join();
  b.join();
  c.join();
  while (!queue.wait(never)) // at most one is left
    ++raised;
  const auto counts = queue.counts();
  CHECK(counts.scheduled == accepted);
  CHECK(counts.scheduled == counts.finished + counts.failed + counts.cancelled);
  CHECK(raised > 0);
  CHECK(raised <= counts.failed);
  CHECK(queue.error_count() == counts.failed);
  CHECK(queue.levels().queued == 0);
  CHECK(queue.unsettled().empty());
}
