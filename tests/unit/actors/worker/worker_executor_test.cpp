#include <troupe/actors/worker/worker_executor.hpp>

#include <atomic>
#include <condition_variable>
#include <iterator>
#include <memory>
#include <mutex>
#include <stdexcept>

#include <doctest/doctest.h>

#include <troupe/core/production_ports.hpp>
#include <troupe/messages/membership.hpp>
#include <troupe/transport/memory_transport.hpp>

// The threads of a worker without its actor: what they report, in which order, and what ends them.
namespace {

using namespace troupe;
using namespace std::chrono_literals;

constexpr auto patience = 20s;

/// Where steps stand until the test lets them go.
struct door {
  std::mutex mutex{};
  std::condition_variable changed{};
  bool open = false;
  int inside = 0;
  void close() {
    std::lock_guard lock{mutex};
    open = false;
    inside = 0;
  }
  void let_go() {
    std::lock_guard lock{mutex};
    open = true;
    changed.notify_all();
  }
  void stand() {
    std::unique_lock lock{mutex};
    ++inside;
    changed.notify_all();
    changed.wait_for(lock, patience, [this] { return open; });
  }
  bool seen(int n) {
    std::unique_lock lock{mutex};
    return changed.wait_for(lock, patience, [&] { return inside >= n; });
  }
};
door the_door;

std::mutex ran_mutex;
std::vector<std::uint64_t> ran; ///< seqs, in the order of their starts

payload note(step_host& host) {
  std::lock_guard lock{ran_mutex};
  ran.push_back(host.closure().seq);
  plain_writer out;
  out(host.closure().seq);
  return std::move(out.out);
}

function_index add(std::string name, std::function<payload(step_host&, const payload&)> invoke,
                   std::function<resource(step_host&, const payload&)> make = {}) {
  function_table::global().add(
    {.name = name, .signature = "test", .invoke = std::move(invoke), .make = std::move(make)},
    nullptr);
  return {};
}
const bool added = [] {
  add("executor_test.note", [](step_host& host, const payload&) { return note(host); });
  add("executor_test.stand", [](step_host& host, const payload&) {
    note(host);
    the_door.stand();
    return payload{};
  });
  add("executor_test.until_cancelled", [](step_host& host, const payload&) {
    note(host);
    the_door.stand();
    const auto until = std::chrono::steady_clock::now() + patience;
    while (!host.cancelled() && std::chrono::steady_clock::now() < until) {
    }
    return payload{};
  });
  add("executor_test.throw",
      [](step_host&, const payload&) -> payload { throw std::runtime_error{"thrown"}; });
  add("executor_test.give_much",
      [](step_host&, const payload&) { return payload{.bytes = std::string(100'000, 'x')}; });
  add("executor_test.read", [](step_host& host, const payload&) {
    const variable_id one{1};
    host.read({&one, 1});
    return payload{};
  });
  add("executor_test.throw_unavailable", [](step_host&, const payload&) -> payload {
    throw_failure(errc::unavailable, "the user's own service");
  });
  add("executor_test.use", [](step_host& host, const payload&) {
    plain_writer out;
    out(*static_cast<int*>(host.resource_of(static_cast<resource_id>(4)).object.get()));
    return std::move(out.out);
  });
  add("executor_test.make", {}, [](step_host&, const payload&) {
    return resource{std::make_shared<int>(44), &typeid(int)};
  });
  add("executor_test.make_for_ever", {}, [](step_host&, const payload&) {
    the_door.stand();
    return resource{std::make_shared<int>(45), &typeid(int)};
  });
  add("executor_test.create", [](step_host& host, const payload&) {
    host.get_or_create({.name = "wanted"});
    return payload{};
  });
  add("executor_test.cannot_make", {},
      [](step_host&, const payload&) -> resource { throw std::runtime_error{"not today"}; });
  return true;
}();

/// The machine; never given back, because a thread that was given up may come to its end late.
const environment& machine() {
  static auto* ports = make_production_ports().release();
  static auto* transport = make_memory_transport(ports->waits()).release();
  static auto* env = new environment{ports->clock(),   ports->random(), ports->storage(),
                                     ports->threads(), ports->waits(),  *transport};
  return *env;
}

class executor_under_test {
public:
  explicit executor_under_test(worker_executor_options options = {}) {
    ran.clear();
    the_door.close();
    executor = std::make_shared<worker_executor>(env_, options, [news = news_] {
      std::lock_guard lock{news->mutex};
      ++news->count;
      news->changed.notify_all();
    });
    live(1);
  }
  ~executor_under_test() {
    the_door.let_go();
    executor->join(after(env_.clock.now(), patience));
  }
  void live(std::uint32_t counter, worker_routes routes = {}) {
    executor->begin_session(
      {.task = {.job = job_kind::worker, .index = 0}, .inc = {.counter = counter, .nonce = 5}},
      term_no{1}, std::move(routes));
  }
  closure_order order(std::string_view function, std::uint64_t seq, std::uint64_t deadline_ms = 0) {
    closure_order out{.id = {term_no{1}, seq},
                      .attempt = attempt_no{1},
                      .function = function_table::global().index_of(std::string{"executor_test."}
                                                                    + std::string{function}),
                      .wants_result = true,
                      .deadline_ms = deadline_ms};
    out.handed.value = std::make_shared<const payload>();
    return out;
  }
  void push(std::vector<closure_order> orders) { executor->push(std::move(orders)); }
  /// What waits to begin, once something does.
  std::vector<attempt_begun> begins() {
    const auto until = std::chrono::steady_clock::now() + patience;
    std::vector<attempt_begun> out;
    while (out.empty() && std::chrono::steady_clock::now() < until) {
      auto news = executor->drain();
      std::move(news.ended.begin(), news.ended.end(), std::back_inserter(all_));
      out = std::move(news.begun);
    }
    return out;
  }
  /// What has ended once `n` have, in the order reported.
  std::vector<attempt_ended> ended(std::size_t n) {
    const auto until = std::chrono::steady_clock::now() + patience;
    std::unique_lock lock{news_->mutex};
    for (;;) {
      const auto before = news_->count;
      lock.unlock();
      auto out = executor->drain();
      std::move(out.ended.begin(), out.ended.end(), std::back_inserter(all_));
      std::move(out.resources.begin(), out.resources.end(), std::back_inserter(made));
      lock.lock();
      if (all_.size() >= n
          || !news_->changed.wait_until(lock, until, [&] { return news_->count != before; }))
        return std::exchange(all_, {});
    }
  }
  bool given_up() {
    const auto until = std::chrono::steady_clock::now() + patience;
    while (std::chrono::steady_clock::now() < until)
      if (executor->give_up_hung())
        return true;
    return false;
  }
  std::shared_ptr<worker_executor> executor;
  std::vector<resource_made> made{};

private:
  const environment& env_ = machine();
  struct news {
    std::mutex mutex{};
    std::condition_variable changed{};
    int count = 0;
  };
  std::shared_ptr<news> news_ = std::make_shared<news>();
  std::vector<attempt_ended> all_{};
};

std::vector<std::uint64_t> seqs(const std::vector<attempt_ended>& ends) {
  std::vector<std::uint64_t> out;
  for (const auto& e : ends)
    out.push_back(e.id.seq);
  return out;
}

} // namespace

TEST_CASE("a thread runs its closures one by one in the order pushed and reports each") {
  executor_under_test t;
  t.push({t.order("note", 1), t.order("note", 2)});
  t.push({t.order("note", 3)});
  auto ends = t.ended(3);
  CHECK(seqs(ends) == std::vector<std::uint64_t>{1, 2, 3});
  CHECK(ran == std::vector<std::uint64_t>{1, 2, 3});
  for (const auto& e : ends) {
    CHECK(e.outcome == attempt_outcome::finished);
    CHECK(e.attempt == attempt_no{1});
    CHECK(e.run_ns > 0);
    CHECK(e.handed.value);
  }
}

TEST_CASE("ends of very short steps wait for those of the same function behind them, no others") {
  // The step is short unless the machine takes the thread's processor away just then: once in many
  // tries is enough, and the count of reports tells what happened.
  bool seen = false;
  for (int tries = 0; tries < 200 && !seen; ++tries) {
    ran.clear();
    the_door.close();
    std::vector<bool> held; // of the thread, then of the test once the thread stands
    std::shared_ptr<worker_executor> executor;
    executor =
      std::make_shared<worker_executor>(machine(), worker_executor_options{.report_batch = 100},
                                        [&] { held.push_back(executor->wait_for_more_ends()); });
    executor->begin_session(
      {.task = {.job = job_kind::worker, .index = 0}, .inc = {.counter = 1, .nonce = 5}},
      term_no{1}, {});
    auto order = [](std::string_view function, std::uint64_t seq) {
      closure_order out{
        .id = {term_no{1}, seq},
        .attempt = attempt_no{1},
        .function = function_table::global().index_of("executor_test." + std::string{function})};
      out.handed.value = std::make_shared<const payload>();
      return out;
    };
    executor->push({order("note", 1), order("note", 2), order("note", 3), order("stand", 4)});
    REQUIRE(the_door.seen(1));
    seen = held == std::vector<bool>{true, false}; // after the first; with the third, for all
    if (seen)
      CHECK(executor->drain().ended.size() == 3);
    the_door.let_go();
    executor->join(after(machine().clock.now(), patience));
  }
  CHECK(seen);
}

TEST_CASE("PS-D6 a result that nobody wants does not leave the thread") {
  executor_under_test t;
  auto unwanted = t.order("note", 1);
  unwanted.wants_result = false;
  t.push({unwanted, t.order("note", 2)});
  auto ends = t.ended(2);
  REQUIRE(ends.size() == 2);
  CHECK(ends[0].outcome == attempt_outcome::finished);
  CHECK_FALSE(ends[0].handed.value);
  CHECK(ends[1].handed.value);
}

TEST_CASE("what a step throws is reported with type, words, and who it was") {
  executor_under_test t;
  t.push({t.order("throw", 1)});
  auto ends = t.ended(1);
  REQUIRE(ends.size() == 1);
  CHECK(ends[0].outcome == attempt_outcome::failed);
  CHECK(ends[0].why.code == errc::user_code);
  CHECK(ends[0].why.text
        == "step 'executor_test.throw', closure 1:1, attempt 1: std::runtime_error: thrown");
  CHECK(ends[0].why.where.task == task_id{.job = job_kind::worker, .index = 0});
  CHECK(ends[0].why.where.inc.counter == 1);
}

TEST_CASE(
  "PS-CLS1, PS-P2 a server that is not reached keeps its name, code and retry class on the way "
  "up") {
  executor_under_test t;
  t.live(2, {.connect = [](std::uint32_t, const origin&,
                           term_no) -> result<std::unique_ptr<server_link>> {
           return make_failure(errc::connection_lost, "reset");
         }});
  t.executor->add_variables(
    {{.id = variable_id{1}, .name = "w", .shape = {2}, .shards = {{0, 2, 3}}}});
  t.push({t.order("read", 1)});
  auto why = t.ended(1).at(0).why;
  CHECK(why.code == errc::unavailable);
  CHECK(why.where.task == task_id{.job = job_kind::ps, .index = 3});
  CHECK(why.retry == retry_class::after_recovery);
}

TEST_CASE(
  "PS-D5 a result that does not get to the coordinator is the worker's fault, not the step's") {
  executor_under_test t;
  t.live(2, {.get_blob = [](const blob_key&,
                            std::uint64_t) { return result<std::string>{std::string{}}; },
             .put_blob = [](const blob_key&, std::string) -> result<void> {
               return make_failure(errc::connection_lost, "reset");
             }});
  t.push({t.order("give_much", 1)});
  auto why = t.ended(1).at(0).why;
  CHECK(why.code == errc::connection_lost);
  CHECK(why.where.task == task_id{.job = job_kind::worker, .index = 0});
  CHECK(why.where.inc.counter == 2);
}

TEST_CASE("PS-CLS5 what a step throws itself is its own, also when it looks like a lost peer") {
  executor_under_test t;
  t.push({t.order("throw_unavailable", 1)});
  auto why = t.ended(1).at(0).why;
  CHECK(why.code == errc::user_code);
  CHECK(why.retry == retry_class::no);
}

TEST_CASE("what is recalled has not started: the youngest first, and one answer for each asked") {
  executor_under_test t;
  t.push({t.order("stand", 1), t.order("note", 2), t.order("note", 3)});
  REQUIRE(the_door.seen(1));
  t.executor->recall(1);
  auto back = t.ended(1);
  REQUIRE(back.size() == 1);
  CHECK(back[0].id.seq == 3);
  CHECK(back[0].outcome == attempt_outcome::recalled);
  t.executor->recall(3); // one waits: two answers are empty
  back = t.ended(3);
  CHECK(seqs(back) == std::vector<std::uint64_t>{2, 0, 0});
  the_door.let_go();
  CHECK(seqs(t.ended(1)) == std::vector<std::uint64_t>{1});
  CHECK(ran == std::vector<std::uint64_t>{1});
}

TEST_CASE("PS-E9 cancel reaches the running step; what waits is cancelled without running") {
  executor_under_test t;
  t.push({t.order("until_cancelled", 1), t.order("note", 2), t.order("note", 3)});
  REQUIRE(the_door.seen(1));
  t.executor->cancel({{term_no{1}, 1}, {term_no{1}, 2}}, 10'000);
  auto ends = t.ended(1);
  CHECK(seqs(ends) == std::vector<std::uint64_t>{2});
  CHECK(ends[0].why.code == errc::cancelled);
  the_door.let_go();
  ends = t.ended(2);
  CHECK(seqs(ends) == std::vector<std::uint64_t>{1, 3});
  CHECK(ends[0].why.code == errc::cancelled); // it was told, so what it gave is no result
  CHECK(ends[1].outcome == attempt_outcome::finished);
  CHECK(ran == std::vector<std::uint64_t>{1, 3});
}

TEST_CASE(
  "PS-W14 a step past its deadline is given up, its thread replaced, and its late end not "
  "reported") {
  executor_under_test t;
  t.push({t.order("stand", 1, 1), t.order("note", 2)});
  REQUIRE(the_door.seen(1));
  CHECK(t.given_up());
  auto ends = t.ended(2); // the new thread goes on with what waited
  CHECK(seqs(ends) == std::vector<std::uint64_t>{1, 2});
  CHECK(ends[0].outcome == attempt_outcome::given_up);
  the_door.let_go();
  t.push({t.order("note", 3)});
  CHECK(seqs(t.ended(1)) == std::vector<std::uint64_t>{3});
}

TEST_CASE("a step that is deaf to a cancel is given up after the grace") {
  executor_under_test t;
  t.push({t.order("stand", 1)});
  REQUIRE(the_door.seen(1));
  CHECK_FALSE(t.executor->give_up_hung().has_value());
  t.executor->cancel({{term_no{1}, 1}}, 1);
  CHECK(t.given_up());
  CHECK(t.ended(1)[0].outcome == attempt_outcome::given_up);
}

TEST_CASE(
  "what an earlier session still runs is not reported in the next, and what it queued is gone") {
  executor_under_test t;
  t.push({t.order("stand", 1), t.order("note", 2)});
  REQUIRE(the_door.seen(1));
  t.live(2);
  t.push({t.order("note", 3)});
  the_door.let_go();
  CHECK(seqs(t.ended(1)) == std::vector<std::uint64_t>{3});
  CHECK(ran == std::vector<std::uint64_t>{1, 3});
  t.executor->end_session();
  t.push({t.order("note", 4)}); // without a session nothing is taken
  t.live(3);
  t.push({t.order("note", 5)});
  CHECK(seqs(t.ended(1)) == std::vector<std::uint64_t>{5});
}

TEST_CASE("PS-W12 resources are built in the order ordered, before any closure that waits") {
  executor_under_test t;
  t.push({t.order("stand", 1), t.order("use", 2)});
  REQUIRE(the_door.seen(1));
  auto make = function_table::global().index_of("executor_test.make");
  auto broken = function_table::global().index_of("executor_test.cannot_make");
  t.executor->make_resources(
    {{.id = static_cast<resource_id>(3), .function = broken, .arguments = {}},
     {.id = static_cast<resource_id>(4), .function = make, .arguments = {}}});
  the_door.let_go();
  auto ends = t.ended(2);
  REQUIRE(ends.size() == 2);
  CHECK(ends[1].outcome == attempt_outcome::finished);
  REQUIRE(t.made.size() == 2);
  CHECK(value_of(t.made[0].id) == 3);
  CHECK(t.made[0].why.text
        == "the function 'executor_test.cannot_make' of resource 3: std::runtime_error: not today");
  CHECK(t.made[1].why.code == errc::none);
  t.executor->drop_resources({static_cast<resource_id>(4)});
  t.push({t.order("use", 5)});
  CHECK(t.ended(1)[0].why.code == errc::input_failed);
}

TEST_CASE(
  "PS-E10 a resource whose function hangs is given up, named, and holds up neither what comes "
  "after it nor the next session") {
  executor_under_test t{{.build_ms_max = 1}};
  auto hangs = function_table::global().index_of("executor_test.make_for_ever");
  t.executor->make_resources(
    {{.id = static_cast<resource_id>(4), .function = hangs, .arguments = {}}});
  t.push({t.order("use", 1), t.order("note", 2)});
  REQUIRE(the_door.seen(1));
  CHECK(t.given_up());
  auto ends = t.ended(2);
  REQUIRE(ends.size() == 2);
  CHECK(ends[0].why.code == errc::input_failed);
  CHECK(ends[1].outcome == attempt_outcome::finished);
  REQUIRE(t.made.size() == 1);
  CHECK(t.made[0].why.code == errc::deadline);
  CHECK(
    t.made[0].why.text
    == "the function 'executor_test.make_for_ever' of resource 4 exceeded its deadline of 1 ms");
  the_door.let_go(); // what it makes now is nobody's
  t.push({t.order("use", 3)});
  CHECK(t.ended(1)[0].why.code == errc::input_failed);
}

TEST_CASE("a hung resource of an earlier session does not hold up the next one") {
  executor_under_test t{{.grace_ms = 1}};
  auto hangs = function_table::global().index_of("executor_test.make_for_ever");
  t.executor->make_resources(
    {{.id = static_cast<resource_id>(4), .function = hangs, .arguments = {}}});
  REQUIRE(the_door.seen(1));
  t.live(2);
  t.push({t.order("note", 1)});
  CHECK(t.given_up());
  CHECK(t.ended(1)[0].outcome == attempt_outcome::finished);
  CHECK(t.made.empty());
}

TEST_CASE(
  "PS-CLS4 a coordinator that cannot be asked for a variable is the way's fault, not the step's") {
  executor_under_test t;
  worker_routes routes;
  routes.get_or_create = [](const variable_spec&, const std::function<bool()>&) {
    return result<variable_spec>{make_failure(errc::unavailable, "nobody answers")};
  };
  t.live(2, std::move(routes));
  t.push({t.order("create", 1)});
  auto end = t.ended(1)[0];
  CHECK(end.outcome == attempt_outcome::failed);
  CHECK(end.why.code == errc::unavailable);
  CHECK(end.why.where.task == task_id{.job = job_kind::worker, .index = 0});
}

TEST_CASE("a step that waits for its variable hears of its cancellation") {
  executor_under_test t;
  worker_routes routes;
  routes.get_or_create = [](const variable_spec&, const std::function<bool()>& interrupted) {
    the_door.stand();
    return interrupted() ? result<variable_spec>{make_failure(errc::cancelled, "interrupted")}
                         : result<variable_spec>{variable_spec{}};
  };
  t.live(2, std::move(routes));
  t.push({t.order("create", 1)});
  REQUIRE(the_door.seen(1));
  t.executor->cancel({{term_no{1}, 1}}, 60'000);
  the_door.let_go();
  CHECK(t.ended(1)[0].why.code == errc::cancelled);
}

TEST_CASE("threads tell what they run and for how long") {
  executor_under_test t{{.threads = 2}};
  t.push({t.order("stand", 1)});
  REQUIRE(the_door.seen(1));
  auto lines = t.executor->status();
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].closure.seq + lines[1].closure.seq == 1);
  the_door.let_go();
  t.ended(1);
  auto all_idle = [&] {
    for (const auto& line : t.executor->status())
      if (line.closure.seq != 0)
        return false;
    return true;
  };
  const auto until = std::chrono::steady_clock::now() + patience;
  while (!all_idle() && std::chrono::steady_clock::now() < until) {
  }
  CHECK(all_idle());
}

TEST_CASE(
  "stop ends the threads; a step that hangs is abandoned at the deadline and nobody waits") {
  const auto& env = machine();
  {
    auto executor = std::make_shared<worker_executor>(env, worker_executor_options{}, [] {});
    executor->begin_session(
      {.task = {.job = job_kind::worker, .index = 0}, .inc = {.counter = 1, .nonce = 5}},
      term_no{1}, {});
    CHECK(executor->join(after(env.clock.now(), patience)));
  }
  executor_under_test t;
  t.push({t.order("stand", 1)});
  REQUIRE(the_door.seen(1));
  CHECK_FALSE(t.executor->join(after(env.clock.now(), 1ms)));
  the_door.let_go();
}

// -- what is announced before it begins

TEST_CASE("a closure that is to be announced does not begin before its announcement has gone") {
  executor_under_test t;
  auto first = t.order("note", 1);
  first.announce = true;
  t.push({first, t.order("note", 2)});
  auto begins = t.begins();
  REQUIRE(begins.size() == 1);
  CHECK(begins[0].id.seq == 1);
  CHECK(begins[0].attempt == attempt_no{1});
  CHECK(ran.empty());
  CHECK(t.executor->status().at(0).closure.seq == 0); // a heartbeat does not say that it runs
  t.executor->let_begin({{.id = {term_no{1}, 9}, .attempt = attempt_no{1}}}); // of another
  CHECK(ran.empty());
  t.executor->let_begin(begins);
  CHECK(seqs(t.ended(2)) == std::vector<std::uint64_t>{1, 2}); // nothing overtook it
}

TEST_CASE("a closure is not announced while something before it runs or is built") {
  executor_under_test t;
  auto second = t.order("note", 2);
  second.announce = true;
  t.push({t.order("stand", 1), second});
  REQUIRE(the_door.seen(1));
  CHECK(t.executor->drain().begun.empty());
  the_door.let_go();
  CHECK(t.begins().size() == 1);
  t.executor->let_begin({{.id = {term_no{1}, 2}, .attempt = attempt_no{1}}});
  CHECK(t.ended(2).size() == 2);
  // and the resources that were ordered meanwhile come first
  the_door.close();
  auto third = t.order("note", 3);
  third.announce = true;
  t.executor->make_resources(
    {{.id = static_cast<resource_id>(5),
      .function = function_table::global().index_of("executor_test.make_for_ever")}});
  t.push({third});
  REQUIRE(the_door.seen(1));
  CHECK(t.executor->drain().begun.empty());
  the_door.let_go();
  CHECK(t.begins().size() == 1);
  t.executor->let_begin({{.id = {term_no{1}, 3}, .attempt = attempt_no{1}}});
  CHECK(seqs(t.ended(1)) == std::vector<std::uint64_t>{3});
}

TEST_CASE("what is cancelled, or whose session ends, while it waits to begin never runs") {
  executor_under_test t;
  auto first = t.order("note", 1);
  first.announce = true;
  t.push({first});
  REQUIRE(t.begins().size() == 1);
  t.executor->cancel({first.id}, 10'000);
  auto ends = t.ended(1);
  REQUIRE(ends.size() == 1);
  CHECK(ends[0].why.code == errc::cancelled);
  CHECK(ends[0].acknowledged);
  auto second = t.order("note", 2);
  second.announce = true;
  t.push({second});
  REQUIRE(t.begins().size() == 1);
  t.live(2);
  t.executor->let_begin({{.id = second.id, .attempt = attempt_no{1}}});
  t.push({t.order("note", 3)});
  CHECK(seqs(t.ended(1)) == std::vector<std::uint64_t>{3});
  CHECK(ran == std::vector<std::uint64_t>{3});
}

TEST_CASE("a hung step is named with its function, attempt and deadline") {
  executor_under_test t;
  t.push({t.order("stand", 7, 1)});
  REQUIRE(the_door.seen(1));
  std::optional<failure> why;
  const auto until = std::chrono::steady_clock::now() + patience;
  while (!why && std::chrono::steady_clock::now() < until)
    why = t.executor->give_up_hung();
  REQUIRE(why);
  CHECK(why->text
        == "step 'executor_test.stand', closure 1:7, attempt 1 exceeded its deadline of 1 ms");
  CHECK(t.ended(1).at(0).why.text == why->text);
}
