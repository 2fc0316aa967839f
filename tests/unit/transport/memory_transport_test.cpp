#include <doctest/doctest.h>

#include <array>
#include <string>
#include <thread>
#include <vector>

#include <troupe/transport/memory_transport.hpp>

#include "support.hpp"

// Goal: the in-process transport keeps the port's contract and misbehaves exactly as asked. Method:
// both ends in one thread where nobody has to wait, threads where somebody does.
namespace {

using namespace transport_test;

struct pair_of_channels {
  thread_waits waits{};
  std::unique_ptr<data_transport> transport;
  std::unique_ptr<channel_listener> listener{};
  std::unique_ptr<channel> dialed{};
  std::unique_ptr<channel> accepted{};

  explicit pair_of_channels(memory_transport_options options = {})
    : transport{make_memory_transport(waits, options)} {
    listener = std::move(transport->listen("mem:0")).value_or_throw();
    dialed = std::move(transport->connect(listener->address(), soon())).value_or_throw();
    accepted = listener->try_accept();
    REQUIRE(accepted);
  }
};

result<std::size_t> send(channel& to, const std::string& text) {
  const std::array<const_bytes, 1> parts{bytes_of(text)};
  return to.try_send(parts);
}

result<std::string> receive(channel& from, std::size_t n) {
  std::string out(n, '\0');
  const std::array<mutable_bytes, 1> parts{std::as_writable_bytes(std::span{out})};
  auto got = from.try_receive(parts);
  if (!got)
    return got.error();
  return out.substr(0, *got);
}

time_point now() { return real_clock{}.now(); }

} // namespace

TEST_CASE("memory: bytes are gathered and scattered in order, both ways") {
  pair_of_channels ends;
  CHECK(ends.listener->address() == "mem:1");
  CHECK(ends.dialed->peer() == "mem:1");
  CHECK(ends.accepted->peer() == "dialer:1");
  const std::string a = "gathered ";
  const std::string b = "in order";
  const std::array<const_bytes, 3> out{bytes_of(a), const_bytes{}, bytes_of(b)};
  CHECK(*ends.dialed->try_send(out) == 17);
  std::string x(4, '\0');
  std::string y(100, '\0');
  const std::array<mutable_bytes, 2> in{std::as_writable_bytes(std::span{x}),
                                        std::as_writable_bytes(std::span{y})};
  CHECK(*ends.accepted->try_receive(in) == 17);
  CHECK(x + y.substr(0, 13) == "gathered in order");
  CHECK(*ends.accepted->try_receive(in) == 0);
  CHECK(*send(*ends.accepted, "back") == 4);
  CHECK(*receive(*ends.dialed, 100) == "back");
}

TEST_CASE("memory: a direction holds its capacity and no more, through any wrap-around") {
  memory_transport_options options;
  options.capacity_bytes = 100;
  pair_of_channels ends{options};
  auto poller = ends.transport->make_poller();
  poller->watch(*ends.dialed, true);
  const std::string text = pattern(250, 1);
  std::string sent;
  std::string got;
  for (std::size_t n = 1; n < 120; ++n) {
    const std::size_t room = 100 - (sent.size() - got.size());
    const std::size_t taken = *send(*ends.dialed, text.substr(0, n));
    CHECK(taken == std::min(n, room));
    sent += text.substr(0, taken);
    CHECK(poller->wait(now()) == (sent.size() - got.size() < 100));
    got += *receive(*ends.accepted, 1 + n * 7 % 50);
  }
  got += *receive(*ends.accepted, 100);
  CHECK(got == sent);
}

TEST_CASE("memory: addresses are checked, chosen, taken and free again") {
  thread_waits waits;
  auto transport = make_memory_transport(waits);
  for (const std::string bad : {"", "mem", ":1", "mem:", "mem:x", "mem:1x"}) {
    CAPTURE(bad);
    auto listener = transport->listen(bad);
    REQUIRE(!listener);
    CHECK(listener.error().code == errc::invalid_argument);
    CHECK(listener.error().text.find("\"" + bad + "\"") != std::string::npos);
  }
  auto fixed = transport->listen("mem:1");
  REQUIRE(fixed);
  auto chosen = transport->listen("mem:0");
  REQUIRE(chosen);
  CHECK((*chosen)->address() == "mem:2");
  auto taken = transport->listen("mem:2");
  REQUIRE(!taken);
  CHECK(taken.error().code == errc::address_in_use);
  auto queued = transport->connect("mem:1", soon());
  REQUIRE(queued);
  fixed->reset();
  CHECK(receive(**queued, 1).error().code == errc::connection_lost);
  auto refused = transport->connect("mem:1", soon());
  REQUIRE(!refused);
  CHECK(refused.error().code == errc::connect_failed);
  CHECK(refused.error().text.find("mem:1") != std::string::npos);
  CHECK(transport->listen("mem:1"));
}

TEST_CASE(
  "memory: a full backlog makes dialers wait, until their deadline or until one is accepted") {
  memory_transport_options options;
  options.backlog_max = 1;
  thread_waits waits;
  auto transport = make_memory_transport(waits, options);
  auto listener = std::move(transport->listen("mem:5")).value_or_throw();
  auto first = transport->connect("mem:5", soon());
  REQUIRE(first);
  auto late = transport->connect("mem:5", now() + 2ms);
  REQUIRE(!late);
  CHECK(late.error().code == errc::deadline);
  std::thread other{[&] { CHECK(listener->try_accept() != nullptr); }};
  CHECK(transport->connect("mem:5", soon()));
  other.join();
}

TEST_CASE("memory: an end is seen by the other at once, after all that was sent") {
  pair_of_channels ends;
  auto poller = ends.transport->make_poller();
  poller->watch(*ends.accepted, false);
  CHECK(!poller->wait(now()));
  CHECK(*send(*ends.dialed, "last words") == 10);
  std::thread thread{[&] { ends.dialed.reset(); }};
  thread.join();
  CHECK(poller->wait(soon()));
  CHECK(*receive(*ends.accepted, 100) == "last words");
  CHECK(poller->wait(soon()));
  auto lost = receive(*ends.accepted, 100);
  REQUIRE(!lost);
  CHECK(lost.error().code == errc::connection_lost);
  CHECK(lost.error().text.find("dialer:1") != std::string::npos);
  CHECK(send(*ends.accepted, "x").error().code == errc::connection_lost);
  ends.accepted.reset();
  CHECK(!poller->wait(now())); // destroyed while watched
}

TEST_CASE("memory: a connection is cut after exactly the bytes asked") {
  for (std::uint64_t cut = 1; cut < 12; ++cut) {
    CAPTURE(cut);
    memory_transport_options options;
    options.cut_after_bytes = cut;
    pair_of_channels ends{options};
    CHECK(*send(*ends.accepted, "abc") == std::min<std::uint64_t>(cut, 3));
    std::uint64_t left = cut - std::min<std::uint64_t>(cut, 3);
    auto sent = send(*ends.dialed, "0123456789");
    CHECK(static_cast<bool>(sent) == (left > 0));
    if (sent)
      CHECK(*sent == left);
    CHECK(send(*ends.dialed, "more").error().code == errc::connection_lost);
    CHECK(*receive(*ends.dialed, 100) == std::string{"abc"}.substr(0, cut));
    if (left > 0)
      CHECK(*receive(*ends.accepted, 100) == std::string{"0123456789"}.substr(0, left));
    CHECK(receive(*ends.accepted, 100).error().code == errc::connection_lost);
    CHECK(receive(*ends.dialed, 100).error().code == errc::connection_lost);
  }
}

TEST_CASE("memory: wake ends a wait, from another thread or before it began, once") {
  thread_waits waits;
  auto transport = make_memory_transport(waits);
  auto poller = transport->make_poller();
  std::thread other{[&] { poller->wake(); }};
  CHECK(poller->wait(soon()));
  other.join();
  poller->wake();
  CHECK(poller->wait(soon()));
  CHECK(!poller->wait(now() + 2ms));
}

TEST_CASE("memory: random pieces are the same for the same seed, and frames survive any of them") {
  std::vector<std::string> patterns;
  for (const std::uint64_t seed : {1, 2, 3, 1}) {
    CAPTURE(seed);
    memory_transport_options options;
    options.chunk_seed = seed;
    options.chunk_bytes_max = 50;
    options.capacity_bytes = 300;
    pair_of_channels ends{options};
    frame_writer writer;
    for (std::uint64_t i = 0; i < 20; ++i)
      REQUIRE(writer.push(make_frame(1, i, pattern(i * 3, i), {pattern(i * 400, i)})));
    collector to;
    std::string moved;
    while (to.frames.size() < 20) {
      REQUIRE(writer.pump(*ends.dialed));
      moved += std::to_string(writer.queued_bytes()) + " ";
      REQUIRE(to.pump(*ends.accepted));
    }
    for (std::uint64_t i = 0; i < 20; ++i) {
      CHECK(to.frames[i].header.request == i);
      CHECK(to.frames[i].meta == pattern(i * 3, i));
      CHECK(to.frames[i].bulk == pattern(i * 400, i));
    }
    patterns.push_back(std::move(moved));
  }
  CHECK(patterns[0] == patterns[3]);
  CHECK(patterns[0] != patterns[1]);
}

TEST_CASE("memory: two threads exchange frames and wait for each other") {
  memory_transport_options options;
  options.capacity_bytes = 1000;
  pair_of_channels ends{options};
  constexpr std::uint64_t count = 500;
  std::thread sender{[&] {
    auto poller = ends.transport->make_poller();
    poller->watch(*ends.dialed, true);
    frame_writer writer;
    for (std::uint64_t i = 0; i < count; ++i) {
      writer.push(make_frame(1, i, "m", {pattern(100, i)})).value_or_throw();
      while (!writer.pump(*ends.dialed).value_or_throw())
        poller->wait(soon());
    }
  }};
  collector to;
  auto poller = ends.transport->make_poller();
  poller->watch(*ends.accepted, false);
  bool ok = true;
  while (ok && to.frames.size() < count)
    ok = static_cast<bool>(to.pump(*ends.accepted))
         && (to.frames.size() == count || poller->wait(soon()));
  sender.join();
  REQUIRE(ok);
  for (std::uint64_t i = 0; i < count; ++i)
    REQUIRE(to.frames[i].bulk == pattern(100, i));
}
