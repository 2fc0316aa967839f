#include <troupe/actors/data_plane/data_session.hpp>

namespace troupe {

data_session::data_session(std::unique_ptr<channel> wire, std::uint64_t frame_bytes_max)
  : wire_{std::move(wire)},
    in_{data_limits(frame_bytes_max)},
    out_{data_limits(frame_bytes_max), wire_->can_damage()} {}

result<std::unique_ptr<data_session>> data_session::open(const environment& env,
                                                         const data_peer& peer,
                                                         time_point deadline) {
  auto wire = env.transport.connect(peer.address, deadline);
  if (!wire)
    return wire.error();
  std::unique_ptr<data_session> out{new data_session{std::move(*wire), peer.frame_bytes_max}};
  if (auto ok = out->greet(env, peer, deadline); !ok)
    return ok.error();
  return out;
}

result<void> data_session::greet(const environment& env, const data_peer& peer,
                                 time_point deadline) {
  hello_meta hello{data_protocol_version,
                   peer.cluster,
                   peer.self.task,
                   peer.self.inc,
                   peer.receiver,
                   peer.term,
                   {}};
  hello.token = hello_code(hello, peer.token);
  outgoing_frame frame;
  frame.kind = static_cast<std::uint8_t>(data_kind::hello);
  frame.meta = encode_meta(std::move(hello));
  if (auto ok = out_.push(std::move(frame)); !ok)
    return ok;
  auto poller = env.transport.make_poller();
  for (;;) {
    auto sent = out_.pump(*wire_);
    if (!sent && sent.error().code != errc::connection_lost)
      return sent.error();
    auto event = in_.pump(*wire_); // a refusal may wait behind a lost connection
    if (!event)
      return event.error();
    if (*event == frame_event::need_bulk)
      return make_failure(errc::bad_frame,
                          peer.address + ": unexpected bulk in the answer to a hello");
    if (*event == frame_event::complete)
      break;
    if (env.clock.now() >= deadline)
      return make_failure(errc::deadline, peer.address + ": no welcome before the deadline");
    poller->watch(*wire_, !out_.empty());
    poller->wait(deadline);
  }
  poller->forget(*wire_);
  auto kind = static_cast<data_kind>(in_.header().kind);
  if (kind == data_kind::refused) {
    auto answer = decode_meta<outcome_meta>(in_.meta(), "refused");
    if (!answer)
      return answer.error();
    auto why = std::move(answer->why);
    if (why.code == errc::none)
      why = make_failure(errc::bad_frame, "refused without a reason");
    why.text = peer.address + ": " + why.text;
    return why;
  }
  if (kind != data_kind::welcome)
    return make_failure(errc::bad_frame, peer.address + ": frame kind "
                                           + std::to_string(in_.header().kind)
                                           + " in the answer to a hello");
  auto welcome = decode_meta<welcome_meta>(in_.meta(), "welcome");
  if (!welcome)
    return welcome.error();
  server_ = welcome->server;
  return {};
}

} // namespace troupe
