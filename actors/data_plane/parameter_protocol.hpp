#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <cereal/types/string.hpp>
#include <cereal/types/vector.hpp>

#include <troupe/actors/data_plane/server_link.hpp>
#include <troupe/actors/support/blob_table.hpp>
#include <troupe/actors/support/hello_meta.hpp>
#include <troupe/actors/support/tensor_pool.hpp>
#include <troupe/core/frame_meta.hpp>
#include <troupe/transport/frame.hpp>

/// The messages between workers' threads and parameter servers, in frames (transport/frame.hpp). A
/// frame's meta is one of the structs below; its bulk is told beside each kind. Answers come in the
/// order of the questions and carry their request.
///
///     channel := hello (refused | welcome (question | answer)*)
namespace troupe {

enum class data_kind : std::uint8_t {
  hello = 1,           ///< hello_meta. First on every channel
  welcome = 2,         ///< welcome_meta
  refused = 3,         ///< outcome_meta; the channel ends
  read = 4,            ///< read_meta
  read_reply = 5,      ///< blocks_meta; the rows of all shards asked for, one after the other
  gather = 6,          ///< gather_meta; i64 local row numbers of all items, one after the other
  gather_reply = 7,    ///< blocks_meta; the rows
  mutate = 8,          ///< mutate_meta; of each piece its values, then its i64 indices
  mutate_ack = 9,      ///< ack_meta, one answer a piece
  put_blob = 10,       ///< blob_key; the bytes. Answered by done
  get_blob = 11,       ///< blob_key
  blob_reply = 12,     ///< outcome_meta; the bytes
  drop_blob = 13,      ///< blob_key. Answered by done
  read_snapshot = 14,  ///< read_snapshot_meta
  snapshot_reply = 15, ///< snapshot_meta; the elements
  restore = 16,        ///< restore_meta; values, then slots. Answered by done
  stats = 17,          ///< nothing
  stats_reply = 18,    ///< store_stats
  done = 19,           ///< outcome_meta
};

/// The codec's bounds on both sides: meta is decoded into vectors of structs, so its length bounds
/// what that allocates.
constexpr frame_limits data_limits(std::uint64_t bulk_bytes_max) {
  return {static_cast<std::uint8_t>(data_kind::done), std::uint32_t{256} << 10, bulk_bytes_max};
}

/// Shards or pieces in a frame; a link sends more in several.
inline constexpr std::size_t items_per_frame_max = 512;
/// A link starts another frame before it would have more bulk than that, so that one frame is sent
/// while the next is made ready and the one before applied. A single block may be larger.
inline constexpr std::uint64_t bytes_per_frame_wanted = std::uint64_t{1} << 20;

/// How many items from the front go in the next frame. `bytes_of(i)`: bulk of item i.
template <class F>
std::size_t items_of_frame(std::size_t items, F bytes_of) {
  std::uint64_t bytes = 0;
  std::size_t n = 0;
  for (; n < items && n < items_per_frame_max; ++n) {
    bytes += bytes_of(n);
    if (n > 0 && bytes > bytes_per_frame_wanted)
      break;
  }
  return n;
}

struct welcome_meta {
  incarnation server{};
  TROUPE_FIELDS(welcome_meta, server)
};

struct read_meta {
  std::vector<shard_ref> shards{};
  TROUPE_FIELDS(read_meta, shards)
};

struct gather_item {
  shard_ref from{};
  std::uint64_t rows = 0;
  TROUPE_FIELDS(gather_item, from, rows)
};

struct gather_meta {
  std::vector<gather_item> items{};
  TROUPE_FIELDS(gather_meta, items)
};

struct block_meta {
  std::uint64_t version = 0;
  std::uint64_t bytes = 0;
  TROUPE_FIELDS(block_meta, version, bytes)
};

/// The answer to a read: all blocks asked for, or a failure and none.
struct blocks_meta {
  failure why{};
  std::vector<block_meta> blocks{};
  TROUPE_FIELDS(blocks_meta, why, blocks)
};

struct piece_meta {
  shard_ref to{};
  op_key key{};
  attempt_no attempt{};
  mutation_kind kind = mutation_kind::apply;
  std::uint8_t flags = 0; ///< bits below
  dtype type = dtype::f32;
  shape_t shape{};        ///< of the values
  std::uint64_t rows = 0; ///< number of indices
  TROUPE_FIELDS(piece_meta, to, key, attempt, kind, flags, type, shape, rows)

  static constexpr std::uint8_t has_values = 1;
  static constexpr std::uint8_t has_indices = 2;
  static constexpr std::uint8_t at_least_once = 4;
  static constexpr std::uint8_t all_flags = 7;
};

struct mutate_meta {
  std::vector<piece_meta> pieces{};
  /// Makes the bulk begin at a multiple of `bulk_alignment` in the stream, so that a server can use
  /// it where it lies.
  std::string padding{};
  TROUPE_FIELDS(mutate_meta, pieces, padding)

  static constexpr std::size_t bulk_alignment = 64;
};

struct piece_answer {
  std::uint8_t duplicate = 0;
  std::uint64_t version = 0;
  failure why{}; ///< code none: applied, now or before
  TROUPE_FIELDS(piece_answer, duplicate, version, why)
};

struct ack_meta {
  std::vector<piece_answer> answers{};
  TROUPE_FIELDS(ack_meta, answers)
};

struct read_snapshot_meta {
  snapshot_id snapshot{};
  shard_ref from{};
  std::uint32_t part = 0;
  TROUPE_FIELDS(read_snapshot_meta, snapshot, from, part)
};

/// A learning rate that was set by hand, or none.
struct rate_meta {
  std::uint8_t is_set = 0;
  float rate = 0;
  TROUPE_FIELDS(rate_meta, is_set, rate)

  static rate_meta of(std::optional<float> x) {
    return {static_cast<std::uint8_t>(x ? 1 : 0), x.value_or(0.0f)};
  }
  std::optional<float> value() const {
    return is_set != 0 ? std::optional{rate} : std::optional<float>{};
  }
};

struct snapshot_meta {
  failure why{};
  std::uint64_t applies = 0;
  dtype type = dtype::f32;
  shape_t shape{};
  rate_meta rate{};
  TROUPE_FIELDS(snapshot_meta, why, applies, type, shape, rate)
};

struct restore_meta {
  shard_ref to{};
  std::uint64_t applies = 0;
  dtype type = dtype::f32;
  shape_t shape{};
  std::uint32_t slots = 0;
  rate_meta rate{};
  std::uint8_t only_check = 0; ///< 1: no bulk, nothing changes; answered as if it did
  TROUPE_FIELDS(restore_meta, to, applies, type, shape, slots, rate, only_check)
};

/// Checks a push: `bad_frame` when a kind, a type, a shape or a flag can't be, or the sizes don't
/// sum to `bulk_bytes`.
result<void> check_pieces(const mutate_meta& meta, std::uint64_t bulk_bytes);
/// Memory for a push as `meta` describes it, from `pool`: tensors of their own, to be filled by the
/// frame's bulk. Errors as `check_pieces`; nothing is allocated then.
result<std::vector<mutation_piece>> stage_pieces(const mutate_meta& meta, std::uint64_t bulk_bytes,
                                                 tensor_pool& pool);
/// The pieces of a push whose bulk lies whole in memory that its sender can still write to: row
/// numbers and divisors are copied before anybody checks them, other values stay where they are.
/// @pre `check_pieces` holds; `bulk` outlives the pieces.
std::vector<mutation_piece> pieces_in(const mutate_meta& meta, const_bytes bulk);
/// The memory for the bulk of staged pieces, in wire order.
std::vector<mutable_bytes> parts_of(std::vector<mutation_piece>& pieces);
/// The frame of a push that will stand at `position` of its stream; the bulk refers to the pieces'
/// tensors and keeps them.
outgoing_frame make_push(std::span<const mutation_piece> pieces, std::uint64_t request,
                         std::uint64_t position = 0);
/// Bulk that keeps its tensor.
bulk_part bulk_of(const tensor& x);

} // namespace troupe
