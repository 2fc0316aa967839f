#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <troupe/core/tracers.hpp>
#include <troupe/transport/detail/host_link.hpp>

#include "../../support/failures.hpp"
#include "tcp_support.hpp"

// Goal: within a host bytes go through memory without anybody asking for it, whatever can't be
// shared goes over sockets, and a peer that leaves or lies at any point costs no more than its own
// channel. Method: both ends in this process; peers made by hand from the parts of a link.
namespace {

using namespace transport_test;
using detail::host_link;
using detail::link_memory;
using detail::owned_fd;

std::set<std::string> names_in(const char* path) {
  std::set<std::string> out;
  DIR* directory = ::opendir(path);
  REQUIRE(directory != nullptr);
  while (const dirent* entry = ::readdir(directory))
    if (entry->d_name[0] != '.')
      out.insert(entry->d_name);
  ::closedir(directory);
  return out;
}

/// A listener, and a peer that comes through its door and says what the test says.
struct by_hand {
  real_clock clock{};
  counting_tracer heard{};
  std::unique_ptr<data_transport> transport =
    make_host_transport(clock, {.ring_bytes = 4096, .trace = &heard});
  std::unique_ptr<channel_listener> listener =
    std::move(transport->listen("127.0.0.1:0")).value_or_throw();
  owned_fd socket = std::move(detail::connect_handshake(listener->address())).value_or_throw();

  std::unique_ptr<channel> accept() {
    auto out = listener->try_accept();
    REQUIRE(out);
    CHECK(out->peer() == "shm:" + std::to_string(::getpid()));
    return out;
  }
  void say(const std::string& text) {
    const std::array<const_bytes, 1> parts{bytes_of(text)};
    REQUIRE(detail::send_some(socket.get(), parts) == text.size());
  }
  std::string hear(std::size_t n) {
    std::string out(n, '\0');
    const std::array<mutable_bytes, 1> parts{std::as_writable_bytes(std::span{out})};
    out.resize(detail::receive_some(socket.get(), parts).value());
    return out;
  }
};

/// Memory that a peer may offer: as large as it says, sealed or not.
owned_fd some_memory(std::size_t bytes, bool sealed) {
  owned_fd out{::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  REQUIRE(::ftruncate(out.get(), static_cast<off_t>(bytes)) == 0);
  if (sealed)
    REQUIRE(::fcntl(out.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
  return out;
}

result<std::size_t> send_to(channel& to, const std::string& text) {
  const std::array<const_bytes, 1> parts{bytes_of(text)};
  return to.try_send(parts);
}

result<std::size_t> receive_from(channel& from, std::string& to) {
  const std::array<mutable_bytes, 1> parts{std::as_writable_bytes(std::span{to})};
  return from.try_receive(parts);
}

} // namespace

TEST_CASE("shared memory: nothing of a channel is left when it is gone, and nothing in /dev/shm") {
  const auto files = names_in("/dev/shm");
  const auto descriptors = names_in("/proc/self/fd");
  for (int i = 0; i < 3; ++i) {
    channel_pair<over_host_memory> ends;
    CHECK(send(*ends.dialed, "there") == 5);
    CHECK(receive(*ends.transport, *ends.accepted, 5) == "there");
    for (const std::string& name : names_in("/proc/self/fd"))
      if (!descriptors.contains(name)) {
        const int flags = ::fcntl(std::stoi(name), F_GETFD);
        CHECK((flags < 0 || (flags & FD_CLOEXEC) != 0)); // -1: the directory's own
      }
    CHECK(names_in("/dev/shm") == files);
  }
  CHECK(names_in("/proc/self/fd").size() == descriptors.size());
}

TEST_CASE("shared memory: an address of any kind finds the same listener's door") {
  real_clock clock;
  auto transport = make_host_transport(clock);
  auto listener = std::move(transport->listen("0.0.0.0:0")).value_or_throw();
  const std::string port = listener->address().substr(listener->address().rfind(':'));
  for (const std::string host : {"127.0.0.1", "localhost", "127.0.0.2"}) {
    CAPTURE(host);
    auto dialed = std::move(transport->connect(host + port, soon())).value_or_throw();
    auto accepted = listener->try_accept();
    REQUIRE(accepted);
    CHECK(accepted->peer().starts_with("shm:"));
  }
}

TEST_CASE("shared memory: off at either end it is TCP, and bytes cross") {
  real_clock clock;
  for (const bool dialer_shares : {false, true}) {
    auto dialing = make_host_transport(clock, {.shared_memory = dialer_shares});
    auto listening = make_host_transport(clock, {.shared_memory = !dialer_shares});
    auto listener = std::move(listening->listen("127.0.0.1:0")).value_or_throw();
    auto dialed = std::move(dialing->connect(listener->address(), soon())).value_or_throw();
    auto poller = listening->make_poller();
    poller->watch(*listener);
    REQUIRE(poller->wait(soon()));
    auto accepted = listener->try_accept();
    REQUIRE(accepted);
    CHECK(accepted->peer().starts_with("127.0.0.1:"));
    CHECK(send(*dialed, "over TCP") == 8);
    CHECK(receive(*listening, *accepted, 8) == "over TCP");
  }
}

TEST_CASE("shared memory: rings of a size that can't be are refused by name") {
  real_clock clock;
  for (const std::size_t bytes : {0u, 1000u, 2048u, 5000u, 1u << 27})
    CHECK_THROWS_WITH_AS(make_host_transport(clock, {.ring_bytes = bytes}),
                         doctest::Contains(std::to_string(bytes).c_str()), error);
}

TEST_CASE("shared memory: a dialer that leaves before, with or after its offer is a lost one") {
  for (const bool offers : {false, true})
    for (const bool accepted_first : {false, true}) {
      CAPTURE(offers);
      CAPTURE(accepted_first);
      by_hand peer;
      std::unique_ptr<channel> accepted;
      if (accepted_first)
        accepted = peer.accept();
      auto memory = link_memory::create(4096).value_or_throw();
      if (offers)
        REQUIRE(detail::send_offer(peer.socket.get(), {4096}, memory.fd()));
      peer.socket.reset();
      if (!accepted_first)
        accepted = peer.accept();
      CHECK(end_of(*peer.transport, *accepted).code == errc::connection_lost);
      CHECK(failure_of(send_to(*accepted, "x")).code == errc::connection_lost);
    }
}

TEST_CASE("shared memory: without an offer nothing is sent, nothing waits and nothing is lost") {
  by_hand peer;
  auto accepted = peer.accept();
  auto poller = peer.transport->make_poller();
  poller->watch(*accepted, true);
  CHECK(!poller->wait(peer.clock.now() + 2ms));
  CHECK(*send_to(*accepted, "early") == 0);
  auto memory = link_memory::create(4096).value_or_throw();
  REQUIRE(detail::send_offer(peer.socket.get(), {4096}, memory.fd()));
  CHECK(poller->wait(soon()));
  CHECK(*send_to(*accepted, "now") == 3);
  detail::ring_reader reader{memory.ring_of(false)};
  std::string got(10, '\0');
  CHECK(reader.read(std::as_writable_bytes(std::span{got})) == 3u);
  CHECK(got.starts_with("now"));
}

TEST_CASE(
  "shared memory: offers that can't be taken are declined, and bytes go through the socket") {
  struct offer {
    const char* what;
    std::uint64_t ring_bytes;
    std::size_t memory_bytes;
    bool sealed;
  };
  constexpr std::size_t right = 4096 + 2 * 4096;
  for (const offer& x :
       {offer{"a ring of no power of two", 5000, 4096 + 2 * 5000, true},
        offer{"a ring too small", 2048, 4096 + 2 * 2048, true},
        offer{"a ring too large", std::uint64_t{1} << 40, right, true},
        offer{"a ring of all bits", std::numeric_limits<std::uint64_t>::max(), right, true},
        offer{"less memory than it says", 8192, right, true},
        offer{"more memory than it says", 4096, right + 4096, true},
        offer{"memory that can shrink", 4096, right, false}}) {
    CAPTURE(x.what);
    by_hand peer;
    const owned_fd memory = some_memory(x.memory_bytes, x.sealed);
    REQUIRE(detail::send_offer(peer.socket.get(), {x.ring_bytes}, memory.get()));
    auto accepted = peer.accept();
    peer.say("as bytes");
    CHECK(receive(*peer.transport, *accepted, 8) == "as bytes");
    CHECK(send(*accepted, "too") == 3);
    CHECK(peer.hear(10) == "ntoo");
  }
}

TEST_CASE("shared memory: whatever else comes in place of an offer is declined") {
  for (const bool with_descriptor : {false, true}) {
    by_hand peer;
    if (with_descriptor) { // a file that is no memory
      const owned_fd null{::open("/dev/null", O_RDWR | O_CLOEXEC)};
      REQUIRE(detail::send_offer(peer.socket.get(), {4096}, null.get()));
    } else {
      peer.say("a greeting of another protocol");
    }
    auto accepted = peer.accept();
    CHECK(*send_to(*accepted, "x") == 1);
    CHECK(peer.hear(10) == "nx");
    CHECK(send_to(*accepted, "y"));
  }
}

TEST_CASE("shared memory: descriptors beyond the one of an offer are not kept") {
  const auto before = names_in("/proc/self/fd").size();
  for (const std::size_t count : {2u, 3u, 200u}) {
    CAPTURE(count);
    by_hand peer;
    const owned_fd memory = some_memory(4096 + 2 * 4096, true);
    const std::vector<int> rights(count, memory.get());
    std::vector<std::byte> beside(CMSG_SPACE(count * sizeof(int)));
    std::string text(detail::memory_offer::wire_bytes, 'x');
    iovec part{text.data(), text.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = beside.data();
    message.msg_controllen = beside.size();
    cmsghdr* const at = CMSG_FIRSTHDR(&message);
    at->cmsg_level = SOL_SOCKET;
    at->cmsg_type = SCM_RIGHTS;
    at->cmsg_len = CMSG_LEN(count * sizeof(int));
    std::memcpy(CMSG_DATA(at), rights.data(), count * sizeof(int));
    REQUIRE(::sendmsg(peer.socket.get(), &message, MSG_NOSIGNAL)
            == static_cast<ssize_t>(text.size()));
    auto accepted = peer.accept();
    CHECK(*send_to(*accepted, "x") == 1);
    CHECK(peer.hear(10) == "nx");
  }
  CHECK(names_in("/proc/self/fd").size() == before);
}

TEST_CASE("shared memory: what was written before an offer is declined arrives first, in order") {
  const std::string name = "test/" + std::to_string(::getpid());
  const auto door = detail::listen_handshake(name).value_or_throw();
  auto socket = std::move(detail::connect_handshake(name)).value_or_throw();
  auto memory = link_memory::create(4096).value_or_throw();
  REQUIRE(detail::send_offer(socket.get(), {4096}, memory.fd()));
  host_link dialer{std::move(socket), std::move(memory), "acceptor"};
  const std::string text = pattern(300'000, 1);
  const auto send_at = [&](host_link& from, std::size_t& at) {
    const std::array<const_bytes, 1> parts{bytes_of(text).subspan(at)};
    at += from.send(parts).value_or_throw();
  };
  std::size_t there = 0;
  send_at(dialer, there);
  CHECK(there == 4096); // the ring is full, nobody has looked yet
  CHECK(dialer.shares_memory());
  host_link acceptor{detail::accept_handshake(door.get()), false, "dialer"};
  CHECK(!acceptor.shares_memory());
  std::size_t back = 0;
  std::string at_acceptor;
  std::string at_dialer;
  const auto receive_at = [](host_link& to, std::string& all) {
    std::string some(1000, '\0');
    const std::array<mutable_bytes, 1> parts{std::as_writable_bytes(std::span{some})};
    all.append(some, 0, to.receive(parts).value_or_throw());
  };
  // The dialer only listens until what it had written is out.
  while (at_acceptor.size() < 4096) {
    receive_at(dialer, at_dialer);
    receive_at(acceptor, at_acceptor);
  }
  CHECK(!dialer.shares_memory());
  while (at_acceptor.size() < text.size() || at_dialer.size() < text.size()) {
    send_at(dialer, there);
    send_at(acceptor, back);
    receive_at(dialer, at_dialer);
    receive_at(acceptor, at_acceptor);
  }
  CHECK(at_acceptor == text);
  CHECK(at_dialer == text);
  acceptor.close();
  const std::array<const_bytes, 1> parts{bytes_of(text)};
  CHECK(!dialer.send(parts));
}

TEST_CASE("shared memory: an index that can't be ends the channel with what is wrong") {
  for (const bool sending : {false, true}) {
    CAPTURE(sending);
    by_hand peer;
    auto memory = link_memory::create(4096).value_or_throw();
    REQUIRE(detail::send_offer(peer.socket.get(), {4096}, memory.fd()));
    auto accepted = peer.accept();
    std::string got(100, '\0');
    CHECK(*receive_from(*accepted, got) == 0);
    auto& lie =
      sending ? memory.ring_of(false).indices->taken : memory.ring_of(true).indices->written;
    lie = 5000;
    auto poller = peer.transport->make_poller();
    poller->watch(*accepted, true);
    CHECK(poller->wait(soon()));
    const failure why = sending ? failure_of(send_to(*accepted, pattern(5000, 1)))
                                : failure_of(receive_from(*accepted, got));
    CHECK(why.code == errc::bad_frame);
    CHECK(says(why, accepted->peer()));
    lie = 0; // it stays so
    CHECK(failure_of(receive_from(*accepted, got)).code == errc::bad_frame);
    CHECK(failure_of(send_to(*accepted, "x")).code == errc::bad_frame);
    CHECK(poller->wait(soon()));
  }
}

TEST_CASE("shared memory: a peer that floods its socket with wake-ups holds nobody") {
  by_hand peer;
  auto memory = link_memory::create(4096).value_or_throw();
  REQUIRE(detail::send_offer(peer.socket.get(), {4096}, memory.fd()));
  auto accepted = peer.accept();
  const std::string flood(1 << 16, 'w');
  const std::array<const_bytes, 1> parts{bytes_of(flood)};
  std::size_t said = 0;
  while (const auto n = detail::send_some(peer.socket.get(), parts).value())
    said += n;
  CHECK(said > 0);
  std::string got(100, '\0');
  CHECK(*receive_from(*accepted, got) == 0);
  // And its writer goes on although no wake-up fits into the socket any more.
  detail::ring_writer writer{memory.ring_of(true)};
  REQUIRE(writer.write(bytes_of("through")) == 7u);
  writer.publish();
  CHECK(*receive_from(*accepted, got) == 7);
}

TEST_CASE("shared memory: threads that sleep at once lose no wake-up, in either direction") {
  channel_pair<over_host_memory> ends;
  auto sleepy = make_host_transport(ends.clock, {.tcp = {.spin = 0us}});
  constexpr std::size_t total = 20 << 20;
  const std::string text = pattern(total, 1);
  const auto exchange = [&](channel& through) {
    auto poller = sleepy->make_poller();
    std::string got(total, '\0');
    std::size_t sent = 0;
    std::size_t received = 0;
    while (sent < total || received < total) {
      const std::array<const_bytes, 1> out{bytes_of(text).subspan(sent)};
      const std::array<mutable_bytes, 1> in{
        std::as_writable_bytes(std::span{got}).subspan(received)};
      const std::size_t n = through.try_send(out).value_or_throw();
      const std::size_t m = through.try_receive(in).value_or_throw();
      sent += n;
      received += m;
      if (n + m > 0)
        continue;
      poller->watch(through, sent < total);
      if (!poller->wait(soon()))
        return false;
    }
    return got == text;
  };
  bool there = false;
  std::thread other{[&] { there = exchange(*ends.accepted); }};
  CHECK(exchange(*ends.dialed));
  other.join();
  CHECK(there);
}

TEST_CASE("shared memory: rings have no seam in either process") {
  auto memory = link_memory::create(4096).value_or_throw();
  for (const bool dialer : {true, false}) {
    detail::ring_writer writer{memory.ring_of(dialer)};
    detail::ring_reader reader{memory.ring_of(dialer)};
    for (std::uint64_t i = 0; i < 20; ++i) {
      const std::string text = pattern(3000, i);
      auto room = writer.room_for(text.size()).value();
      REQUIRE(room.size() == text.size());
      std::memcpy(room.data(), text.data(), text.size());
      writer.wrote(text.size());
      writer.publish();
      const auto there = reader.view(text.size()).value();
      REQUIRE(there.size() == text.size());
      CHECK(std::memcmp(there.data(), text.data(), text.size()) == 0);
      reader.took(text.size());
      reader.publish();
    }
  }
}

TEST_CASE("shared memory: a process that gets no memory goes over TCP, and the tracer hears why") {
  real_clock clock;
  counting_tracer heard;
  auto transport = make_host_transport(clock, {.trace = &heard});
  auto listener = std::move(transport->listen("127.0.0.1:0")).value_or_throw();
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const rlimit none{4096, before.rlim_max}; // memory counts as a file
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &none) == 0);
  auto dialed = transport->connect(listener->address(), soon());
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  REQUIRE(dialed);
  CHECK(heard.events("transport.shared_memory_refused") == 1);
  CHECK(send(**dialed, "over TCP") == 8);
  auto poller = transport->make_poller();
  poller->watch(*listener);
  for (int i = 0;; ++i) { // the one that came through the door has gone again
    REQUIRE(i < 2);
    REQUIRE(poller->wait(soon()));
    auto accepted = listener->try_accept();
    REQUIRE(accepted);
    if (!accepted->peer().starts_with("127.0.0.1:"))
      continue;
    CHECK(receive(*transport, *accepted, 8) == "over TCP");
    break;
  }
}
