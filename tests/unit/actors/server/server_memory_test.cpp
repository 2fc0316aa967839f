// Goal: through shared memory, where pushes are applied and rows gathered in place, a thread does
// what it does over any other channel.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <string>

#include "served_fixture.hpp"

using namespace parameter_test;

namespace {

using std::chrono::seconds;

// Keeps what is sent.
struct keeping_channel final : channel {
  std::string sent{};
  result<std::size_t> try_send(std::span<const const_bytes> parts) override {
    std::size_t n = 0;
    for (const auto& part : parts) {
      sent.append(reinterpret_cast<const char*>(part.data()), part.size());
      n += part.size();
    }
    return n;
  }
  result<std::size_t> try_receive(std::span<const mutable_bytes>) override {
    return std::size_t{0};
  }
  void close() override {}
  std::string peer() const override { return "nobody"; }
};

} // namespace

TEST_CASE(
  "server_event_loop: through memory, in place or in pieces, they agree with a plain array") {
  // Rings that hold a frame of any size, hardly any, and none: both ways are taken.
  for (const std::size_t ring_bytes :
       {std::size_t{1} << 20, std::size_t{1} << 15, std::size_t{4096}})
    for (unsigned seed = 1; seed <= 3; ++seed) {
      CAPTURE(ring_bytes);
      served x{host_transport_options{.ring_bytes = ring_bytes}, 2};
      compare_with_array(x, seed, 9000, 5000);
    }
}

TEST_CASE(
  "INV-S2 server_event_loop: in memory a push that stops anywhere before its end changes nothing") {
  served x{host_transport_options{.ring_bytes = 1 << 16}, 1};
  auto id = x.vars.add(make_variable(1, {1000}, 1, 1));
  std::vector<mutation_piece> pieces(1);
  pieces[0].variable = id;
  pieces[0].kind = mutation_kind::assign_add;
  pieces[0].values = tensor::zeros(dtype::f32, {1000});
  std::ranges::fill(pieces[0].values.mutable_as<float>(), 1.0f);
  for (std::uint64_t cut = 1; cut <= 41; ++cut) {
    pieces[0].key.closure = closure(cut);
    auto session = data_session::open(x.w.env(), x.peer(0), x.w.in(seconds{20})).value_or_throw();
    auto frame = make_push(pieces, 1, session->out().position());
    std::string wire;
    {
      frame_writer writer{data_limits(1 << 20), false};
      writer.push(std::move(frame)).value_or_throw();
      keeping_channel all;
      writer.pump(all).value_or_throw();
      wire = std::move(all.sent);
    }
    const bool whole = cut == 41;
    const std::string part = wire.substr(0, wire.size() * cut / 41 - (whole ? 0 : 1));
    const std::array<const_bytes, 1> parts{std::as_bytes(std::span{part})};
    REQUIRE(session->wire().try_send(parts).value_or_throw() == part.size());
    session->wire().close();
    // The thread has seen the end once it has no channel any more.
    while (x.loops[0]->operator->()->channel_count() > 0)
      x.w.env().threads.yield();
    auto now = x.vars.stores[0]->read(id, shard_index{0}).value_or_throw();
    CHECK(now.version == (whole ? 1 : 0));
    for (float v : now.values.as<float>())
      REQUIRE(v == (whole ? 1.0f : 0.0f));
  }
}
