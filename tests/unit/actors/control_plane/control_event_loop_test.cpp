// Links between two processes' event loops over a transport in memory: who comes up, in which order
// things arrive, and how links end.
#include <troupe/actors/control_plane/control_event_loop.hpp>

#include <condition_variable>

#include <doctest/doctest.h>

#include <troupe/actors/data_plane/parameter_protocol.hpp>

#include "../data_plane/parameter_fixture.hpp"

using namespace troupe;
using parameter_test::world;

namespace {

constexpr auto patience = std::chrono::seconds{20};

/// Writes everything down; threads wait for lines.
class diary final : public link_events {
public:
  std::function<result<void>(std::uint64_t request)> judge = [](std::uint64_t) {
    return result<void>{};
  };

  void on_up(const link_owner& owner, const std::shared_ptr<control_link>& link) override {
    {
      std::lock_guard lock{mutex_};
      links_[owner] = link;
    }
    add("up " + name(owner));
  }
  result<void> on_message(const link_owner& owner, link_kind kind, std::uint64_t request,
                          std::string_view bytes) override {
    add("got " + std::to_string(static_cast<unsigned>(kind)) + " " + std::to_string(request) + " "
        + std::string{bytes} + " from " + name(owner));
    return judge(request);
  }
  void on_down(const link_owner& owner, const failure& why, bool clean) override {
    std::lock_guard lock{mutex_};
    why_ = why;
    lines_.push_back((clean ? "clean end of " : "loss of ") + name(owner));
    changed_.notify_all();
  }

  bool sees(const std::string& line, std::size_t times = 1) {
    std::unique_lock lock{mutex_};
    return changed_.wait_for(lock, patience, [&] {
      return static_cast<std::size_t>(std::count(lines_.begin(), lines_.end(), line)) >= times;
    });
  }
  bool send(const link_owner& owner, std::uint64_t request, const std::string& text) {
    std::shared_ptr<control_link> link;
    {
      std::lock_guard lock{mutex_};
      link = links_.at(owner);
    }
    return link->send(link_kind::run_closures, request, text);
  }
  std::vector<std::string> lines() {
    std::lock_guard lock{mutex_};
    return lines_;
  }
  failure why() {
    std::lock_guard lock{mutex_};
    return why_;
  }
  static std::string name(const link_owner& owner) {
    return to_string(owner.task) + "." + std::to_string(owner.inc.counter);
  }

private:
  void add(std::string line) {
    std::lock_guard lock{mutex_};
    lines_.push_back(std::move(line));
    changed_.notify_all();
  }
  std::mutex mutex_{};
  std::condition_variable changed_{};
  std::vector<std::string> lines_{};
  std::map<link_owner, std::shared_ptr<control_link>> links_{};
  failure why_{};
};

/// An event loop with its thread.
class process {
public:
  process(const environment& env, control_event_loop_options options)
    : takes_{!options.address.empty()}, loop{env, std::move(options), saw} {
    if (takes_)
      address = loop.open().value_or_throw();
    thread_ = env.threads.start("control", [this] { loop.run(); });
  }
  ~process() { stop(); }
  void stop() {
    loop.stop();
    if (thread_)
      thread_->join();
    thread_ = nullptr;
  }

private:
  bool takes_;

public:
  diary saw{};
  control_event_loop loop;
  std::string address{};

private:
  std::unique_ptr<::troupe::thread_handle> thread_{};
};

link_owner worker(std::uint32_t index, std::uint32_t counter = 1) {
  return {{.job = job_kind::worker, .index = index},
          {.counter = counter, .nonce = 100 * index + counter}};
}

control_event_loop_options at_home() { return {.address = "chief:0", .cluster = "test"}; }
control_event_loop_options abroad() { return {.cluster = "test"}; }

/// A coordinator's event loop and a worker's.
struct pair {
  explicit pair(memory_transport_options transport = {},
                control_event_loop_options here = at_home(),
                control_event_loop_options there = abroad())
    : w{transport}, chief{w.env(), std::move(here)}, other{w.env(), std::move(there)} {}
  bool meet(const link_owner& who = worker(1)) {
    other.loop.dial(who, term_no{1}, chief.address);
    return other.saw.sees("up " + diary::name(who)) && chief.saw.sees("up " + diary::name(who));
  }
  world w;
  process chief, other;
};

} // namespace

TEST_CASE("control event loop: what is sent on a link arrives once and in order, both ways") {
  for (std::uint64_t seed : {0, 5}) {
    pair p{{.chunk_seed = seed, .chunk_bytes_max = 40}};
    REQUIRE(p.meet());
    for (std::uint64_t i = 1; i <= 100; ++i) {
      REQUIRE(p.chief.saw.send(worker(1), i, "down"));
      REQUIRE(p.other.saw.send(worker(1), i, "up"));
    }
    CHECK(p.other.saw.sees("got 6 100 down from worker:1.1"));
    CHECK(p.chief.saw.sees("got 6 100 up from worker:1.1"));
    for (auto* side : {&p.chief.saw, &p.other.saw}) {
      auto lines = side->lines();
      REQUIRE(lines.size() == 101);
      CHECK(lines[0] == "up worker:1.1");
      for (std::size_t i = 1; i <= 100; ++i)
        CHECK(lines[i].find("got 6 " + std::to_string(i) + " ") == 0);
    }
  }
}

TEST_CASE(
  "control event loop: a link that is ended in good order is no loss, and all sent before comes") {
  pair p;
  REQUIRE(p.meet());
  for (std::uint64_t i = 1; i <= 50; ++i)
    REQUIRE(p.other.saw.send(worker(1), i, "last words"));
  p.other.loop.end(worker(1), {});
  CHECK(p.chief.saw.sees("clean end of worker:1.1"));
  CHECK(p.other.saw.sees("clean end of worker:1.1"));
  auto lines = p.chief.saw.lines();
  REQUIRE(lines.size() == 52);
  CHECK(lines[50].find("got 6 50") == 0);
  CHECK_FALSE(p.chief.saw.send(worker(1), 1, "too late"));
  CHECK_FALSE(p.other.saw.send(worker(1), 51, "too late"));
}

TEST_CASE("control event loop: one that stops says goodbye on all its links") {
  pair p;
  process second{p.w.env(), abroad()};
  REQUIRE(p.meet());
  second.loop.dial(worker(2), term_no{1}, p.chief.address);
  REQUIRE(p.chief.saw.sees("up worker:2.1"));
  REQUIRE(second.saw.sees("up worker:2.1"));
  p.chief.stop();
  CHECK(p.other.saw.sees("clean end of worker:1.1"));
  CHECK(second.saw.sees("clean end of worker:2.1"));
}

TEST_CASE("control event loop: ends that say goodbye at once don't wait for each other") {
  control_event_loop_options here = at_home(), there = abroad();
  here.ending_max = there.ending_max = std::chrono::hours{1};
  pair p{{}, here, there};
  REQUIRE(p.meet());
  p.other.loop.end(worker(1), {});
  p.chief.loop.end(worker(1), {});
  CHECK(p.chief.saw.sees("clean end of worker:1.1"));
  CHECK(p.other.saw.sees("clean end of worker:1.1"));
  p.chief.stop(); // returns: neither keeps the link
  p.other.stop();
}

TEST_CASE("control event loop: a connection that breaks is a loss on both ends") {
  pair p{{.cut_after_bytes = 2'000}};
  REQUIRE(p.meet());
  for (std::uint64_t i = 1; i <= 100; ++i)
    p.other.saw.send(worker(1), i, "text");
  CHECK(p.chief.saw.sees("loss of worker:1.1"));
  CHECK(p.other.saw.sees("loss of worker:1.1"));
  CHECK(p.chief.saw.why().code == errc::connection_lost);
}

TEST_CASE("control event loop: after a loss the next session comes back on a link of its own") {
  pair p{{.cut_after_bytes = 2'000}};
  REQUIRE(p.meet());
  for (std::uint64_t i = 1; i <= 100; ++i)
    p.other.saw.send(worker(1), i, "text");
  REQUIRE(p.chief.saw.sees("loss of worker:1.1"));
  REQUIRE(p.other.saw.sees("loss of worker:1.1"));
  REQUIRE(p.meet(worker(1, 2)));
  REQUIRE(p.other.saw.send(worker(1, 2), 7, "back"));
  CHECK(p.chief.saw.sees("got 6 7 back from worker:1.2"));
  CHECK_FALSE(p.chief.saw.send(worker(1, 1), 1, "to the dead")); // a stale handle leads nowhere
}

TEST_CASE("control event loop: a new session's link ends the one before") {
  pair p;
  REQUIRE(p.meet(worker(1, 1)));
  process again{p.w.env(), abroad()};
  again.loop.dial(worker(1, 2), term_no{1}, p.chief.address);
  CHECK(p.chief.saw.sees("up worker:1.2"));
  CHECK(p.chief.saw.sees("clean end of worker:1.1"));
  CHECK(p.other.saw.sees("clean end of worker:1.1"));
}

TEST_CASE("control event loop: whoever does not belong here is refused, and hears why") {
  auto with = [](auto change) {
    auto out = abroad();
    change(out);
    return out;
  };
  struct attempt {
    control_event_loop_options as;
    link_owner who;
    std::string text;
  };
  auto home = at_home();
  home.token = "secret";
  const std::vector<attempt> all{
    {with([](auto& o) { o.cluster = "other", o.token = "secret"; }), worker(1),
     "cluster 'other', expected 'test'"},
    {abroad(), worker(1),
     "the token is missing: all processes of a cluster need the same TROUPE_TOKEN"},
    {with([](auto& o) { o.token = "guess"; }), worker(1), "wrong token: all processes"},
    {with([](auto& o) { o.token = "secret"; }),
     {{.job = job_kind::ps, .index = 1}, {.counter = 1, .nonce = 1}},
     "only workers may open a link"},
    {with([](auto& o) { o.token = "secret"; }), worker(1, 0), "only workers may open a link"}};
  for (const auto& x : all) {
    CAPTURE(x.text);
    pair p{{}, home, x.as};
    p.other.loop.dial(x.who, term_no{1}, p.chief.address);
    CHECK(p.other.saw.sees("loss of " + diary::name(x.who)));
    CHECK(p.other.saw.why().code == errc::wrong_peer);
    CHECK(p.other.saw.why().text.find(x.text) != std::string::npos);
    CHECK(p.chief.saw.lines().empty());
  }
}

TEST_CASE("control event loop: one session has one link") {
  pair p;
  REQUIRE(p.meet());
  process twin{p.w.env(), abroad()};
  twin.loop.dial(worker(1), term_no{1}, p.chief.address);
  CHECK(twin.saw.sees("loss of worker:1.1"));
  CHECK(twin.saw.why().text.find("a link is already open") != std::string::npos);
  REQUIRE(p.other.saw.send(worker(1), 1, "still here"));
  CHECK(p.chief.saw.sees("got 6 1 still here from worker:1.1"));
}

TEST_CASE("control event loop: a dial that nobody answers is told, with the address") {
  world w;
  process alone{w.env(), abroad()};
  alone.loop.dial(worker(1), term_no{1}, "nowhere:1");
  CHECK(alone.saw.sees("loss of worker:1.1"));
  CHECK(alone.saw.why().code == errc::connect_failed);
  CHECK(alone.saw.why().text.find("nowhere:1") != std::string::npos);
}

TEST_CASE("control event loop: a message that its owner refuses ends the link as a loss") {
  pair p;
  p.chief.saw.judge = [](std::uint64_t request) {
    return request < 3 ? result<void>{} : make_failure(errc::bad_frame, "nonsense");
  };
  REQUIRE(p.meet());
  for (std::uint64_t i = 1; i <= 5; ++i)
    p.other.saw.send(worker(1), i, "x");
  CHECK(p.chief.saw.sees("loss of worker:1.1"));
  CHECK(p.chief.saw.why().text == "nonsense");
  CHECK(p.other.saw.sees("loss of worker:1.1"));
  CHECK(p.chief.saw.lines().size() == 5); // up, three messages, the loss
}

TEST_CASE(
  "control event loop: strangers who send anything but a hello are dropped without a word") {
  pair p;
  auto knock = [&](link_kind kind, const std::string& meta) {
    auto wire =
      p.w.transport->connect(p.chief.address, p.w.in(std::chrono::seconds{20})).value_or_throw();
    frame_writer out;
    outgoing_frame frame;
    frame.kind = static_cast<std::uint8_t>(kind);
    frame.meta = meta;
    out.push(std::move(frame)).value_or_throw();
    CHECK(out.pump(*wire).value_or_throw());
    frame_reader in;
    auto poller = p.w.transport->make_poller();
    const auto deadline = p.w.in(std::chrono::seconds{20});
    for (;;) {
      auto event = in.pump(*wire);
      if (!event || *event == frame_event::complete)
        return std::string{event ? "an answer" : to_string(event.error().code)};
      poller->watch(*wire, false);
      if (!poller->wait(deadline))
        return std::string{"nothing"};
    }
  };
  CHECK(knock(link_kind::worker_report, "x") == to_string(errc::connection_lost));
  CHECK(knock(link_kind::goodbye, "") == to_string(errc::connection_lost));
  CHECK(knock(link_kind::hello, "no hello") == to_string(errc::connection_lost));
  CHECK(knock(link_kind{99}, "") == to_string(errc::connection_lost));
  CHECK(p.meet()); // and nobody else is disturbed
  CHECK(p.chief.saw.lines().size() == 1);
}

TEST_CASE("control event loop: one that is ended before it was dialled is never made") {
  pair p;
  p.other.loop.dial(worker(1), term_no{1}, p.chief.address);
  p.other.loop.end(worker(1), {});
  REQUIRE(p.meet(worker(1, 2)));
  for (const auto& line : p.other.saw.lines())
    CHECK(line.find("loss") == std::string::npos);
}
