// Memory for the bulk of frames that come in. Whatever a meta says is checked before anything is
// allocated.
#include <troupe/actors/server/detail/server_session.hpp>

#include <utility>

namespace troupe {

namespace {

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

/// Memory for the frame's bulk, or for the lack of one.
result<void> server_session::place_bulk() {
  const auto bytes = in_.header().bulk_bytes;
  placed_ = true;
  std::vector<mutable_bytes> parts;
  result<void> ok;
  switch (welcomed_ ? static_cast<data_kind>(in_.header().kind) : data_kind::hello) {
    case data_kind::mutate:
      ok = place_push(parts);
      if (parts.empty())
        return ok;
      break;
    case data_kind::gather: ok = place_rows(parts); break;
    case data_kind::put_blob: ok = place_blob(parts); break;
    case data_kind::restore: ok = place_restored(parts); break;
    default:
      if (bytes > 0)
        ok = make_failure(errc::bad_frame,
                          "bulk in a frame of kind " + std::to_string(in_.header().kind));
  }
  if (!ok)
    return ok;
  return bytes > 0 ? in_.provide(std::move(parts)) : result<void>{};
}

/// A push stays in the channel's memory, where it has one, or goes to `parts`.
result<void> server_session::place_push(std::vector<mutable_bytes>& parts) {
  const auto bytes = in_.header().bulk_bytes;
  auto meta = decode_meta<mutate_meta>(in_.meta(), "mutate");
  if (!meta)
    return meta.error();
  if (bytes > 0 && in_.may_view(*wire_)) {
    if (auto ok = check_pieces(*meta, bytes); !ok)
      return ok;
    push_ = std::move(*meta);
    in_.view();
  } else {
    auto staged = stage_pieces(*meta, bytes, pool_);
    if (!staged)
      return staged.error();
    pieces_ = std::move(*staged);
    parts = parts_of(pieces_);
  }
  receiving_push_ = true;
  return {};
}

/// The row numbers of a gather.
result<void> server_session::place_rows(std::vector<mutable_bytes>& parts) {
  auto meta = decode_meta<gather_meta>(in_.meta(), "gather");
  if (!meta)
    return meta.error();
  auto rows = index_count(*meta, in_.header().bulk_bytes);
  if (!rows)
    return rows.error();
  tensors_.assign(1, pool_.make(dtype::i64, {static_cast<std::int64_t>(*rows)}));
  parts.push_back(tensors_[0].mutable_bytes());
  return {};
}

result<void> server_session::place_blob(std::vector<mutable_bytes>& parts) {
  const auto bytes = in_.header().bulk_bytes;
  if (options_.blobs && bytes > options_.blobs->bytes_max())
    return make_failure(errc::too_large, "a blob of " + std::to_string(bytes) + " bytes, at most "
                                           + std::to_string(options_.blobs->bytes_max())
                                           + " are allowed");
  blob_.resize(options_.blobs ? bytes : 0);
  parts.push_back(std::as_writable_bytes(std::span{blob_}));
  return {};
}

/// The values of a restore, then its slots.
result<void> server_session::place_restored(std::vector<mutable_bytes>& parts) {
  auto meta = decode_meta<restore_meta>(in_.meta(), "restore");
  if (!meta)
    return meta.error();
  if (!is_sane(meta->shape, meta->type) || meta->slots > 2)
    return make_failure(errc::bad_frame, "restore: " + std::to_string(meta->slots) + " slots of "
                                           + to_string(meta->type) + to_string(meta->shape));
  const auto each = static_cast<std::uint64_t>(count_of(meta->shape)) * size_of(meta->type);
  const auto expected = meta->only_check != 0 ? 0 : each * (1 + meta->slots);
  if (expected != in_.header().bulk_bytes)
    return wrong_size("restore", in_.header().bulk_bytes, expected);
  tensors_.clear();
  if (meta->only_check != 0)
    return {};
  for (std::uint32_t i = 0; i < 1 + meta->slots; ++i) {
    tensors_.emplace_back(meta->type, meta->shape);
    parts.push_back(tensors_.back().mutable_bytes());
  }
  return {};
}

} // namespace troupe
