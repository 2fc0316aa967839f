#include <troupe/actors/data_plane/remote_server_link.hpp>

#include <algorithm>

namespace troupe {

namespace {

outgoing_frame frame_of(data_kind kind, std::uint64_t request, std::string meta) {
  outgoing_frame out;
  out.kind = static_cast<std::uint8_t>(kind);
  out.request = request;
  out.meta = std::move(meta);
  return out;
}

failure broken(const std::string& what) {
  return make_failure(errc::bad_frame, "answer of a parameter server: " + what);
}

} // namespace

result<std::unique_ptr<server_link>> remote_server_link::connect(const environment& env,
                                                                 const data_peer& peer,
                                                                 time_point deadline) {
  auto session = data_session::open(env, peer, deadline);
  if (!session)
    return session.error();
  return std::unique_ptr<server_link>{std::make_unique<remote_server_link>(std::move(*session))};
}

// -- questions
// ----------------------------------------------------------------------------------------------------------

result<void> remote_server_link::ask(outgoing_frame frame, pending what) {
  what.request = frame.request;
  bool push = what.answer == data_kind::mutate_ack;
  bool ends_push = what.ends_push;
  if (auto ok = session_->out().push(std::move(frame)); !ok)
    return ok;
  ++(push ? owned_pushes_ : owned_reads_);
  if (push) {
    pushes_ += ends_push ? 1 : 0;
    push_bytes_ += what.push_bytes;
  }
  pending_.push_back(std::move(what));
  return {};
}

result<void> remote_server_link::start_reads(std::span<const read_part> parts) {
  for (std::size_t at = 0; at < parts.size(); at += pending_.back().items) {
    auto some = parts.subspan(at, items_of_frame(parts.size() - at, [&](std::size_t i) {
                                return parts[at + i].to->values.size_bytes();
                              }));
    pending what;
    what.answer = data_kind::read_reply;
    what.items = some.size();
    read_meta meta;
    for (const auto& part : some) {
      meta.shards.push_back(part.from);
      what.into.push_back(part.to->values);
      what.blocks.push_back(part.to);
    }
    auto frame = frame_of(data_kind::read, session_->next_request(), encode_meta(std::move(meta)));
    if (auto ok = ask(std::move(frame), std::move(what)); !ok)
      return ok;
  }
  return pump();
}

result<void> remote_server_link::start_gathers(std::span<gather_part> parts) {
  for (std::size_t at = 0; at < parts.size(); at += items_per_frame_max) {
    auto some = parts.subspan(at, std::min(items_per_frame_max, parts.size() - at));
    pending what;
    what.answer = data_kind::gather_reply;
    what.items = some.size();
    gather_meta meta;
    std::vector<bulk_part> bulk;
    for (const auto& part : some) {
      meta.items.push_back({part.from, static_cast<std::uint64_t>(part.rows.size())});
      bulk.push_back(bulk_of(part.rows));
      what.into.push_back(part.to);
    }
    auto frame =
      frame_of(data_kind::gather, session_->next_request(), encode_meta(std::move(meta)));
    frame.bulk = std::move(bulk);
    if (auto ok = ask(std::move(frame), std::move(what)); !ok)
      return ok;
  }
  return pump();
}

result<void> remote_server_link::start_mutations(std::span<const mutation_piece> pieces,
                                                 const origin&) {
  auto bytes_of = [](const mutation_piece& piece) -> std::uint64_t {
    return piece.values.size_bytes() + piece.indices.size_bytes();
  };
  for (std::size_t at = 0; at < pieces.size(); at += pending_.back().items) {
    auto some = pieces.subspan(at, items_of_frame(pieces.size() - at, [&](std::size_t i) {
                                 return bytes_of(pieces[at + i]);
                               }));
    pending what;
    what.answer = data_kind::mutate_ack;
    what.items = some.size();
    what.ends_push = at + some.size() == pieces.size();
    for (const auto& piece : some)
      what.push_bytes += bytes_of(piece);
    auto frame = make_push(some, session_->next_request(), session_->out().position());
    if (auto ok = ask(std::move(frame), std::move(what)); !ok)
      return ok;
  }
  return {};
}

bool remote_server_link::may_push(std::uint64_t bytes) const {
  return pushes_ == 0 || (pushes_ < window_pushes_max && push_bytes_ + bytes <= window_bytes_max);
}

void remote_server_link::disown_reads() {
  for (auto& what : pending_)
    if (what.answer != data_kind::mutate_ack) {
      what.owned = false;
      what.blocks.clear();
    }
  owned_reads_ = 0;
  read_refusal_ = {};
}

void remote_server_link::disown_pushes() {
  for (auto& what : pending_)
    if (what.answer == data_kind::mutate_ack)
      what.owned = false;
  owned_pushes_ = 0;
  push_refusal_ = {};
}

// -- answers
// ------------------------------------------------------------------------------------------------------------

result<void> remote_server_link::pump() {
  auto sent = session_->out().pump(session_->wire());
  for (;;) {
    auto event = session_->in().pump(session_->wire()); // answers may wait before a lost connection
    if (!event)
      return event.error();
    if (*event == frame_event::idle)
      return sent ? result<void>{} : result<void>{sent.error()};
    auto ok = *event == frame_event::need_bulk ? place_bulk() : take_answer();
    if (!ok)
      return ok;
  }
}

result<void> remote_server_link::place_bulk() {
  auto& in = session_->in();
  if (pending_.empty() || pending_.front().request != in.header().request
      || pending_.front().into.empty())
    return broken("unexpected bulk");
  std::vector<mutable_bytes> parts;
  for (auto& x : pending_.front().into)
    parts.push_back(x.mutable_bytes());
  if (auto ok = in.provide(std::move(parts)); !ok)
    return broken(std::to_string(in.header().bulk_bytes) + " bytes, not the rows requested");
  return {};
}

result<void> remote_server_link::take_answer() {
  auto& in = session_->in();
  if (static_cast<data_kind>(in.header().kind) == data_kind::refused) {
    auto end = decode_meta<outcome_meta>(in.meta(), "refused");
    return end && end->why.code != errc::none ? std::move(end->why)
                                              : broken("refused without a reason");
  }
  if (pending_.empty() || pending_.front().request != in.header().request
      || static_cast<data_kind>(in.header().kind) != pending_.front().answer)
    return broken("kind " + std::to_string(in.header().kind) + " to request "
                  + std::to_string(in.header().request));
  auto what = std::move(pending_.front());
  pending_.pop_front();
  if (what.answer == data_kind::mutate_ack) {
    pushes_ -= what.ends_push ? 1 : 0;
    push_bytes_ -= what.push_bytes;
    auto meta = decode_meta<ack_meta>(in.meta(), "mutate_ack");
    if (!meta || meta->answers.size() != what.items)
      return meta ? broken("wrong number of acknowledgements") : meta.error();
    take_acks(what, std::move(*meta));
    return {};
  }
  auto meta = decode_meta<blocks_meta>(in.meta(), "read_reply");
  if (!meta)
    return meta.error();
  bool whole = meta->blocks.size() == what.items;
  std::uint64_t bytes = 0; // an answer may claim what it does not bring
  for (std::size_t i = 0; whole && i < what.items; ++i) {
    whole = meta->blocks[i].bytes == what.into[i].size_bytes();
    bytes += meta->blocks[i].bytes;
  }
  whole &= bytes == in.header().bulk_bytes;
  if (meta->why.code == errc::none && !whole)
    return broken("wrong blocks");
  take_blocks(what, std::move(*meta));
  return {};
}

void remote_server_link::take_blocks(pending& what, blocks_meta meta) {
  if (!what.owned)
    return;
  --owned_reads_;
  if (meta.why.code != errc::none) {
    if (read_refusal_.code == errc::none)
      read_refusal_ = std::move(meta.why);
    return;
  }
  for (std::size_t i = 0; i < what.blocks.size(); ++i)
    what.blocks[i]->version = meta.blocks[i].version;
}

void remote_server_link::take_acks(const pending& what, ack_meta meta) {
  if (!what.owned)
    return;
  --owned_pushes_;
  for (auto& answer : meta.answers)
    if (answer.why.code != errc::none && push_refusal_.code == errc::none)
      push_refusal_ = std::move(answer.why);
}

} // namespace troupe
