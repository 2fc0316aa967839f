#include <troupe/actors/data_caller.hpp>

namespace troupe {

namespace {

result<void> outcome_of(const result<std::string>& meta, const char* what) {
  if (!meta)
    return meta.error();
  auto answer = decode_meta<outcome_meta>(*meta, what);
  if (!answer)
    return answer.error();
  return answer->why.code == errc::none ? result<void>{} : result<void>{answer->why};
}

} // namespace

data_caller::data_caller(const environment& env, std::unique_ptr<data_session> session, std::string address,
                         duration reply_max)
  : env_{env}, session_{std::move(session)}, poller_{env.transport.make_poller()}, address_{std::move(address)},
    reply_max_{reply_max} {}

data_caller::~data_caller() = default;

result<std::unique_ptr<data_caller>> data_caller::open(const environment& env, const data_peer& peer,
                                                       duration reply_max) {
  auto session = data_session::open(env, peer, after(env.clock.now(), reply_max));
  if (!session)
    return session.error();
  return std::unique_ptr<data_caller>{new data_caller{env, std::move(*session), peer.address, reply_max}};
}

result<std::string> data_caller::ask(data_kind question, std::string meta, std::vector<bulk_part> bulk,
                                     data_kind answer, const place& to) {
  outgoing_frame frame;
  frame.kind = static_cast<std::uint8_t>(question);
  frame.request = session_->next_request();
  frame.meta = std::move(meta);
  frame.bulk = std::move(bulk);
  auto request = frame.request;
  if (auto ok = session_->out().push(std::move(frame)); !ok)
    return ok.error();
  auto out = exchange(request, answer, to);
  usable_ = usable_ && static_cast<bool>(out);
  return out;
}

result<std::string> data_caller::exchange(std::uint64_t request, data_kind answer, const place& to) {
  auto deadline = after(env_.clock.now(), reply_max_);
  auto& in = session_->in();
  for (;;) {
    if (auto sent = session_->out().pump(session_->wire()); !sent)
      return sent.error();
    auto event = in.pump(session_->wire());
    if (!event)
      return event.error();
    if (*event == frame_event::need_bulk) {
      if (!to) {
        in.discard();
        continue;
      }
      auto where = to(in.meta(), in.header().bulk_bytes);
      if (!where)
        return where.error();
      if (auto ok = in.provide({*where}); !ok)
        return ok.error();
      continue;
    }
    if (*event == frame_event::complete)
      break;
    if (env_.clock.now() >= deadline)
      return make_failure(errc::deadline, address_ + ": no answer in " + std::to_string(to_ms(reply_max_)) + " ms");
    poller_->watch(session_->wire(), !session_->out().empty());
    poller_->wait(deadline);
  }
  if (in.header().request != request || in.header().kind != static_cast<std::uint8_t>(answer))
    return make_failure(errc::bad_frame, address_ + ": frame kind " + std::to_string(in.header().kind) + " of request "
                                           + std::to_string(in.header().request) + " in answer to request "
                                           + std::to_string(request));
  return in.take_meta();
}

// --- checkpoints ------------------------------------------------------------------------------------------------

result<cut_piece> remote_server_vault::read_cut(cut_id cut, variable_id variable, shard_index shard,
                                                std::uint32_t part) {
  cut_piece out;
  auto place = [&](std::string_view bytes, std::uint64_t bulk_bytes) -> result<mutable_bytes> {
    auto meta = decode_meta<cut_meta>(bytes, "cut_reply");
    if (!meta)
      return meta.error();
    if (!is_sane(meta->shape, meta->type)
        || static_cast<std::uint64_t>(count_of(meta->shape)) * size_of(meta->type) != bulk_bytes)
      return make_failure(errc::bad_frame, "cut_reply: " + std::to_string(bulk_bytes) + " bytes for "
                                             + to_string(meta->type) + to_string(meta->shape));
    out.rows = tensor{meta->type, meta->shape};
    return out.rows.mutable_bytes();
  };
  read_cut_meta question{.cut = cut, .from = {.variable = variable, .shard = shard}, .part = part};
  auto bytes = caller_->ask(data_kind::read_cut, encode_meta(question), {}, data_kind::cut_reply, place);
  if (!bytes)
    return bytes.error();
  auto meta = decode_meta<cut_meta>(*bytes, "cut_reply");
  if (!meta)
    return meta.error();
  if (meta->why.code != errc::none)
    return meta->why;
  if (!out.rows.defined()) // no bulk: there are no rows
    out.rows = tensor{meta->type, meta->shape};
  out.applies = meta->applies;
  return out;
}

result<void> remote_server_vault::restore(variable_id variable, shard_index shard, const tensor& values,
                                          std::span<const tensor> slots, std::uint64_t applies) {
  restore_meta meta{.to = {.variable = variable, .shard = shard},
                    .applies = applies,
                    .type = values.type(),
                    .shape = values.shape(),
                    .slots = static_cast<std::uint32_t>(slots.size())};
  std::vector<bulk_part> bulk{bulk_of(values)};
  for (const auto& slot : slots)
    bulk.push_back(bulk_of(slot));
  return outcome_of(caller_->ask(data_kind::restore, encode_meta(meta), std::move(bulk), data_kind::done), "done");
}

// --- blobs ------------------------------------------------------------------------------------------------------

result<std::unique_ptr<data_caller>> blob_client::take() {
  {
    std::lock_guard lock{mutex_};
    if (!idle_.empty()) {
      auto out = std::move(idle_.back());
      idle_.pop_back();
      return out;
    }
  }
  return data_caller::open(env_, peer_, reply_max_);
}

void blob_client::give_back(std::unique_ptr<data_caller> caller) {
  if (!caller->usable())
    return;
  std::lock_guard lock{mutex_};
  idle_.push_back(std::move(caller));
}

result<std::string> blob_client::get(const blob_key& key, std::uint64_t size_bytes) {
  auto caller = take();
  if (!caller)
    return caller.error();
  std::string out;
  auto place = [&](std::string_view, std::uint64_t bulk_bytes) -> result<mutable_bytes> {
    if (bulk_bytes != size_bytes)
      return make_failure(errc::corrupt, "blob of closure " + std::to_string(key.closure.seq) + " has "
                                           + std::to_string(bulk_bytes) + " bytes, "
                                           + std::to_string(size_bytes) + " were announced");
    out.resize(size_bytes);
    return std::as_writable_bytes(std::span{out});
  };
  auto ok = outcome_of((*caller)->ask(data_kind::get_blob, encode_meta(key), {}, data_kind::blob_reply, place),
                       "blob_reply");
  give_back(std::move(*caller));
  if (!ok)
    return ok.error();
  return out;
}

result<void> blob_client::put(const blob_key& key, std::string bytes) {
  auto caller = take();
  if (!caller)
    return caller.error();
  auto owned = std::make_shared<const std::string>(std::move(bytes));
  std::vector<bulk_part> bulk;
  bulk.push_back({std::as_bytes(std::span{*owned}), owned});
  auto ok = outcome_of((*caller)->ask(data_kind::put_blob, encode_meta(key), std::move(bulk), data_kind::done), "done");
  give_back(std::move(*caller));
  return ok;
}

} // namespace troupe
