// Goal: nothing that a server says without having sent it reaches a reader. Method: a server by
// hand on a thread of its own.
#include <doctest/doctest.h>

#include <thread>

#include "../server/served_fixture.hpp"

using namespace parameter_test;

namespace {

using std::chrono::seconds;

/// Welcomes whoever comes and answers its first question with rows that are told of and not sent.
void lie(world& w, channel_listener& listener, std::uint64_t bytes_told) {
  const auto deadline = w.in(seconds{20});
  auto poller = w.transport->make_poller();
  poller->watch(listener);
  std::unique_ptr<channel> wire;
  while (!(wire = listener.try_accept())) {
    if (w.ports->clock().now() >= deadline)
      return;
    poller->wait(deadline); // may return early
  }
  frame_reader in{data_limits(std::uint64_t{1} << 20)};
  frame_writer out{data_limits(std::uint64_t{1} << 20), wire->can_damage()};
  poller->watch(*wire, false);
  while (w.ports->clock().now() < deadline) {
    auto event = in.pump(*wire);
    if (!event)
      return; // the reader has had enough
    if (*event == frame_event::idle) {
      poller->wait(deadline);
      continue;
    }
    if (*event != frame_event::complete)
      return;
    const bool is_hello = in.header().kind == static_cast<std::uint8_t>(data_kind::hello);
    outgoing_frame answer;
    answer.request = in.header().request;
    answer.kind = static_cast<std::uint8_t>(is_hello ? data_kind::welcome : data_kind::read_reply);
    answer.meta = is_hello ? encode_meta(welcome_meta{})
                           : encode_meta(blocks_meta{.blocks = {{.bytes = bytes_told}}});
    if (!out.push(std::move(answer)) || !out.pump(*wire))
      return; // likewise
  }
}

} // namespace

TEST_CASE("remote_server_link: an answer that tells of rows and brings none is a broken server's") {
  for (const std::uint64_t told : {std::uint64_t{48}, std::uint64_t{0}, std::uint64_t{44}}) {
    CAPTURE(told);
    world w;
    auto listener = w.transport->listen("ps0:0").value_or_throw();
    std::thread server{[&] { lie(w, *listener, told); }};
    data_peer peer{.address = listener->address(), .cluster = "test", .self = worker()};
    auto link = remote_server_link::connect(w.env(), peer, w.in(seconds{20})).value_or_throw();
    row_block rows;
    rows.values = tensor::zeros(dtype::f32, {4, 3});
    const std::array reads{read_part{{variable_id{1}, shard_index{}}, &rows}};
    failure why;
    if (auto begun = link->start_reads(reads); !begun) // the answer may be there already
      why = begun.error();
    auto poller = w.transport->make_poller();
    const auto until = w.in(seconds{20});
    while (why.code == errc::none && link->reads_pending() && w.ports->clock().now() < until) {
      if (auto ok = link->pump(); !ok)
        why = ok.error();
      poller->watch(*link->wire(), link->wants_send());
      if (why.code == errc::none && w.ports->clock().now() < until)
        poller->wait(until); // may return early
    }
    CHECK(why.code == errc::bad_frame);
    link.reset(); // the server sees the end
    server.join();
  }
}
