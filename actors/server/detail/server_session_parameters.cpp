// Questions about parameters: reading and changing them, snapshots and restores.
#include <troupe/actors/server/detail/server_session.hpp>

#include <cstring>
#include <new>
#include <utility>

namespace troupe {

namespace {

failure no_store() {
  return make_failure(errc::wrong_state, "this process is not a parameter server");
}

} // namespace

result<void> server_session::on_read() {
  auto meta = decode_meta<read_meta>(in_.meta(), "read");
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
  answer_blocks(data_kind::read_reply, std::move(out), std::move(bulk));
  return {};
}

/// An item of a gather: its shard, and the place of its rows in the answer.
struct server_session::rows_wanted {
  std::shared_ptr<shard> from{};
  std::size_t rows = 0;
  std::size_t bytes = 0;
};

result<void> server_session::on_gather() {
  auto meta = decode_meta<gather_meta>(in_.meta(), "gather");
  if (!meta)
    return meta.error();
  std::vector<bulk_part> bulk;
  blocks_meta out;
  auto from = find_rows(*meta);
  bool sent = from && gather_in_place(*from);
  if (from && !sent)
    out = collect_rows(*from, bulk);
  else if (!from)
    out.why = std::move(from.error());
  tensors_.clear();
  if (!sent)
    answer_blocks(data_kind::gather_reply, std::move(out), std::move(bulk));
  return {};
}

result<std::vector<server_session::rows_wanted>> server_session::find_rows(
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

/// Copies the rows straight to where the channel sends them from; false when it has no place for
/// them or they can't be had: then nothing was sent.
bool server_session::gather_in_place(std::span<const rows_wanted> from) {
  if (deaf_ || wire_->place_bytes_max() == 0)
    return false;
  blocks_meta out;
  std::size_t bytes = 0;
  for (const auto& item : from) {
    out.blocks.push_back({0, item.bytes});
    bytes += item.bytes;
  }
  outgoing_frame head;
  head.kind = static_cast<std::uint8_t>(data_kind::gather_reply);
  head.request = in_.header().request;
  auto place = out_.place(*wire_, std::move(head), encode_meta(out).size(), bytes);
  if (!place)
    return false;
  auto rows = tensors_.at(0).as<std::int64_t>();
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
  out_.send_placed(*wire_, *place);
  return true;
}

blocks_meta server_session::collect_rows(std::span<const rows_wanted> from,
                                         std::vector<bulk_part>& bulk) {
  blocks_meta out;
  auto rows = tensors_.at(0).as<std::int64_t>();
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

result<mutation_answer> server_session::mutate(const mutation_piece& piece) {
  try {
    return options_.store ? options_.store->mutate(piece, from_)
                          : result<mutation_answer>{no_store()};
  } catch (const std::bad_alloc&) { // before anything changed
    mark(env_, "server.out_of_memory");
    return make_failure(errc::out_of_memory, "out of memory while updating variable "
                                               + std::to_string(value_of(piece.variable))
                                               + " shard " + std::to_string(value_of(piece.shard)));
  }
}

result<void> server_session::on_mutate() {
  if (!in_.viewed().empty())
    pieces_ = pieces_in(std::exchange(push_, {}), in_.viewed());
  ack_meta out;
  bool fenced = false;
  for (const auto& piece : pieces_) {
    piece_answer one;
    auto done = mutate(piece);
    if (done) {
      one.duplicate = done->duplicate ? 1 : 0;
      one.version = done->version;
    } else {
      one.why = std::move(done.error());
      fenced = fenced || one.why.code == errc::fenced;
    }
    out.answers.push_back(std::move(one));
  }
  pieces_.clear();
  answer(data_kind::mutate_ack, encode_meta(std::move(out)));
  if (fenced)
    end_within(std::chrono::seconds{1});
  return {};
}

result<void> server_session::on_read_snapshot() {
  auto meta = decode_meta<read_snapshot_meta>(in_.meta(), "read_snapshot");
  if (!meta)
    return meta.error();
  snapshot_meta out;
  std::vector<bulk_part> bulk;
  auto part = options_.store ? options_.store->read_snapshot(meta->snapshot, meta->from.variable,
                                                             meta->from.shard, meta->part)
                             : result<snapshot_piece>{no_store()};
  if (part) {
    out.type = part->rows.type();
    out.shape = part->rows.shape();
    out.applies = part->applies;
    out.rate = rate_meta::of(part->rate);
    bulk.push_back(bulk_of(part->rows));
  } else {
    out.why = std::move(part.error());
  }
  answer(data_kind::snapshot_reply, encode_meta(std::move(out)), std::move(bulk));
  return {};
}

result<void> server_session::on_restore() {
  auto meta = decode_meta<restore_meta>(in_.meta(), "restore");
  if (!meta)
    return meta.error();
  auto all = std::exchange(tensors_, {});
  const auto& to = meta->to;
  auto rate = meta->rate.value();
  if (!options_.store)
    answer_done(no_store());
  else if (meta->only_check != 0)
    answer_done(options_.store->check_restore(to.variable, to.shard, meta->type, meta->shape,
                                              meta->slots, rate));
  else
    answer_done(options_.store->restore(to.variable, to.shard, all[0], std::span{all}.subspan(1),
                                        meta->applies, rate));
  return {};
}

result<void> server_session::on_stats() {
  answer(data_kind::stats_reply,
         encode_meta(options_.store ? options_.store->stats() : store_stats{}));
  return {};
}

} // namespace troupe
