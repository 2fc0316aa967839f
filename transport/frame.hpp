#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <troupe/core/data_port.hpp>
#include <troupe/core/result.hpp>

/// The frame codec: messages with bulk data over a `channel`. Knows nothing of what frames mean.
///
/// Grammar (all integers little-endian, no padding):
///
///     stream := frame*
///     frame  := header meta bulk
///     header :=                        offset
///         magic            u32          0   0x31465254, "TRF1" in memory
///         version          u16          4   frame_version
///         kind             u8           6   the user's enum, at most `kind_max`
///         flags            u8           7   the user's
///         request          u64          8   the user's: pairs an answer with its question
///         bulk_bytes       u64         16   at most `bulk_bytes_max`
///         meta_checksum    u64         24   XXH3-64 of meta
///         bulk_checksum    u64         32   XXH3-64 of bulk; 0 when bulk_bytes is 0, and over a
///                                           channel that can't damage bytes
///         meta_bytes       u32         40   at most `meta_bytes_max`
///         header_checksum  u32         44   low half of XXH3-64 of the 44 bytes before
///     meta   := meta_bytes * u8
///     bulk   := bulk_bytes * u8
///
/// Meta has a checksum of its own because its reader decides by it where the bulk goes, before the
/// bulk is there. The header's checksum holds before any length of it is used; a limit is checked
/// before anything is allocated.
namespace troupe {

inline constexpr std::uint32_t frame_magic = 0x31465254;
inline constexpr std::uint16_t frame_version = 1;
inline constexpr std::size_t frame_header_bytes = 48;

/// Limits of a reader and a writer.
struct frame_limits {
  std::uint8_t kind_max = 255;
  std::uint32_t meta_bytes_max = std::uint32_t{4} << 20;
  std::uint64_t bulk_bytes_max = std::uint64_t{4} << 30;
};

/// Memory to send and what keeps it alive and unchanged until it is out (null: the caller does).
struct bulk_part {
  const_bytes bytes{};
  std::shared_ptr<const void> keepalive{};
};

/// A frame to send. The bulk on the wire is the parts one after the other.
struct outgoing_frame {
  std::uint8_t kind = 0;
  std::uint8_t flags = 0;
  std::uint64_t request = 0;
  std::string meta{};
  std::vector<bulk_part> bulk{};
};

/// A frame's header as received, checked.
struct frame_header {
  std::uint8_t kind = 0;
  std::uint8_t flags = 0;
  std::uint64_t request = 0;
  std::uint32_t meta_bytes = 0;
  std::uint64_t bulk_bytes = 0;
};

/// Queues frames and writes them as the channel takes them. One thread. Small pieces are copied
/// together, so that many small frames leave in one call; a bulk part over 4 KiB is sent from where
/// it lies.
class frame_writer {
public:
  /// `checksums`: of bulk; only for a channel that can't damage bytes they are left out.
  explicit frame_writer(frame_limits limits = {}, bool checksums = true);

  /// Appends a frame; reads all of its bulk once, for the checksum. Writes nothing. `too_large` or
  /// `bad_frame` when it breaks a limit, and then the queue is as before.
  result<void> push(outgoing_frame frame);

  /// Writes what the channel takes, at most about 8 MiB a call, so that a fast peer can't hold the
  /// thread. True when all is out; false: watch the channel with `want_send` and call again. An
  /// error of the channel is final.
  result<bool> pump(channel& to);

  /// A frame that is written where the channel will send it from.
  struct placed_frame {
    outgoing_frame head{}; ///< all but meta and bulk
    mutable_bytes meta{};
    mutable_bytes bulk{};
  };
  /// Room for a frame in the channel itself, with meta and bulk of just these sizes; nothing when
  /// the channel has none now, something is queued before it, or it breaks a limit. What is not
  /// given to `send_placed` was never there.
  std::optional<placed_frame> place(channel& to, outgoing_frame head, std::size_t meta_bytes,
                                    std::size_t bulk_bytes);
  void send_placed(channel& to, const placed_frame& frame);

  /// Bytes of all frames so far: where the next one will stand in the stream.
  std::uint64_t position() const noexcept { return position_; }
  /// Bytes that no channel has taken yet, headers included: what a window is measured by.
  std::uint64_t queued_bytes() const noexcept { return queued_bytes_; }
  /// Bytes that a channel has taken so far: as long as they grow, the peer is reading.
  std::uint64_t sent_bytes() const noexcept { return sent_bytes_; }
  bool empty() const noexcept { return queue_.empty(); }
  /// Drops what is queued: for a channel that ended.
  void clear();

private:
  struct segment {
    std::string owned{}; // a batch of small pieces, or one large meta
    bool batch = false;  // more may be appended to `owned`
    const_bytes view{};  // used when `owned` is empty
    std::shared_ptr<const void> keepalive{};
    const_bytes bytes() const noexcept;
  };
  result<void> check(const outgoing_frame& frame, std::uint64_t bulk_bytes) const;
  std::string& batch();
  void append(const_bytes small);
  std::size_t gather(std::span<const_bytes> parts) const;
  void drop_sent(std::size_t n);

  frame_limits limits_;
  std::deque<segment> queue_{};
  bool checksums_ = true;
  std::size_t front_sent_bytes_ = 0;
  std::uint64_t queued_bytes_ = 0;
  std::uint64_t position_ = 0;
  std::uint64_t sent_bytes_ = 0;
  std::string spare_{};
};

/// The outcome of `frame_reader::pump`.
enum class frame_event : std::uint8_t {
  idle = 0, ///< nothing more now: wait for the channel
  need_bulk =
    1, ///< header and meta are there and hold: answer with `provide` or `discard`, then pump on
  complete = 2, ///< the frame is whole and its checksums hold
};

/// Reads frames from a channel. One thread.
///
/// Each frame goes header, meta, `need_bulk` (unless it has no bulk), `complete`. Call `pump` until
/// `idle` before waiting on the channel: many frames may have come in one read, and what was read
/// ahead no poller sees. Large bulk is received straight into the memory that the owner gave. Any
/// error is final: every later `pump` repeats it.
class frame_reader {
public:
  explicit frame_reader(frame_limits limits = {});
  ~frame_reader();
  frame_reader(frame_reader&&) noexcept;
  frame_reader& operator=(frame_reader&&) noexcept;

  /// Goes on until an event. Repeats `need_bulk` until it is answered; receives at most about 8 MiB
  /// of bulk a call. `bad_frame`, `too_large`: the peer broke the grammar or a limit;
  /// `connection_lost`: the channel ended.
  result<frame_event> pump(channel& from);

  /// The header of the frame of the last event; valid until the `pump` after `complete`.
  const frame_header& header() const noexcept { return header_; }
  /// The meta of the frame of the last event; empty after `take_meta`.
  std::string_view meta() const noexcept { return meta_; }
  std::string take_meta() noexcept { return std::move(meta_); }

  /// Gives memory for the bulk: parts one after the other, written until `complete` or an error;
  /// what stands there before `complete` is not to be trusted. `invalid_argument` when the sizes
  /// don't sum to `bulk_bytes`: answer again. @pre the last event was `need_bulk`.
  result<void> provide(std::vector<mutable_bytes> parts);
  /// Whether the bulk can be looked at in the channel's memory instead.
  bool may_view(const channel& from) const noexcept {
    return ahead_bytes() == 0 && header_.bulk_bytes <= from.place_bytes_max();
  }
  /// Leaves the bulk in the channel's memory until the `pump` after `complete`. See
  /// `channel::try_view` for its limits. @pre the last event was `need_bulk`, and `may_view`.
  void view();
  /// The bulk of a frame that is `complete`, if it was viewed.
  const_bytes viewed() const noexcept { return view_; }
  /// Lets the bulk pass by; it is checked nevertheless and ends in `complete`.
  /// @pre the last event was `need_bulk`.
  void discard();
  /// Whether the frame's bulk was discarded.
  bool discarded() const noexcept { return discard_; }
  /// Bytes that came so far: as long as they grow, the peer is sending.
  std::uint64_t received_bytes() const noexcept { return received_bytes_; }

private:
  enum class state : std::uint8_t { header, meta, ask, bulk, view, complete };
  struct hasher;
  result<frame_event> advance(channel& from);
  result<void> parse_header(const channel& from);
  result<void> check_lengths(const channel& from) const;
  result<std::size_t> fill(channel& from, std::uint64_t wanted_bytes);
  result<bool> look(channel& from);
  result<std::size_t> receive_meta(channel& from);
  result<std::size_t> receive_bulk(channel& from);
  void take_meta_ahead();
  void take_bulk_ahead();
  void place(std::size_t n, const std::byte* from);
  std::size_t ahead_bytes() const noexcept { return end_ - begin_; }
  failure lost(failure why) const;

  frame_limits limits_;
  state state_ = state::header;
  frame_header header_{};
  std::uint64_t meta_checksum_ = 0;
  std::uint64_t bulk_checksum_ = 0;
  std::string meta_{};
  std::size_t meta_filled_bytes_ = 0;
  std::vector<mutable_bytes> parts_{};
  std::size_t part_ = 0;              // the part being filled
  std::size_t part_filled_bytes_ = 0; // within it
  std::uint64_t bulk_left_bytes_ = 0;
  std::uint64_t received_bytes_ = 0;
  const_bytes view_{};
  bool hashes_bulk_ = true;
  bool discard_ = false;
  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0; // what was read ahead: buffer_[begin_, end_)
  std::size_t end_ = 0;
  std::unique_ptr<hasher> hasher_;
  std::optional<failure> broken_{};
};

} // namespace troupe
