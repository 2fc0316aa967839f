#include <doctest/doctest.h>

#include <array>
#include <string>
#include <thread>
#include <vector>

#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tcp_support.hpp"

// Goal: real sockets keep the port's contract. Method: both ends in this process over loopback, on
// threads where an end has to wait.
namespace {

using namespace transport_test;

// A listening socket whose queue is full: the system ignores whoever dials.
class deaf_listener {
public:
  deaf_listener() : fd_{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)} {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    REQUIRE(::bind(fd_, reinterpret_cast<sockaddr*>(&at), size) == 0);
    REQUIRE(::listen(fd_, 0) == 0);
    REQUIRE(::getsockname(fd_, reinterpret_cast<sockaddr*>(&at), &size) == 0);
    port_ = ntohs(at.sin_port);
  }
  ~deaf_listener() { ::close(fd_); }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

private:
  int fd_;
  int port_ = 0;
};

} // namespace

TEST_CASE_TEMPLATE("sockets: bytes are gathered and scattered in order, both ways", Over, over_tcp,
                   over_host_memory) {
  channel_pair<Over> ends;
  CHECK(ends.dialed->peer() == ends.listener->address());
  CHECK(ends.accepted->peer().starts_with(Over::accepted_peer));
  CHECK(!ends.listener->address().ends_with(":0"));
  const std::string a = "gathered ";
  const std::string b = "in order";
  const std::array<const_bytes, 3> out{bytes_of(a), const_bytes{}, bytes_of(b)};
  CHECK(*ends.dialed->try_send(out) == a.size() + b.size());
  auto poller = ends.transport->make_poller();
  poller->watch(*ends.accepted, false);
  REQUIRE(poller->wait(soon()));
  std::string x(4, '\0');
  std::string y(100, '\0');
  const std::array<mutable_bytes, 3> in{std::as_writable_bytes(std::span{x}), mutable_bytes{},
                                        std::as_writable_bytes(std::span{y})};
  const std::size_t got = *ends.accepted->try_receive(in);
  CHECK(x + y.substr(0, got - 4) == "gathered in order");
  CHECK(*ends.accepted->try_receive(in) == 0);
  CHECK(*ends.accepted->try_receive({}) == 0);
  CHECK(*ends.accepted->try_send({}) == 0);
  CHECK(send(*ends.accepted, "back") == 4);
  CHECK(receive(*ends.transport, *ends.dialed, 4) == "back");
}

TEST_CASE_TEMPLATE("sockets: more parts than the system takes at once are taken in several calls",
                   Over, over_tcp, over_host_memory) {
  channel_pair<Over> ends;
  std::string text = pattern(500, 1);
  std::vector<const_bytes> parts;
  for (std::size_t i = 0; i < text.size(); ++i)
    parts.push_back(bytes_of(text).subspan(i, 1));
  std::size_t sent = 0;
  while (sent < parts.size())
    sent += *ends.dialed->try_send(std::span{parts}.subspan(sent));
  CHECK(receive(*ends.transport, *ends.accepted, text.size()) == text);
}

TEST_CASE_TEMPLATE("sockets: host names resolve, and IPv6 where the system has it", Over, over_tcp,
                   over_host_memory) {
  channel_pair<Over> by_name{"localhost:0"};
  CHECK(send(*by_name.dialed, "x") == 1);
  CHECK(receive(*by_name.transport, *by_name.accepted, 1) == "x");

  real_clock clock;
  auto transport = Over::make(clock);
  auto v6 = transport->listen("[::1]:0");
  if (!v6) { // a system without IPv6 says so, and names the address
    CHECK(says(v6.error(), "[::1]:0"));
    return;
  }
  CHECK((*v6)->address().starts_with("[::1]:"));
  auto dialed = transport->connect((*v6)->address(), soon());
  REQUIRE(dialed);
  CHECK((*dialed)->peer() == (*v6)->address());
}

TEST_CASE_TEMPLATE("sockets: a malformed address is refused and named", Over, over_tcp,
                   over_host_memory) {
  real_clock clock;
  auto transport = Over::make(clock);
  const std::vector<std::string> malformed{
    "",       "127.0.0.1", ":80",   "127.0.0.1:", "127.0.0.1:x",  "127.0.0.1:65536", "127.0.0.1:-1",
    "::1:80", "[::1:80",   "[]:80", "a b:80",     "127.0.0.1: 80"};
  for (const std::string& bad : malformed) {
    CAPTURE(bad);
    auto listener = transport->listen(bad);
    REQUIRE(!listener);
    CHECK(listener.error().code == errc::invalid_argument);
    CHECK(says(listener.error(), "\"" + bad + "\""));
    auto dialed = transport->connect(bad, soon());
    REQUIRE(!dialed);
    CHECK(dialed.error().code == errc::invalid_argument);
  }
}

TEST_CASE_TEMPLATE(
  "sockets: an address in use is refused and named; it is free again when the listener is gone",
  Over, over_tcp, over_host_memory) {
  real_clock clock;
  auto transport = Over::make(clock);
  auto first = transport->listen("127.0.0.1:0");
  REQUIRE(first);
  const std::string address = (*first)->address();
  auto second = transport->listen(address);
  REQUIRE(!second);
  CHECK(second.error().code == errc::address_in_use);
  CHECK(says(second.error(), address));
  // A connection of the old listener lingers on the port and must not hinder the next one.
  auto dialed = transport->connect(address, soon());
  REQUIRE(dialed);
  auto accepted = (*first)->try_accept();
  REQUIRE(accepted);
  accepted->close();
  first->reset();
  CHECK(transport->listen(address));
}

TEST_CASE_TEMPLATE("sockets: a connect to a port that nobody listens on fails and names it", Over,
                   over_tcp, over_host_memory) {
  real_clock clock;
  auto transport = Over::make(clock);
  std::string address;
  {
    auto listener = transport->listen("127.0.0.1:0");
    REQUIRE(listener);
    address = (*listener)->address();
    CHECK((*listener)->try_accept() == nullptr);
  }
  auto dialed = transport->connect(address, soon());
  REQUIRE(!dialed);
  CHECK(dialed.error().code == errc::connect_failed);
  CHECK(says(dialed.error(), address));
}

TEST_CASE_TEMPLATE("sockets: a connect that nobody answers ends at its deadline", Over, over_tcp,
                   over_host_memory) {
  real_clock clock;
  auto transport = Over::make(clock);
  const deaf_listener deaf;
  std::vector<std::unique_ptr<channel>> queued;
  for (;;) {
    REQUIRE(queued.size() < 10);
    const time_point start = clock.now();
    auto dialed = transport->connect(deaf.address(), start + 50ms);
    if (dialed) {
      queued.push_back(std::move(*dialed));
      continue;
    }
    CHECK(dialed.error().code == errc::deadline);
    CHECK(says(dialed.error(), deaf.address()));
    CHECK(clock.now() >= start + 50ms);
    break;
  }
}

TEST_CASE_TEMPLATE("sockets: a peer's close is seen at once, after all that it sent", Over,
                   over_tcp, over_host_memory) {
  channel_pair<Over> ends;
  CHECK(send(*ends.dialed, "last words") == 10);
  const std::string peer = ends.dialed->peer();
  ends.dialed->close();
  ends.dialed->close();
  const std::array<const_bytes, 0> nothing{};
  auto after_close = ends.dialed->try_send(nothing);
  REQUIRE(!after_close);
  CHECK(after_close.error().code == errc::connection_lost);
  CHECK(ends.dialed->peer() == peer);
  CHECK(receive(*ends.transport, *ends.accepted, 10) == "last words");
  const failure why = end_of(*ends.transport, *ends.accepted);
  CHECK(why.code == errc::connection_lost);
  CHECK(says(why, ends.accepted->peer()));
}

TEST_CASE_TEMPLATE("sockets: a waiting thread wakes when its peer goes away", Over, over_tcp,
                   over_host_memory) {
  channel_pair<Over> ends;
  std::thread thread{[&] { ends.dialed.reset(); }};
  CHECK(end_of(*ends.transport, *ends.accepted).code == errc::connection_lost);
  thread.join();
}

TEST_CASE_TEMPLATE("sockets: a reset is a lost connection for the sender too", Over, over_tcp,
                   over_host_memory) {
  channel_pair<Over> ends;
  CHECK(send(*ends.dialed, "never read") == 10);
  auto poller = ends.transport->make_poller();
  poller->watch(*ends.accepted, false);
  REQUIRE(poller->wait(soon()));
  ends.accepted->close(); // unread data makes it a reset
  const failure why = end_of(*ends.transport, *ends.dialed);
  CHECK(why.code == errc::connection_lost);
  CHECK(says(why, ends.listener->address()));
  const std::string more = "more";
  const std::array<const_bytes, 1> parts{bytes_of(more)};
  auto sent = ends.dialed->try_send(parts);
  REQUIRE(!sent);
  CHECK(sent.error().code == errc::connection_lost);
}

TEST_CASE_TEMPLATE("sockets: wake ends a wait, from another thread or before it began, once", Over,
                   over_tcp, over_host_memory) {
  real_clock clock;
  auto transport = Over::make(clock, {0us});
  auto poller = transport->make_poller();
  std::thread other{[&] { poller->wake(); }};
  CHECK(poller->wait(soon()));
  other.join();
  poller->wake();
  poller->wake();
  CHECK(poller->wait(soon()));
  CHECK(!poller->wait(clock.now()));
  CHECK(!poller->wait(clock.now() + 2ms));
}

TEST_CASE_TEMPLATE(
  "sockets: whoever calls when no descriptor is left is turned away, not reported for ever", Over,
  over_tcp, over_host_memory) {
  real_clock clock;
  auto transport = Over::make(clock);
  auto listener = transport->listen("127.0.0.1:0").value_or_throw();
  auto poller = transport->make_poller();
  poller->watch(*listener);
  auto caller = transport->connect(listener->address(), soon()).value_or_throw();
  auto hears = transport->make_poller();
  hears->watch(*caller, false);
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const int next = ::dup(STDIN_FILENO); // the lowest number that is free
  ::close(next);
  rlimit none{static_cast<rlim_t>(next), before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  const bool called = poller->wait(soon());
  auto accepted = listener->try_accept();
  const time_point until = clock.now() + 50ms;
  const bool again = poller->wait(until);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(called);
  CHECK(accepted == nullptr);
  CHECK(!again);
  REQUIRE(hears->wait(soon()));
  std::string x(4, '\0');
  const std::array<mutable_bytes, 1> in{std::as_writable_bytes(std::span{x})};
  auto got = caller->try_receive(in);
  REQUIRE(!got);
  CHECK(got.error().code == errc::connection_lost);
  auto other = transport->connect(listener->address(), soon()).value_or_throw();
  while (!accepted) {
    REQUIRE(poller->wait(soon()));
    accepted = listener->try_accept();
  }
  CHECK(send(*other, "x") == 1);
}

TEST_CASE_TEMPLATE("sockets: a wait without anything ready lasts until its deadline", Over,
                   over_tcp, over_host_memory) {
  channel_pair<Over> ends;
  auto poller = ends.transport->make_poller();
  poller->watch(*ends.accepted, false);
  poller->watch(*ends.listener);
  const time_point deadline = ends.clock.now() + 20ms;
  while (poller->wait(deadline))
    REQUIRE(ends.clock.now() < deadline); // early returns are allowed
  CHECK(ends.clock.now() >= deadline);
  poller->watch(*ends.accepted, true);
  CHECK(poller->wait(never));
  poller->watch(*ends.accepted, false);
  CHECK(!poller->wait(ends.clock.now()));
  CHECK(send(*ends.dialed, "x") == 1);
  CHECK(poller->wait(never));
  poller->forget(*ends.accepted);
  poller->forget(*ends.listener);
  CHECK(!poller->wait(ends.clock.now()));
}

TEST_CASE_TEMPLATE(
  "sockets: a channel closed or destroyed while watched neither hangs nor breaks its poller", Over,
  over_tcp, over_host_memory) {
  channel_pair<Over> ends;
  auto poller = ends.transport->make_poller();
  poller->watch(*ends.accepted, false);
  ends.accepted->close();
  CHECK(poller->wait(soon()));
  ends.accepted.reset();
  CHECK(!poller->wait(ends.clock.now()));
}
