#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "tcp_support.hpp"

// Goal: what threads do with real sockets over time: whole frames, many dialers, a peer that
// doesn't read, and descriptors as they should be. Method: threads over loopback.
namespace {

using namespace transport_test;

std::set<int> open_descriptors() {
  std::set<int> out;
  DIR* directory = ::opendir("/proc/self/fd");
  REQUIRE(directory != nullptr);
  while (const dirent* entry = ::readdir(directory))
    if (entry->d_name[0] != '.' && std::stoi(entry->d_name) != ::dirfd(directory))
      out.insert(std::stoi(entry->d_name));
  ::closedir(directory);
  return out;
}

} // namespace

TEST_CASE_TEMPLATE("sockets: a peer that doesn't read stops its sender, within bounded memory",
                   Over, over_tcp, over_host_memory) {
  channel_pair<Over> ends;
  const std::string block = pattern(std::size_t{1} << 20, 1);
  auto poller = ends.transport->make_poller();
  poller->watch(*ends.dialed, true);
  std::size_t sent = 0;
  do {
    const std::size_t n = send(*ends.dialed, block);
    sent += n;
    if (n == 0 && !poller->wait(ends.clock.now() + 20ms))
      break;
  } while (sent < std::size_t{64} << 20);
  CHECK(sent >= std::size_t{1} << 18);
  CHECK(sent <= std::size_t{16} << 20);
  // It goes on once the peer reads.
  std::thread reader{[&] { receive(*ends.transport, *ends.accepted, sent); }};
  while (!poller->wait(soon())) {
  }
  reader.join();
  CHECK(send(*ends.dialed, "on") == 2);
}

TEST_CASE("tcp: every descriptor is close-on-exec and every connection without delay") {
  const std::set<int> before = open_descriptors();
  tcp_pair ends;
  auto poller = ends.transport->make_poller();
  int connections = 0;
  for (const int fd : open_descriptors()) {
    if (before.contains(fd))
      continue;
    CAPTURE(fd);
    CHECK((::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0)
      continue;
    ++connections;
    int no_delay = 0;
    size = sizeof no_delay;
    CHECK(::getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &no_delay, &size) == 0);
    CHECK(no_delay != 0);
    CHECK((::fcntl(fd, F_GETFL) & O_NONBLOCK) != 0);
  }
  CHECK(connections == 2);
}

TEST_CASE_TEMPLATE("sockets: channels outlive their transport", Over, over_tcp, over_host_memory) {
  auto ends = std::make_unique<channel_pair<Over>>();
  auto dialed = std::move(ends->dialed);
  auto accepted = std::move(ends->accepted);
  ends.reset();
  CHECK(send(*dialed, "still here") == 10);
}

TEST_CASE_TEMPLATE("sockets: a frame of 64 MiB and many small ones cross between two threads", Over,
                   over_tcp, over_host_memory) {
  channel_pair<Over> ends;
  const std::string bulk = pattern(std::size_t{64} << 20, 1);
  constexpr std::uint64_t small = 20000;
  std::thread sender{[&] {
    frame_writer writer;
    writer.push({1, 0, 1, "large", {{bytes_of(bulk), nullptr}}}).value_or_throw();
    for (std::uint64_t i = 0; i < small; ++i)
      writer.push(make_frame(2, i, "small", {"bulk"})).value_or_throw();
    auto poller = ends.transport->make_poller();
    poller->watch(*ends.dialed, true);
    while (!writer.pump(*ends.dialed).value_or_throw())
      poller->wait(soon());
  }};
  collector to;
  auto poller = ends.transport->make_poller();
  poller->watch(*ends.accepted, false);
  bool ok = true;
  while (ok && to.frames.size() < small + 1) {
    ok = static_cast<bool>(to.pump(*ends.accepted))
         && (to.frames.size() == small + 1 || poller->wait(soon()));
  }
  sender.join();
  REQUIRE(ok);
  CHECK(to.frames[0].bulk == bulk);
  for (std::uint64_t i = 0; i < small; ++i)
    REQUIRE(to.frames[i + 1].header.request == i);
}

TEST_CASE_TEMPLATE("sockets: many threads dial, talk and leave at the same time", Over, over_tcp,
                   over_host_memory) {
  real_clock clock;
  auto transport = Over::make(clock);
  auto listener = std::move(transport->listen("127.0.0.1:0")).value_or_throw();
  constexpr int dialers = 4;
  constexpr int rounds = 25;
  std::atomic<int> answered{0};
  std::vector<std::thread> threads;
  for (int dialer = 0; dialer < dialers; ++dialer)
    threads.emplace_back([&] {
      for (int i = 0; i < rounds; ++i) {
        auto link = std::move(transport->connect(listener->address(), soon())).value_or_throw();
        send(*link, "ping");
        answered += receive(*transport, *link, 4) == "pong" ? 1 : 0;
      }
    });
  auto poller = transport->make_poller();
  poller->watch(*listener);
  for (int served = 0; served < dialers * rounds;) {
    REQUIRE(poller->wait(soon()));
    while (auto link = listener->try_accept()) {
      CHECK(receive(*transport, *link, 4) == "ping");
      send(*link, "pong");
      ++served;
    }
  }
  for (std::thread& thread : threads)
    thread.join();
  CHECK(answered == dialers * rounds);
}
