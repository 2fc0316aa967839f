// The second half of server_lane.cpp: what each kind of frame asks for.
#include <troupe/actors/server/detail/server_session.hpp>

#include <cstring>
#include <new>
#include <utility>

namespace troupe {

namespace {

failure no_store() {
  return make_failure(errc::wrong_state, "this process is not a parameter server");
}

failure wrong_size(const char* what, std::uint64_t given, std::uint64_t expected) {
  return make_failure(errc::bad_frame, std::string{what} + ": " + std::to_string(given)
                                         + " bytes of bulk, expected " + std::to_string(expected));
}

result<std::uint64_t> index_count(const gather_meta& meta, std::uint64_t bulk_bytes) {
  std::uint64_t rows = 0;
  for (const auto& item : meta.items) {
    if (item.rows > bulk_bytes / 8 - rows)
      return wrong_size("gather", bulk_bytes, (rows + item.rows) * 8);
    rows += item.rows;
  }
  if (rows * 8 != bulk_bytes)
    return wrong_size("gather", bulk_bytes, rows * 8);
  return rows;
}

} // namespace

// A push stays in the channel's memory, where it has one, or goes to `parts`.
result<void> server_lane::place_push(session& s, std::vector<mutable_bytes>& parts) {
  auto bytes = s.in.header().bulk_bytes;
  auto meta = decode_meta<mutate_meta>(s.in.meta(), "mutate");
  if (!meta)
    return meta.error();
  if (bytes > 0 && s.in.may_view(*s.wire)) {
    if (auto ok = check_pieces(*meta, bytes); !ok)
      return ok;
    s.push = std::move(*meta);
    s.in.view();
  } else {
    auto staged = stage_pieces(*meta, bytes, pool_);
    if (!staged)
      return staged.error();
    s.pieces = std::move(*staged);
    parts = parts_of(s.pieces);
  }
  s.receiving_push = true;
  return {};
}

// Memory for the frame's bulk, or for the lack of one. Whatever the meta says is checked before
// anything is allocated.
result<void> server_lane::place_bulk(session& s) {
  auto bytes = s.in.header().bulk_bytes;
  s.placed = true;
  std::vector<mutable_bytes> parts;
  switch (s.welcomed ? static_cast<data_kind>(s.in.header().kind) : data_kind::hello) {
    case data_kind::mutate:
      if (auto ok = place_push(s, parts); !ok || parts.empty())
        return ok;
      break;
    case data_kind::gather: {
      auto meta = decode_meta<gather_meta>(s.in.meta(), "gather");
      if (!meta)
        return meta.error();
      auto rows = index_count(*meta, bytes);
      if (!rows)
        return rows.error();
      s.tensors.assign(1, pool_.make(dtype::i64, {static_cast<std::int64_t>(*rows)}));
      parts.push_back(s.tensors[0].mutable_bytes());
      break;
    }
    case data_kind::put_blob:
      if (options_.blobs && bytes > options_.blobs->bytes_max())
        return make_failure(errc::too_large,
                            "a blob of " + std::to_string(bytes) + " bytes, at most "
                              + std::to_string(options_.blobs->bytes_max()) + " are allowed");
      s.blob.resize(options_.blobs ? bytes : 0);
      parts.push_back(std::as_writable_bytes(std::span{s.blob}));
      break;
    case data_kind::restore: {
      auto meta = decode_meta<restore_meta>(s.in.meta(), "restore");
      if (!meta)
        return meta.error();
      if (!is_sane(meta->shape, meta->type) || meta->slots > 2)
        return make_failure(errc::bad_frame, "restore: " + std::to_string(meta->slots)
                                               + " slots of " + to_string(meta->type)
                                               + to_string(meta->shape));
      auto each = static_cast<std::uint64_t>(count_of(meta->shape)) * size_of(meta->type);
      auto expected = meta->only_check != 0 ? 0 : each * (1 + meta->slots);
      if (expected != bytes)
        return wrong_size("restore", bytes, expected);
      s.tensors.clear();
      if (meta->only_check != 0)
        break;
      for (std::uint32_t i = 0; i < 1 + meta->slots; ++i) {
        s.tensors.emplace_back(meta->type, meta->shape);
        parts.push_back(s.tensors.back().mutable_bytes());
      }
      break;
    }
    default:
      if (bytes > 0)
        return make_failure(errc::bad_frame,
                            "bulk in a frame of kind " + std::to_string(s.in.header().kind));
  }
  return bytes > 0 ? s.in.provide(std::move(parts)) : result<void>{};
}

result<void> server_lane::handle(session& s) {
  auto kind = static_cast<data_kind>(s.in.header().kind);
  if (s.welcomed == (kind == data_kind::hello))
    return make_failure(errc::bad_frame,
                        "a frame of kind " + std::to_string(s.in.header().kind)
                          + (s.welcomed ? " after the hello" : " before the hello"));
  if (s.welcomed && options_.store && s.term < options_.store->term())
    return make_failure(errc::superseded, "a channel of term " + std::to_string(value_of(s.term))
                                            + ", this server follows term "
                                            + std::to_string(value_of(options_.store->term())));
  if (!s.placed)
    if (auto ok = place_bulk(s); !ok)
      return ok;
  s.placed = false;
  s.receiving_push = false;
  if (std::exchange(s.no_memory, false)) {
    answer_no_memory(s);
    return {};
  }
  switch (kind) {
    case data_kind::hello: return on_hello(s);
    case data_kind::read: return on_read(s);
    case data_kind::gather: return on_gather(s);
    case data_kind::mutate: return on_mutate(s);
    case data_kind::put_blob: return on_put_blob(s);
    case data_kind::get_blob: return on_get_blob(s);
    case data_kind::drop_blob: return on_drop_blob(s);
    case data_kind::read_cut: return on_read_cut(s);
    case data_kind::restore: return on_restore(s);
    case data_kind::stats: return on_stats(s);
    default:
      return make_failure(errc::bad_frame, "a frame of kind " + std::to_string(s.in.header().kind)
                                             + ", which only servers may send");
  }
}

// -- answers
// ------------------------------------------------------------------------------------------------------------

void server_lane::answer(session& s, data_kind kind, std::string meta,
                         std::vector<bulk_part> bulk) {
  if (s.deaf)
    return;
  outgoing_frame frame;
  frame.kind = static_cast<std::uint8_t>(kind);
  frame.request = s.in.header().request;
  frame.meta = std::move(meta);
  frame.bulk = std::move(bulk);
  if (auto ok = s.out.push(std::move(frame)); !ok) {
    trace(env_, "server.answer_dropped", {{"peer", s.wire->peer()}, {"why", ok.error().text}});
    s.ending = true; // the peer must not wait for ever
    s.until = env_.clock.now();
  }
}

void server_lane::answer_done(session& s, result<void> how) {
  outcome_meta meta;
  if (!how)
    meta.why = std::move(how.error());
  answer(s, data_kind::done, encode_meta(std::move(meta)));
}

void server_lane::answer_blocks(session& s, data_kind kind, blocks_meta meta,
                                std::vector<bulk_part> bulk) {
  std::uint64_t bytes = 0;
  for (const auto& part : bulk)
    bytes += part.bytes.size();
  if (meta.why.code == errc::none && bytes > options_.frame_bytes_max)
    meta.why = make_failure(errc::too_large,
                            "an answer of " + std::to_string(bytes) + " bytes, at most "
                              + std::to_string(options_.frame_bytes_max) + " fit in a frame");
  if (meta.why.code != errc::none) {
    meta.blocks.clear();
    bulk.clear();
  }
  answer(s, kind, encode_meta(std::move(meta)), std::move(bulk));
}

// The call of the frame that is complete fails.
void server_lane::answer_no_memory(session& s) {
  const auto& header = s.in.header();
  outcome_meta end{make_failure(
    errc::out_of_memory, std::string{options_.store ? "this server" : "the coordinator"}
                           + " is out of memory for a call of kind " + std::to_string(header.kind)
                           + " with " + std::to_string(header.bulk_bytes) + " bytes")};
  switch (static_cast<data_kind>(header.kind)) {
    case data_kind::read:
      return answer(s, data_kind::read_reply, encode_meta(blocks_meta{std::move(end.why), {}}));
    case data_kind::gather:
      return answer(s, data_kind::gather_reply, encode_meta(blocks_meta{std::move(end.why), {}}));
    case data_kind::mutate: {
      ack_meta all;
      if (auto meta = decode_meta<mutate_meta>(s.in.meta(), "mutate"))
        all.answers.resize(meta->pieces.size(), piece_answer{0, 0, end.why});
      return answer(s, data_kind::mutate_ack, encode_meta(std::move(all)));
    }
    case data_kind::read_cut: {
      cut_meta piece;
      piece.why = std::move(end.why);
      return answer(s, data_kind::cut_reply, encode_meta(std::move(piece)));
    }
    case data_kind::get_blob: return answer(s, data_kind::blob_reply, encode_meta(std::move(end)));
    case data_kind::put_blob:
    case data_kind::drop_blob:
    case data_kind::restore: return answer(s, data_kind::done, encode_meta(std::move(end)));
    default: s.ended = true;
  }
}

// -- parameters
// ---------------------------------------------------------------------------------------------------------

result<void> server_lane::on_read(session& s) {
  auto meta = decode_meta<read_meta>(s.in.meta(), "read");
  if (!meta)
    return meta.error();
  blocks_meta out;
  std::vector<bulk_part> bulk;
  if (!options_.store)
    out.why = no_store();
  for (const auto& at : meta->shards) {
    if (out.why.code != errc::none)
      break;
    auto now = options_.store->read(at.variable, at.shard);
    if (!now) {
      out.why = std::move(now.error());
      break;
    }
    out.blocks.push_back({now->version, now->values.size_bytes()});
    bulk.push_back(bulk_of(now->values)); // the snapshot is kept until it is out
  }
  answer_blocks(s, data_kind::read_reply, std::move(out), std::move(bulk));
  return {};
}

/// An item of a gather: its shard, and the place of its rows in the answer.
struct server_lane::rows_wanted {
  std::shared_ptr<shard> from{};
  std::size_t rows = 0;
  std::size_t bytes = 0;
};

result<void> server_lane::on_gather(session& s) {
  auto meta = decode_meta<gather_meta>(s.in.meta(), "gather");
  if (!meta)
    return meta.error();
  std::vector<bulk_part> bulk;
  blocks_meta out;
  auto from = find_rows(*meta);
  bool sent = from && gather_in_place(s, *from);
  if (from && !sent)
    out = collect_rows(s, *from, bulk);
  else if (!from)
    out.why = std::move(from.error());
  s.tensors.clear();
  if (!sent)
    answer_blocks(s, data_kind::gather_reply, std::move(out), std::move(bulk));
  return {};
}

result<std::vector<server_lane::rows_wanted>> server_lane::find_rows(
  const gather_meta& meta) const {
  if (!options_.store)
    return no_store();
  std::vector<rows_wanted> out;
  std::uint64_t bytes = 0;
  for (const auto& item : meta.items) {
    auto at = options_.store->get(item.from.variable, item.from.shard);
    if (!at)
      return at.error();
    const auto& spec = (*at)->spec();
    auto row_bytes = static_cast<std::uint64_t>(spec.row_size()) * size_of(spec.type);
    if (row_bytes > 0 && item.rows > (options_.frame_bytes_max - bytes) / row_bytes)
      return make_failure(
        errc::too_large,
        "gather: more than " + std::to_string(options_.frame_bytes_max) + " bytes of rows");
    bytes += item.rows * row_bytes;
    out.push_back({std::move(*at), static_cast<std::size_t>(item.rows),
                   static_cast<std::size_t>(item.rows * row_bytes)});
  }
  return out;
}

// Copies the rows straight to where the channel sends them from; false when it has no place for
// them or they can't be had: then nothing was sent.
bool server_lane::gather_in_place(session& s, std::span<const rows_wanted> from) {
  if (s.deaf || s.wire->place_bytes_max() == 0)
    return false;
  blocks_meta out;
  std::size_t bytes = 0;
  for (const auto& item : from) {
    out.blocks.push_back({0, item.bytes});
    bytes += item.bytes;
  }
  outgoing_frame head;
  head.kind = static_cast<std::uint8_t>(data_kind::gather_reply);
  head.request = s.in.header().request;
  auto place = s.out.place(*s.wire, std::move(head), encode_meta(out).size(), bytes);
  if (!place)
    return false;
  auto rows = s.tensors.at(0).as<std::int64_t>();
  auto to = place->bulk;
  for (std::size_t i = 0; i < from.size(); ++i) {
    auto version =
      options_.store->gather(*from[i].from, rows.first(from[i].rows), to.first(from[i].bytes));
    if (!version)
      return false;
    out.blocks[i].version = *version;
    rows = rows.subspan(from[i].rows);
    to = to.subspan(from[i].bytes);
  }
  auto meta = encode_meta(std::move(out)); // numbers take as much room whatever they are
  std::memcpy(place->meta.data(), meta.data(), meta.size());
  s.out.send_placed(*s.wire, *place);
  return true;
}

blocks_meta server_lane::collect_rows(session& s, std::span<const rows_wanted> from,
                                      std::vector<bulk_part>& bulk) {
  blocks_meta out;
  auto rows = s.tensors.at(0).as<std::int64_t>();
  for (const auto& item : from) {
    auto got = pool_.make(dtype::u8, {static_cast<std::int64_t>(item.bytes)});
    auto version = options_.store->gather(*item.from, rows.first(item.rows), got.mutable_bytes());
    if (!version) {
      out.why = std::move(version.error());
      return out;
    }
    rows = rows.subspan(item.rows);
    out.blocks.push_back({*version, got.size_bytes()});
    bulk.push_back(bulk_of(got));
  }
  return out;
}

result<mutation_answer> server_lane::mutate(const mutation_piece& piece, const origin& from) {
  try {
    return options_.store ? options_.store->mutate(piece, from)
                          : result<mutation_answer>{no_store()};
  } catch (const std::bad_alloc&) { // before anything changed
    mark(env_, "server.out_of_memory");
    return make_failure(errc::out_of_memory, "out of memory while updating variable "
                                               + std::to_string(value_of(piece.variable))
                                               + " shard " + std::to_string(value_of(piece.shard)));
  }
}

result<void> server_lane::on_mutate(session& s) {
  if (!s.in.viewed().empty())
    s.pieces = pieces_in(std::exchange(s.push, {}), s.in.viewed());
  ack_meta out;
  bool fenced = false;
  for (const auto& piece : s.pieces) {
    piece_answer one;
    auto done = mutate(piece, s.from);
    if (done) {
      one.duplicate = done->duplicate ? 1 : 0;
      one.version = done->version;
    } else {
      one.why = std::move(done.error());
      fenced = fenced || one.why.code == errc::fenced;
    }
    out.answers.push_back(std::move(one));
  }
  s.pieces.clear();
  answer(s, data_kind::mutate_ack, encode_meta(std::move(out)));
  if (fenced) {
    s.ending = true;
    s.until = after(env_.clock.now(), std::chrono::seconds{1});
  }
  return {};
}

result<void> server_lane::on_read_cut(session& s) {
  auto meta = decode_meta<read_cut_meta>(s.in.meta(), "read_cut");
  if (!meta)
    return meta.error();
  cut_meta out;
  std::vector<bulk_part> bulk;
  auto part = options_.store ? options_.store->read_cut(meta->cut, meta->from.variable,
                                                        meta->from.shard, meta->part)
                             : result<cut_piece>{no_store()};
  if (part) {
    out.type = part->rows.type();
    out.shape = part->rows.shape();
    out.applies = part->applies;
    out.rate = rate_meta::of(part->rate);
    bulk.push_back(bulk_of(part->rows));
  } else {
    out.why = std::move(part.error());
  }
  answer(s, data_kind::cut_reply, encode_meta(std::move(out)), std::move(bulk));
  return {};
}

result<void> server_lane::on_restore(session& s) {
  auto meta = decode_meta<restore_meta>(s.in.meta(), "restore");
  if (!meta)
    return meta.error();
  auto all = std::exchange(s.tensors, {});
  const auto& to = meta->to;
  auto rate = meta->rate.value();
  if (!options_.store)
    answer_done(s, no_store());
  else if (meta->only_check != 0)
    answer_done(s, options_.store->check_restore(to.variable, to.shard, meta->type, meta->shape,
                                                 meta->slots, rate));
  else
    answer_done(s, options_.store->restore(to.variable, to.shard, all[0], std::span{all}.subspan(1),
                                           meta->applies, rate));
  return {};
}

result<void> server_lane::on_stats(session& s) {
  answer(s, data_kind::stats_reply,
         encode_meta(options_.store ? options_.store->stats() : store_stats{}));
  return {};
}

} // namespace troupe
