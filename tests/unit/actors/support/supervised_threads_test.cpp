#include <troupe/actors/support/supervised_threads.hpp>

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

// The pool without threads: its threads run when the test says so.
namespace {

using namespace troupe;
using namespace std::chrono_literals;

const time_point start_of_test = after(time_point{}, 1s);

/// What became of one thread that the pool asked for.
struct asked_thread {
  std::string name{};
  std::function<void()> body{};
  bool ended = false;
  bool joined = false;
  bool abandoned = false;
};

class listed_thread final : public thread_handle {
public:
  explicit listed_thread(asked_thread& is) : is_{is} {}
  bool ended() const override { return is_.ended; }
  void join() override { is_.joined = true; }
  void abandon() override { is_.abandoned = true; }

private:
  asked_thread& is_;
};

/// Keeps what it is asked to start.
class listed_threads final : public thread_port {
public:
  std::deque<asked_thread> all{};
  bool has_none = false;
  std::unique_ptr<thread_handle> start(std::string name, std::function<void()> body) override {
    if (has_none)
      throw std::runtime_error{"no thread"};
    all.push_back({.name = std::move(name), .body = std::move(body)});
    return std::make_unique<listed_thread>(all.back());
  }
  [[noreturn]] void leave_now(int) override { throw std::logic_error{"not here"}; }
  void yield() override {}
};

class set_clock final : public clock_port {
public:
  time_point at = start_of_test;
  time_point now() const override { return at; }
  std::int64_t unix_ms() const override { return 0; }
};

using post = supervised_threads::post;

} // namespace

TEST_CASE("hang_limit: without a deadline work hangs only once it was asked to end") {
  hang_limit limit;
  CHECK_FALSE(limit.passed(after(start_of_test, 24h)));
  CHECK(limit.at() == never);
  limit.ask_to_end(start_of_test, 10s);
  CHECK_FALSE(limit.passed(after(start_of_test, 9s)));
  CHECK(limit.passed(after(start_of_test, 10s)));
  CHECK_FALSE(limit.is_deadline());
  CHECK_FALSE(hang_limit{start_of_test, duration{}}.passed(after(start_of_test, 24h)));
}

TEST_CASE("hang_limit: the deadline or the end of the grace period, whichever is first") {
  hang_limit limit{start_of_test, 5s};
  limit.ask_to_end(start_of_test, 10s);
  CHECK(limit.at() == after(start_of_test, 5s));
  CHECK(limit.is_deadline());
  limit.ask_to_end(after(start_of_test, 1s), 2s);
  CHECK(limit.at() == after(start_of_test, 3s));
  CHECK_FALSE(limit.is_deadline());
  limit.ask_to_end(after(start_of_test, 2s), 20s); // asking again gives no more time
  CHECK(limit.at() == after(start_of_test, 3s));
}

TEST_CASE("hang_limit: excused time moves the limit") {
  const hang_limit limit{start_of_test, 5s};
  CHECK(limit.passed(after(start_of_test, 5s)));
  CHECK_FALSE(limit.passed(after(start_of_test, 5s), 1s));
  CHECK(limit.passed(after(start_of_test, 6s), 1s));
}

TEST_CASE("supervised_threads: each place has a thread with a number of its own") {
  listed_threads threads;
  supervised_threads pool{threads, 2, 4};
  CHECK(pool.running() == 0);
  std::vector<std::pair<std::uint32_t, std::uint64_t>> ran;
  const auto note = [&](const post& mine) { ran.emplace_back(mine.place, mine.number); };
  pool.start(0, "a", note);
  CHECK_FALSE(pool.has_thread(1));
  pool.start(1, "b", note);
  CHECK(pool.running() == 2);
  REQUIRE(threads.all.size() == 2);
  CHECK(threads.all[1].name == "b");
  for (auto& each : threads.all)
    each.body();
  CHECK(ran == std::vector<std::pair<std::uint32_t, std::uint64_t>>{{0, 0}, {1, 1}});
}

TEST_CASE("supervised_threads: a thread that was given up has lost its place to the next one") {
  listed_threads threads;
  supervised_threads pool{threads, 2, 1};
  std::vector<post> who;
  const auto note = [&](const post& mine) { who.push_back(mine); };
  pool.start(0, "a", note);
  threads.all[0].body();
  CHECK(pool.is_in_place(who[0]));
  pool.give_up(0);
  CHECK(threads.all[0].abandoned);
  CHECK_FALSE(pool.is_in_place(who[0]));
  CHECK_FALSE(pool.has_thread(0));
  CHECK(pool.given_up() == 1);
  REQUIRE(pool.may_replace());
  pool.start(0, "b", note);
  threads.all[1].body();
  CHECK(who[1].place == 0);
  CHECK(who[1].number == 2); // 1 is the other place's
  CHECK(pool.is_in_place(who[1]));
  CHECK_FALSE(pool.is_in_place(who[0]));
  pool.give_up(0);
  CHECK_FALSE(pool.may_replace());
}

TEST_CASE("supervised_threads: without a thread of the system the place stays free") {
  listed_threads threads;
  supervised_threads pool{threads, 1, 1};
  threads.has_none = true;
  CHECK_THROWS_AS(pool.start(0, "a", [](const post&) {}), std::runtime_error);
  CHECK_FALSE(pool.has_thread(0));
  threads.has_none = false;
  pool.start(0, "a", [](const post&) {});
  CHECK(pool.has_thread(0));
}

TEST_CASE("supervised_threads: a thread waits for work, and leaves when it was given up") {
  listed_threads threads;
  supervised_threads pool{threads, 1, 1};
  std::optional<int> work;
  int waits = 0;
  const auto take = [&] { return std::exchange(work, std::nullopt); };
  CHECK(pool.next_work({0, 0}, take, [&] {
    if (++waits == 2)
      work = 7;
  }) == 7);
  CHECK(waits == 2);
  work = 8;
  CHECK_FALSE(pool.next_work({0, 5}, take, [] {})); // another thread's number
  CHECK(work == 8);
  CHECK_FALSE(pool.next_work(
    {0, 0}, [] { return std::optional<int>{}; }, [&] { pool.give_up(0); }));
}

TEST_CASE("supervised_threads: once closed, a thread takes what is left and leaves") {
  listed_threads threads;
  supervised_threads pool{threads, 1, 1};
  std::deque<int> work{1, 2};
  const auto take = [&]() -> std::optional<int> {
    if (work.empty())
      return {};
    const auto out = work.front();
    work.pop_front();
    return out;
  };
  const auto no_wait = [] { FAIL("waits although closed"); };
  pool.close();
  CHECK(pool.next_work({0, 0}, take, no_wait) == 1);
  CHECK(pool.next_work({0, 0}, take, no_wait) == 2);
  CHECK_FALSE(pool.next_work({0, 0}, take, no_wait));
}

TEST_CASE("supervised_threads: joins those that end in time and gives up the others") {
  listed_threads threads;
  supervised_threads pool{threads, 2, 1};
  set_clock clock;
  std::mutex mutex;
  std::unique_lock lock{mutex};
  pool.start(0, "a", [](const post&) {});
  pool.start(1, "b", [](const post&) {});
  pool.close();
  int pauses = 0;
  const auto pause = [&] {
    threads.all[0].ended = ++pauses >= 3;
    clock.at = after(clock.at, 1s);
  };
  CHECK_FALSE(pool.join(lock, clock, after(start_of_test, 5s), pause));
  CHECK(threads.all[0].joined);
  CHECK_FALSE(threads.all[0].abandoned);
  CHECK(threads.all[1].abandoned);
  CHECK_FALSE(threads.all[1].joined);
  CHECK(clock.at == after(start_of_test, 5s));
  CHECK(pool.running() == 0);
}

TEST_CASE("supervised_threads: not all came back if one was given up earlier") {
  listed_threads threads;
  set_clock clock;
  std::mutex mutex;
  std::unique_lock lock{mutex};
  for (const bool gives_up : {false, true}) {
    supervised_threads pool{threads, 1, 1};
    pool.start(0, "a", [](const post&) {});
    if (gives_up) {
      pool.give_up(0);
      pool.start(0, "b", [](const post&) {});
    }
    threads.all.back().ended = true;
    pool.close();
    CHECK(pool.join(lock, clock, start_of_test, [] { FAIL("all have ended"); }) == !gives_up);
    CHECK(threads.all.back().joined);
  }
}

TEST_CASE(
  "supervised_threads: destroyed without a join, it joins what has ended and gives up the rest") {
  listed_threads threads;
  {
    supervised_threads pool{threads, 3, 0};
    pool.start(0, "a", [](const post&) {});
    pool.start(1, "b", [](const post&) {});
    threads.all[0].ended = true;
  } // the third place has no thread
  CHECK(threads.all[0].joined);
  CHECK_FALSE(threads.all[0].abandoned);
  CHECK_FALSE(threads.all[1].joined);
  CHECK(threads.all[1].abandoned);
}

TEST_CASE("supervised_threads: a thread may be given up while others wait for its end") {
  listed_threads threads;
  supervised_threads pool{threads, 1, 1};
  set_clock clock;
  std::mutex mutex;
  std::unique_lock lock{mutex};
  pool.start(0, "a", [](const post&) {});
  pool.close();
  CHECK_FALSE(pool.join(lock, clock, never, [&] { pool.give_up(0); }));
  CHECK(threads.all[0].abandoned);
}
