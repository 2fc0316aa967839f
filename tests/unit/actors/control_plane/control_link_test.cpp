// One end of a link alone, on a channel that takes as much as the test says.
#include <troupe/actors/control_plane/control_link.hpp>

#include <thread>

#include <doctest/doctest.h>

#include "../data_plane/parameter_fixture.hpp"

using namespace troupe;
using parameter_test::world;

namespace {

/// Two ends of a channel.
struct wire {
  explicit wire(memory_transport_options options = {}) : w{options} {
    auto listener = w.transport->listen("here:0").value_or_throw();
    near =
      w.transport->connect(listener->address(), w.in(std::chrono::seconds{20})).value_or_throw();
    far = listener->try_accept();
    REQUIRE(far);
  }
  std::shared_ptr<control_link> link(std::uint64_t queue_bytes_max = 1 << 20) {
    return std::make_shared<control_link>(
      std::move(near), [this] { ++wakes; }, link_bytes_max, queue_bytes_max);
  }
  world w;
  std::unique_ptr<channel> near{}, far{};
  std::atomic<int> wakes{0};
};

struct arrived {
  std::uint64_t request = 0;
  std::string meta{};
};

/// What has come so far.
std::vector<arrived> read_all(frame_reader& in, channel& from) {
  std::vector<arrived> out;
  for (;;) {
    auto event = in.pump(from).value_or_throw();
    if (event != frame_event::complete)
      return out;
    out.push_back({in.header().request, std::string{in.meta()}});
  }
}

} // namespace

TEST_CASE("link: frames arrive whole and in the order sent, however little the channel takes") {
  wire x{{.chunk_seed = 3, .chunk_bytes_max = 5}};
  auto link = x.link();
  frame_reader in{link_limits(link_bytes_max)};
  std::vector<arrived> got;
  for (std::uint64_t i = 0; i < 200; ++i) {
    REQUIRE(link->send(link_kind::run_closures, i, std::string(i % 50, 'x')));
    for (auto& f : read_all(in, *x.far))
      got.push_back(std::move(f));
  }
  for (int tries = 0; got.size() < 200 && tries < 100'000; ++tries) {
    REQUIRE(link->flush());
    for (auto& f : read_all(in, *x.far))
      got.push_back(std::move(f));
  }
  REQUIRE(got.size() == 200);
  for (std::uint64_t i = 0; i < 200; ++i) {
    CHECK(got[i].request == i);
    CHECK(got[i].meta.size() == i % 50);
  }
}

TEST_CASE("link: threads that send at once each keep their order") {
  wire x{{.capacity_bytes = 4096}};
  auto link = x.link();
  constexpr std::uint64_t each = 2'000, senders = 3;
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < senders; ++t)
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < each; ++i)
        link->send(link_kind::worker_report, t << 32 | i, "text");
    });
  frame_reader in{link_limits(link_bytes_max)};
  std::vector<std::uint64_t> next(senders, 0);
  std::size_t got = 0;
  bool ordered = true;
  const auto deadline = x.w.in(std::chrono::seconds{20});
  while (got < each * senders && x.w.ports->clock().now() < deadline) {
    REQUIRE(link->flush());
    for (const auto& f : read_all(in, *x.far)) {
      ordered &= (f.request & 0xffffffff) == next[f.request >> 32]++;
      ++got;
    }
  }
  for (auto& t : threads)
    t.join();
  CHECK(ordered);
  CHECK(got == each * senders);
}

TEST_CASE("link: a peer that doesn't read ends the link at its bound, and not before") {
  wire x{{.capacity_bytes = 1000}};
  auto link = x.link(10'000);
  std::size_t sent = 0;
  while (link->send(link_kind::run_closures, 0, std::string(52, 'x'))) // 100 bytes with its header
    REQUIRE(++sent < 1'000);
  CHECK(sent >= 100);
  CHECK(sent <= 110);  // what the channel holds, and the bound
  CHECK(x.wakes >= 2); // when it blocked, and when it broke
  auto ok = link->flush();
  REQUIRE_FALSE(ok);
  CHECK(ok.error().code == errc::too_large);
  CHECK(ok.error().text.find("of at most 10000 are queued") != std::string::npos);
  CHECK_FALSE(link->send(link_kind::goodbye, 0, {}));
}

TEST_CASE("link: what the channel did not take goes out once the peer reads") {
  wire x{{.capacity_bytes = 100}};
  auto link = x.link();
  CHECK_FALSE(link->blocked());
  REQUIRE(link->send(link_kind::run_closures, 1, std::string(400, 'x')));
  CHECK(link->blocked());
  CHECK(x.wakes == 1);
  frame_reader in{link_limits(link_bytes_max)};
  std::vector<arrived> got;
  for (int i = 0; i < 100 && got.empty(); ++i) {
    got = read_all(in, *x.far);
    REQUIRE(link->flush());
  }
  REQUIRE(got.size() == 1);
  CHECK_FALSE(link->blocked());
}

TEST_CASE("link: nothing goes out after its end, on either side") {
  wire x;
  auto link = x.link();
  REQUIRE(link->send(link_kind::run_closures, 1, "last"));
  link->close();
  link->close();
  CHECK_FALSE(link->send(link_kind::run_closures, 2, "late"));
  frame_reader in{link_limits(link_bytes_max)};
  REQUIRE(in.pump(*x.far).value_or_throw() == frame_event::complete);
  CHECK(in.meta() == "last");
  CHECK_FALSE(in.pump(*x.far));
  wire y;
  auto other = y.link();
  y.far->close();
  bool sent = true;
  for (int i = 0; i < 3 && sent; ++i)
    sent = other->send(link_kind::run_closures, 1, "x") && other->flush();
  CHECK_FALSE(sent);
}
