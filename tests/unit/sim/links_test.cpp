// Goal: the data plane over simulated links. Method: two machines whose programs use the ports
// directly, and faults between them.

#include <doctest/doctest.h>

#include <string>

#include <troupe/sim/world.hpp>

using namespace troupe;
using namespace troupe::sim;
using namespace std::chrono_literals;

namespace {

constexpr const char* address = "ps0:7000";

/// Sends all of `text`, waiting for room; the failure that ended it.
result<void> send_all(process& p, channel& c, std::string_view text) {
  auto poller = p.env().transport.make_poller();
  while (!text.empty()) {
    const_bytes part = std::as_bytes(std::span{text});
    auto n = c.try_send({&part, 1});
    if (!n)
      return n.error();
    text.remove_prefix(*n);
    if (*n == 0) {
      poller->watch(c, true);
      poller->wait(after(p.env().clock.now(), 1s));
    }
  }
  return {};
}

/// Everything until the channel ends or `deadline` passes.
std::string receive_all(process& p, channel& c, duration patience) {
  std::string out, part(1000, '\0');
  auto until = after(p.env().clock.now(), patience);
  auto poller = p.env().transport.make_poller();
  poller->watch(c, false);
  for (;;) {
    mutable_bytes to = std::as_writable_bytes(std::span{part});
    auto n = c.try_receive({&to, 1});
    if (!n || (*n == 0 && !poller->wait(until)))
      return out;
    out += part.substr(0, *n);
  }
}

/// A server that receives from one dialler, and a worker that dials it.
struct pair_world {
  explicit pair_world(std::uint64_t seed = 1) : w{seed} {}
  void run(std::function<void(process&, channel&)> dialler,
           std::function<void(process&, channel&)> listener) {
    w.node(server{0}, [listener](process& p) {
      auto l = p.env().transport.listen(address).value_or_throw();
      auto poller = p.env().transport.make_poller();
      poller->watch(*l);
      std::unique_ptr<channel> c;
      while (!(c = l->try_accept()))
        poller->wait(never);
      listener(p, *c);
    });
    w.node(worker{0}, [this, dialler](process& p) {
      p.env().threads.spend(10ms); // the server listens by then
      auto c = p.env().transport.connect(address, after(p.env().clock.now(), 3s));
      if (!c) {
        failed = c.error();
        return;
      }
      dialler(p, **c);
    });
    out = w.run();
  }
  failure failed{};
  report out{};
  world w;
};

} // namespace

TEST_CASE("links: bytes arrive whole and in order through a small window") {
  std::string sent, got;
  for (int i = 0; i < 20'000; ++i)
    sent += std::to_string(i) + ",";
  world_options options;
  options.channel_bytes = 5'000;
  options.segment_bytes = 700;
  pair_world p;
  p.run([&](process& me, channel& c) { CHECK(send_all(me, c, sent)); },
        [&](process& me, channel& c) { got = receive_all(me, c, 10s); });
  CHECK(p.out.ok());
  CHECK(got == sent);
}

TEST_CASE("links: a partition delays, and nothing is lost") {
  std::string got;
  duration at{};
  pair_world p;
  p.w.at(5ms).partition(worker{0}, server{0}, 400ms);
  p.run([&](process& me, channel& c) { CHECK(send_all(me, c, "hello")); },
        [&](process& me, channel& c) {
          got = receive_all(me, c, 5s);
          at = p.w.now();
        });
  CHECK(got == "hello");
  CHECK(at >= 405ms);
  CHECK(at < 420ms);
}

TEST_CASE("links: a stall holds bytes for as long as it likes, and the connection stays") {
  auto run = [](bool partition) {
    std::pair<std::string, report> out;
    pair_world p;
    auto m = p.w.at(20ms);
    // longer than the system of a sender tries: `world_options::give_up_after`
    if (partition)
      m.partition_one_way(worker{0}, server{0}, 180s);
    else
      m.stall(worker{0}, server{0}, 180s);
    p.run(
      [&](process& me, channel& c) {
        for (const char* part : {"one ", "two ", "three"}) {
          me.env().threads.spend(50ms);
          if (!send_all(me, c, part))
            return;
        }
        me.env().threads.spend(200s);
        (void)send_all(me, c, ".");
      },
      [&](process& me, channel& c) { out.first = receive_all(me, c, 250s); });
    out.second = std::move(p.out);
    return out;
  };
  auto stalled = run(false);
  CHECK(stalled.second.ok());
  CHECK(stalled.first == "one two three.");
  CHECK(stalled.second.actions.at(action_kind::stall) == 1);
  CHECK(run(true).first.empty()); // given up after two minutes
}

TEST_CASE("links: a stall and a partition of one link end each by itself, and healing ends both") {
  auto arrives = [](std::function<void(world&)> faults) {
    duration at{};
    pair_world p;
    faults(p.w);
    p.run(
      [](process& me, channel& c) {
        me.env().threads.spend(50ms);
        CHECK(send_all(me, c, "x"));
      },
      [&](process& me, channel& c) {
        if (!receive_all(me, c, 10s).empty())
          at = p.w.now();
      });
    return at;
  };
  auto both = [](world& w) {
    w.at(20ms).stall(worker{0}, server{0}, 300ms);
    w.at(20ms).partition(worker{0}, server{0}, 100ms);
  };
  CHECK(arrives(both) >= 320ms);
  CHECK(arrives([&](world& w) {
          both(w);
          w.at(100ms).heal(worker{0}, server{0});
        })
        < 110ms);
}

TEST_CASE("links: a one-way partition stops one way only") {
  std::string got, back;
  pair_world p;
  p.w.at(20ms).partition_one_way(server{0}, worker{0}, 300ms);
  p.run(
    [&](process& me, channel& c) {
      me.env().threads.spend(50ms);
      CHECK(send_all(me, c, "there"));
      back = receive_all(me, c, 100ms);
      CHECK(back.empty());
      back = receive_all(me, c, 5s);
    },
    [&](process& me, channel& c) {
      got = receive_all(me, c, 100ms);
      CHECK(send_all(me, c, "back"));
    });
  CHECK(got == "there");
  CHECK(back == "back");
}

TEST_CASE("links: a reset loses what is under way and both ends see it") {
  result<void> ended{};
  std::string got;
  pair_world p;
  p.w.at(30ms).delay(worker{0}, server{0}, 100ms);
  p.w.at(50ms).reset(worker{0}, server{0});
  p.run(
    [&](process& me, channel& c) {
      me.env().threads.spend(30ms);
      CHECK(send_all(me, c, "lost"));
      me.env().threads.spend(30ms);
      ended = send_all(me, c, "more");
    },
    [&](process& me, channel& c) { got = receive_all(me, c, 5s); });
  REQUIRE_FALSE(ended);
  CHECK(ended.error().code == errc::connection_lost);
  CHECK(got.empty());
  CHECK(p.out.actions.at(action_kind::reset) == 1);
}

TEST_CASE("links: nobody listens, nobody answers") {
  world w{1};
  errc refused{}, late{};
  w.node(server{0}, [](process& p) { p.env().threads.spend(10s); });
  w.node(worker{0}, [&](process& p) {
    auto& e = p.env();
    refused = e.transport.connect(address, after(e.clock.now(), 3s)).error().code;
    e.threads.spend(1s);
    auto begin = w.now();
    late = e.transport.connect(address, after(e.clock.now(), 700ms)).error().code;
    CHECK(w.now() - begin >= 700ms);
    CHECK(w.now() - begin < 701ms);
  });
  w.at(500ms).partition(server{0}, worker{0});
  CHECK(w.run().ok());
  CHECK(refused == errc::connect_failed);
  CHECK(late == errc::deadline);
}

TEST_CASE("links: the peer of a crash sees the end, of a silent one nothing until it is back") {
  for (bool silent : {false, true}) {
    duration ended{};
    pair_world p;
    p.w.at(100ms).crash(server{0}, silent ? crash_silent : crash_plain);
    p.w.at(800ms).restart(server{0});
    p.run(
      [&](process& me, channel& c) {
        while (send_all(me, c, "x"))
          me.env().threads.spend(10ms);
        ended = p.w.now();
        p.w.fail("stop", "seen enough");
      },
      [&](process& me, channel& c) { receive_all(me, c, 5s); });
    CHECK((silent ? ended > 800ms && ended < 830ms : ended > 100ms && ended < 130ms));
  }
}

TEST_CASE("links: a paused machine gets everything once it goes on") {
  std::string got;
  duration at{};
  pair_world p;
  p.w.at(20ms).pause(server{0}, 200ms);
  p.run(
    [&](process& me, channel& c) {
      me.env().threads.spend(50ms);
      CHECK(send_all(me, c, "one"));
      me.env().threads.spend(50ms);
      CHECK(send_all(me, c, "two"));
    },
    [&](process& me, channel& c) {
      got = receive_all(me, c, 5s);
      at = p.w.now();
    });
  CHECK(got == "onetwo");
  CHECK(at >= 220ms);
}

TEST_CASE("links: what is not taken for minutes ends the connection") {
  result<void> ended{};
  pair_world p;
  p.w.at(20ms).partition(server{0}, worker{0});
  p.run(
    [&](process& me, channel& c) {
      me.env().threads.spend(50ms);
      CHECK(send_all(me, c, "x"));
      me.env().threads.spend(3min);
      ended = send_all(me, c, "y");
    },
    [&](process& me, channel& c) { receive_all(me, c, 5s); });
  CHECK_FALSE(ended);
}
