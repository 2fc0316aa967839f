#include <troupe/actors/data_plane/server_rpc.hpp>

#include <utility>

namespace troupe {

result<std::unique_ptr<server_rpc>> server_rpc::connect(const environment& env,
                                                        const data_peer& peer, time_point deadline,
                                                        duration answer_max) {
  auto session = data_session::open(env, peer, deadline);
  if (!session)
    return session.error();
  return std::unique_ptr<server_rpc>{new server_rpc{env, std::move(*session), answer_max}};
}

server_rpc::server_rpc(const environment& env, std::unique_ptr<data_session> session,
                       duration answer_max)
  : env_{env},
    session_{std::move(session)},
    poller_{env.transport.make_poller()},
    answer_max_{answer_max} {}

server_rpc::~server_rpc() {
  if (session_)
    poller_->forget(session_->wire());
}

result<server_rpc::answer> server_rpc::call(data_kind kind, std::string meta,
                                            std::vector<bulk_part> bulk, data_kind expected) {
  if (!session_)
    return make_failure(errc::connection_lost,
                        "the channel to the server was closed in an earlier call");
  outgoing_frame frame;
  frame.kind = static_cast<std::uint8_t>(kind);
  frame.request = session_->next_request();
  frame.meta = std::move(meta);
  frame.bulk = std::move(bulk);
  auto request = frame.request;
  if (auto ok = session_->out().push(std::move(frame)); !ok)
    return ok.error(); // too large: nothing was sent
  auto got = wait_answer(request, expected);
  if (!got) {
    poller_->forget(session_->wire());
    session_.reset();
  }
  return got;
}

result<server_rpc::answer> server_rpc::wait_answer(std::uint64_t request, data_kind expected) {
  auto deadline = after(env_.clock.now(), answer_max_);
  auto& in = session_->in();
  answer out;
  for (auto moved = session_->moved_bytes();;) {
    auto sent = session_->out().pump(session_->wire());
    auto event = in.pump(session_->wire());
    if (!event)
      return event.error();
    if (*event == frame_event::idle) {
      if (!sent)
        return sent.error();
      const auto now = env_.clock.now();
      if (const auto seen = session_->moved_bytes(); std::exchange(moved, seen) != seen)
        deadline = after(now, answer_max_); // it works
      if (now >= deadline)
        return make_failure(errc::deadline, session_->wire().peer() + ": no answer in time: for "
                                              + std::to_string(to_ms(answer_max_))
                                              + " ms it has neither received nor sent data");
      poller_->watch(session_->wire(), !*sent);
      poller_->wait(deadline);
      continue;
    }
    if (in.header().request != request || static_cast<data_kind>(in.header().kind) != expected)
      return make_failure(errc::bad_frame, session_->wire().peer() + ": answer of kind "
                                             + std::to_string(in.header().kind));
    if (*event == frame_event::complete) {
      out.meta = in.take_meta();
      return out;
    }
    out.bulk = tensor{dtype::u8, {static_cast<std::int64_t>(in.header().bulk_bytes)}};
    if (auto ok = in.provide({out.bulk.mutable_bytes()}); !ok)
      return ok.error();
  }
}

result<void> server_rpc::call_done(data_kind kind, std::string meta, std::vector<bulk_part> bulk) {
  auto got = call(kind, std::move(meta), std::move(bulk), data_kind::done);
  if (!got)
    return got.error();
  auto end = decode_meta<outcome_meta>(got->meta, "done");
  if (!end)
    return end.error();
  return end->why.code == errc::none ? result<void>{} : result<void>{std::move(end->why)};
}

result<void> server_rpc::put_blob(const blob_key& key, std::string bytes) {
  auto kept = std::make_shared<const std::string>(std::move(bytes));
  std::vector<bulk_part> bulk{{std::as_bytes(std::span{*kept}), kept}};
  return call_done(data_kind::put_blob, encode_meta(key), std::move(bulk));
}

result<std::string> server_rpc::get_blob(const blob_key& key) {
  auto got = call(data_kind::get_blob, encode_meta(key), {}, data_kind::blob_reply);
  if (!got)
    return got.error();
  auto end = decode_meta<outcome_meta>(got->meta, "blob_reply");
  if (!end)
    return end.error();
  if (end->why.code != errc::none)
    return std::move(end->why);
  if (!got->bulk.defined())
    return std::string{};
  return std::string{reinterpret_cast<const char*>(got->bulk.bytes().data()),
                     got->bulk.size_bytes()};
}

result<void> server_rpc::drop_blob(const blob_key& key) {
  return call_done(data_kind::drop_blob, encode_meta(key), {});
}

result<snapshot_piece> server_rpc::read_snapshot(snapshot_id snapshot, variable_id variable,
                                                 shard_index shard, std::uint32_t part) {
  auto got = call(data_kind::read_snapshot,
                  encode_meta(read_snapshot_meta{snapshot, {variable, shard}, part}), {},
                  data_kind::snapshot_reply);
  if (!got)
    return got.error();
  auto meta = decode_meta<snapshot_meta>(got->meta, "snapshot_reply");
  if (!meta)
    return meta.error();
  if (meta->why.code != errc::none)
    return std::move(meta->why);
  auto bytes = got->bulk.size_bytes();
  if (!is_sane(meta->shape, meta->type)
      || static_cast<std::uint64_t>(count_of(meta->shape)) * size_of(meta->type) != bytes)
    return make_failure(errc::bad_frame, "snapshot_reply: " + std::to_string(bytes) + " bytes for "
                                           + to_string(meta->type) + to_string(meta->shape));
  if (bytes == 0)
    return snapshot_piece{tensor{meta->type, meta->shape}, meta->applies, meta->rate.value()};
  auto kept = std::make_shared<tensor>(std::move(got->bulk));
  auto* data = kept->mutable_bytes().data();
  return snapshot_piece{tensor{meta->type, meta->shape, std::move(kept), data}, meta->applies,
                        meta->rate.value()};
}

result<void> server_rpc::restore(variable_id variable, shard_index shard, const tensor& values,
                                 std::span<const tensor> slots, std::uint64_t applies,
                                 std::optional<float> rate) {
  std::vector<bulk_part> bulk{bulk_of(values)};
  for (const auto& slot : slots) {
    if (slot.type() != values.type() || slot.shape() != values.shape())
      return make_failure(errc::shape_mismatch, "restore of shard "
                                                  + std::to_string(value_of(shard)) + ": a slot of "
                                                  + to_string(slot.type()) + to_string(slot.shape())
                                                  + " beside values of " + to_string(values.type())
                                                  + to_string(values.shape()));
    bulk.push_back(bulk_of(slot));
  }
  restore_meta meta{{variable, shard},
                    applies,
                    values.type(),
                    values.shape(),
                    static_cast<std::uint32_t>(slots.size()),
                    rate_meta::of(rate),
                    0};
  return call_done(data_kind::restore, encode_meta(std::move(meta)), std::move(bulk));
}

result<void> server_rpc::check_restore(variable_id variable, shard_index shard, dtype type,
                                       const shape_t& shape, std::size_t slots,
                                       std::optional<float> rate) {
  restore_meta meta{{variable, shard},   0, type, shape, static_cast<std::uint32_t>(slots),
                    rate_meta::of(rate), 1};
  return call_done(data_kind::restore, encode_meta(std::move(meta)), {});
}

result<store_stats> server_rpc::stats() {
  auto got = call(data_kind::stats, {}, {}, data_kind::stats_reply);
  return got ? decode_meta<store_stats>(got->meta, "stats_reply") : got.error();
}

} // namespace troupe
