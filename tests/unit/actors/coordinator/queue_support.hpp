#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <troupe/actors/coordinator/closure_queue.hpp>

#include "../../../support/processes.hpp"

/// What the tests of the closure queue stand on: ports with a clock that only the test moves and
/// waits whose sleepers can be counted, and short spellings.
namespace troupe::test {

/// Ports that a closure queue must never reach.
struct no_ports final : random_port, storage_port, thread_port, data_transport {
  std::uint64_t draw(std::string_view) override { std::abort(); }
  result<std::unique_ptr<file_writer>> create(const std::string&) override { std::abort(); }
  result<std::unique_ptr<file_reader>> open(const std::string&) override { std::abort(); }
  result<void> rename(const std::string&, const std::string&) override { std::abort(); }
  result<void> remove(const std::string&) override { std::abort(); }
  result<void> make_directories(const std::string&) override { std::abort(); }
  result<void> sync_directory(const std::string&) override { std::abort(); }
  result<std::vector<std::string>> list(const std::string&) override { std::abort(); }
  bool exists(const std::string&) override { std::abort(); }
  result<file_kind> kind(const std::string&) override { std::abort(); }
  result<std::unique_ptr<file_lock>> lock(const std::string&) override { std::abort(); }
  std::unique_ptr<thread_handle> start(std::string, std::function<void()>) override {
    std::abort();
  }
  void leave_now(int) override { std::abort(); }
  void yield() override { std::abort(); }
  result<std::unique_ptr<channel_listener>> listen(const std::string&) override { std::abort(); }
  result<std::unique_ptr<channel>> connect(const std::string&, time_point) override {
    std::abort();
  }
  std::unique_ptr<channel_poller> make_poller() override { std::abort(); }
};

/// A clock that stands still until `advance`, and waits on it that end by a notification or by
/// `advance` only. A notified thread counts as awake at once, so `until_asleep` shows that it
/// looked again and chose to go on waiting.
/// @pre notifications come with the waiters' mutex held.
class still_world final : clock_port, wait_port {
public:
  environment env() { return {*this, none_, none_, none_, *this, none_}; }
  time_point now() const override { return time_point{duration{now_ns_.load()}}; }
  std::int64_t unix_ms() const override { return 0; }
  void advance(duration d) {
    now_ns_ += d.count();
    std::vector<point*> all;
    {
      std::lock_guard lock{mutex_};
      all = points_;
    }
    for (point* p : all)
      if (std::mutex* m = p->user.load()) {
        std::lock_guard lock{*m}; // no sleeper is between its look at the clock and its sleep
        p->notify_all();
      }
  }
  /// Until `n` threads are inside a wait at once. When that never comes the test has failed, with
  /// threads that nobody can end.
  void until_asleep(int n) {
    std::unique_lock lock{mutex_};
    if (changed_.wait_for(lock, std::chrono::seconds{20}, [&] { return asleep_ == n; }))
      return;
    std::fprintf(stderr, "%d threads should wait, %d do\n", n, asleep_);
    std::abort();
  }
  std::unique_ptr<wait_point> make_point() override { return std::make_unique<point>(*this); }

private:
  struct point final : wait_point {
    explicit point(still_world& w) : world{w} {
      std::lock_guard lock{world.mutex_};
      world.points_.push_back(this);
    }
    ~point() override {
      std::lock_guard lock{world.mutex_};
      std::erase(world.points_, this);
    }
    bool wait_until(std::unique_lock<std::mutex>& lock, time_point deadline) override {
      user = lock.mutex();
      if (world.now() >= deadline)
        return false;
      const std::uint64_t mine = rounds;
      {
        std::lock_guard counting{world.mutex_};
        ++sleepers;
        ++world.asleep_;
        world.changed_.notify_all();
      }
      condition.wait(lock, [&] { return rounds != mine; });
      return world.now() < deadline;
    }
    void notify_one() override { notify_all(); }
    void notify_all() override {
      ++rounds;
      condition.notify_all();
      std::lock_guard counting{world.mutex_};
      world.asleep_ -= std::exchange(sleepers, 0);
      world.changed_.notify_all();
    }
    still_world& world;
    std::condition_variable condition{};
    std::atomic<std::mutex*> user{nullptr};
    std::uint64_t rounds = 0; // by the user's mutex
    int sleepers = 0;         // by the world's
  };
  no_ports none_{};
  std::atomic<std::int64_t> now_ns_{1'000'000'000};
  std::mutex mutex_{};
  std::condition_variable changed_{};
  int asleep_ = 0;
  std::vector<point*> points_{};
};

inline std::string name_of_function(function_index f) {
  return "step_" + std::to_string(value_of(f));
}

/// A queue with its world. Hooks count.
struct queue_world {
  explicit queue_world(closure_queue_options options = {}) {
    closure_queue_hooks hooks;
    hooks.on_work = [this] { ++works; };
    hooks.on_cancel = [this](std::uint64_t generation) {
      ++cancels;
      cancelled_generation = generation;
      if (when_cancelled)
        when_cancelled();
    };
    hooks.name_of = name_of_function;
    queue = std::make_unique<closure_queue>(world.env(), board, term_no{3}, options, hooks);
    queue->set_live_workers(1);
  }
  std::shared_ptr<remote_state> put(closure_options options = {},
                                    std::vector<std::shared_ptr<remote_state>> inputs = {}) {
    closure c;
    c.function = function_index{7};
    c.options = options;
    c.inputs = std::move(inputs);
    return std::move(queue->put(std::move(c), never)).value_or_throw();
  }
  closure_ptr take_one(std::uint32_t worker = 0) {
    auto got = queue->take(worker, 1, true);
    return got.empty() ? nullptr : got[0];
  }
  std::vector<std::uint64_t> take_seqs(std::uint32_t worker, std::size_t n, bool idle = true) {
    std::vector<std::uint64_t> seqs;
    for (const auto& c : queue->take(worker, n, idle))
      seqs.push_back(c->id.seq);
    return seqs;
  }
  void fail(const closure_ptr& c, std::string text = "boom") {
    queue->mark_failed(c, make_failure(errc::user_code, std::move(text)));
  }
  void finish(const closure_ptr& c) { queue->mark_finished(c, {}); }

  still_world world{};
  completion_board board{world.env()};
  std::atomic<int> works{0};
  std::atomic<int> cancels{0};
  std::atomic<std::uint64_t> cancelled_generation{0};
  std::function<void()> when_cancelled{};
  std::unique_ptr<closure_queue> queue{};
};

inline closure make_closure(std::uint32_t function = 7) {
  closure c;
  c.function = function_index{function};
  return c;
}

using value_ptr = std::shared_ptr<remote_state>;

/// The call of a program's thread; it waits while the queue is full.
inline result<value_ptr> put_now(queue_world& w) { return w.queue->put(make_closure(), never); }

using seqs = std::vector<std::uint64_t>;

/// Whether `body` ends its process through an assertion. Runs it in a child. @pre no other thread
/// runs.
inline bool asserts(const std::function<void()>& body) {
  std::fflush(nullptr);
  testing::child_process child{[&body] {
    std::signal(SIGABRT, SIG_DFL);
    if (std::freopen("/dev/null", "w", stderr) == nullptr)
      return 2;
    body();
    return 0;
  }};
  child.wait();
  return child.code() == -SIGABRT;
}

/// A user thread in one call, whose outcome the test asks for later.
template <class T>
class caller {
public:
  explicit caller(std::function<result<T>()> call)
    : thread_{[this, call = std::move(call)] {
        outcome_.emplace(call());
        returned_ = true;
      }} {}
  ~caller() {
    if (thread_.joinable())
      thread_.join();
  }
  bool returned() const { return returned_; }
  result<T>& outcome() {
    if (thread_.joinable())
      thread_.join();
    return *outcome_;
  }

private:
  std::optional<result<T>> outcome_{};
  std::atomic<bool> returned_{false};
  std::thread thread_;
};

} // namespace troupe::test
