#include <troupe/actors/data_plane/parameter_protocol.hpp>

#include <cstring>

#include <troupe/core/mac.hpp>
#include <troupe/core/planted.hpp>

namespace troupe {

std::string hello_code(const hello_meta& hello, const std::string& token, hello_use use) {
  if (token.empty())
    return {};
  return message_code(token, hello.cluster + "\n" + to_string(hello.task) + "\n"
                               + std::to_string(hello.inc.nonce) + "\n"
                               + std::to_string(value_of(hello.term))
                               + (use == hello_use::link ? "\nlink" : "\ndata"));
}

namespace {

result<void> check_piece(const piece_meta& x, std::uint64_t bulk_bytes) {
  auto refuse = [](const std::string& what) {
    return make_failure(errc::bad_frame, "push: " + what);
  };
  if (x.kind > mutation_kind::set_learning_rate)
    return refuse("kind " + std::to_string(static_cast<unsigned>(x.kind)));
  if ((x.flags & ~piece_meta::all_flags) != 0)
    return refuse("flags " + std::to_string(x.flags));
  if (!is_sane(x.shape, x.type))
    return refuse("values of " + to_string(x.type) + to_string(x.shape));
  if ((x.flags & piece_meta::has_values) == 0 && !x.shape.empty())
    return refuse("a shape without values");
  if (x.rows > bulk_bytes / 8 || ((x.flags & piece_meta::has_indices) == 0 && x.rows != 0))
    return refuse(std::to_string(x.rows) + " indices in " + std::to_string(bulk_bytes) + " bytes");
  return {};
}

std::uint64_t bytes_of(const piece_meta& x) {
  std::uint64_t values = (x.flags & piece_meta::has_values) == 0
                           ? 0
                           : static_cast<std::uint64_t>(count_of(x.shape)) * size_of(x.type);
  return values + x.rows * 8;
}

} // namespace

result<void> check_pieces(const mutate_meta& meta, std::uint64_t bulk_bytes) {
  std::uint64_t left = bulk_bytes;
  for (const auto& x : meta.pieces) {
    if (auto ok = check_piece(x, bulk_bytes); !ok)
      return ok;
    auto bytes = bytes_of(x);
    if (bytes > left)
      return make_failure(errc::bad_frame,
                          "push: pieces of more than " + std::to_string(bulk_bytes) + " bytes");
    left -= bytes;
  }
  if (left != 0)
    return make_failure(errc::bad_frame,
                        "push: " + std::to_string(left) + " bytes of bulk too many");
  return {};
}

namespace {

mutation_piece piece_of(const piece_meta& x) {
  mutation_piece out;
  out.variable = x.to.variable;
  out.shard = x.to.shard;
  out.key = x.key;
  out.attempt = x.attempt;
  out.kind = x.kind;
  out.at_least_once = (x.flags & piece_meta::at_least_once) != 0;
  return out;
}

tensor copy_of(dtype type, shape_t shape, const_bytes from) {
  tensor out{type, std::move(shape)};
  if (!from.empty())
    std::memcpy(out.mutable_bytes().data(), from.data(), from.size());
  return out;
}

/// Values where they lie, if any bytes there are values and the processor can load them.
tensor values_in(const piece_meta& x, const_bytes from) {
  bool divides = x.kind == mutation_kind::scatter_div; // by what was checked before
  bool aligned = reinterpret_cast<std::uintptr_t>(from.data()) % size_of(x.type) == 0;
  if (divides || !aligned || from.empty())
    return copy_of(x.type, x.shape, from);
  auto* data = const_cast<std::byte*>(from.data()); // a piece's values are only read
  return tensor{x.type, x.shape, std::shared_ptr<void>{data, [](void*) {}}, data};
}

} // namespace

std::vector<mutation_piece> pieces_in(const mutate_meta& meta, const_bytes bulk) {
  std::vector<mutation_piece> out;
  out.reserve(meta.pieces.size());
  for (const auto& x : meta.pieces) {
    out.push_back(piece_of(x));
    auto values_bytes = static_cast<std::size_t>(bytes_of(x) - x.rows * 8);
    if ((x.flags & piece_meta::has_values) != 0)
      out.back().values = values_in(x, bulk.first(values_bytes));
    bulk = bulk.subspan(values_bytes);
    if ((x.flags & piece_meta::has_indices) != 0)
      out.back().indices = copy_of(dtype::i64, {static_cast<std::int64_t>(x.rows)},
                                   bulk.first(static_cast<std::size_t>(x.rows * 8)));
    bulk = bulk.subspan(static_cast<std::size_t>(x.rows * 8));
  }
  return out;
}

result<std::vector<mutation_piece>> stage_pieces(const mutate_meta& meta, std::uint64_t bulk_bytes,
                                                 tensor_pool& pool) {
  if (auto ok = check_pieces(meta, bulk_bytes); !ok)
    return ok.error();
  std::vector<mutation_piece> out;
  out.reserve(meta.pieces.size());
  for (const auto& x : meta.pieces) {
    out.push_back(piece_of(x));
    if ((x.flags & piece_meta::has_values) != 0)
      out.back().values = planted(planted_bug::half_a_push) ? tensor::zeros(x.type, x.shape)
                                                            : pool.make(x.type, x.shape);
    if ((x.flags & piece_meta::has_indices) != 0)
      out.back().indices = pool.make(dtype::i64, {static_cast<std::int64_t>(x.rows)});
  }
  return out;
}

std::vector<mutable_bytes> parts_of(std::vector<mutation_piece>& pieces) {
  std::vector<mutable_bytes> out;
  for (auto& piece : pieces)
    for (auto* x : {&piece.values, &piece.indices})
      if (x->size_bytes() > 0)
        out.push_back(x->mutable_bytes());
  return out;
}

bulk_part bulk_of(const tensor& x) { return {x.bytes(), std::make_shared<const tensor>(x)}; }

outgoing_frame make_push(std::span<const mutation_piece> pieces, std::uint64_t request,
                         std::uint64_t position) {
  outgoing_frame frame;
  frame.kind = static_cast<std::uint8_t>(data_kind::mutate);
  frame.request = request;
  mutate_meta meta;
  meta.pieces.reserve(pieces.size());
  for (const auto& piece : pieces) {
    piece_meta x{
      {piece.variable, piece.shard}, piece.key, piece.attempt, piece.kind, 0, dtype::f32, {}, 0};
    if (piece.values.defined()) {
      x.flags |= piece_meta::has_values;
      x.type = piece.values.type();
      x.shape = piece.values.shape();
    }
    if (piece.indices.defined()) {
      x.flags |= piece_meta::has_indices;
      x.rows = static_cast<std::uint64_t>(piece.indices.size());
    }
    if (piece.at_least_once)
      x.flags |= piece_meta::at_least_once;
    for (const auto* part : {&piece.values, &piece.indices})
      if (part->size_bytes() > 0)
        frame.bulk.push_back(bulk_of(*part));
    meta.pieces.push_back(std::move(x));
  }
  frame.meta = encode_meta(meta);
  constexpr auto alignment = mutate_meta::bulk_alignment;
  auto behind = (position + frame_header_bytes + frame.meta.size()) % alignment;
  if (behind != 0) {
    meta.padding.assign(alignment - behind, '\0');
    frame.meta = encode_meta(std::move(meta));
  }
  return frame;
}

} // namespace troupe
