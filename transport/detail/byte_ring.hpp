#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <troupe/core/data_port.hpp>

/// A direction of a channel in memory that two processes share: a ring of bytes with one writer and
/// one reader. Nothing of the memory is trusted: each side keeps its own index to itself, reads the
/// other's once, and goes on only when it can be. Never blocks, allocates nothing.
///
/// What a side has copied is seen by the other once it is published, so many small pieces cost one
/// publication. A side that is about to sleep says so; the other is told by `publish` that it must
/// be woken (how is not the ring's business).
///
/// Memory order: an index is stored behind the bytes it stands for and loaded with acquire. Where
/// sleep is at stake, indices and flags are read and written in one total order: either the sleeper
/// sees the new index, or the other one sees its flag.
namespace troupe::detail {

/// The memory that both sides see; each field except the flags is written by one of them. Zeroed
/// memory is a ring that is empty.
struct ring_indices {
  alignas(64) std::atomic<std::uint64_t> written;       ///< bytes since the start; the writer's
  alignas(64) std::atomic<std::uint64_t> taken;         ///< bytes since the start; the reader's
  alignas(64) std::atomic<std::uint32_t> reader_sleeps; ///< set by the reader
  alignas(64) std::atomic<std::uint32_t> writer_sleeps; ///< set by the writer
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(sizeof(ring_indices) == 256);

/// A ring's memory. `bytes` is a power of two.
struct ring_place {
  ring_indices* indices = nullptr;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  bool mirrored = false; ///< the memory appears again behind itself: nothing wraps in the middle
};

class ring_writer {
public:
  ring_writer() = default;
  /// `start`: where the indices of an empty ring stand.
  explicit ring_writer(const ring_place& at, std::uint64_t start = 0)
    : at_{at}, written_{start}, published_{start}, taken_seen_{start} {}

  /// Copies as much of `from` as there is room for; the number of bytes. None: the reader's index
  /// can't be.
  std::optional<std::size_t> write(const_bytes from);
  /// Bytes that were written and not published.
  std::size_t unpublished_bytes() const { return static_cast<std::size_t>(written_ - published_); }
  /// Shows the reader what was written. True: it sleeps and must be woken.
  bool publish();

  /// Memory for the next `n` bytes; empty: they don't fit now, or not in one piece. To be followed
  /// by `wrote`. None: the reader's index can't be.
  std::optional<mutable_bytes> room_for(std::size_t n);
  void wrote(std::size_t n) { written_ += n; }

  /// Whether waiting for room is over: a quarter of the ring is free, so that a slow reader does
  /// not wake its writer for every piece. Also true when the reader's index can't be.
  bool has_room();
  /// From now on the reader's `publish` tells when there is room. True: there is room already.
  bool sleep_unless_room();

  /// The bytes that the reader has not taken, in at most two pieces. For a ring that is given up.
  struct pieces {
    const_bytes first{};
    const_bytes second{};
  };
  std::optional<pieces> rest();
  /// Drops `n` bytes of the rest, as if the reader had taken them. Only for a ring that is given
  /// up.
  void drop(std::size_t n);

private:
  void look();
  std::optional<std::size_t> room() const;

  ring_place at_{};
  std::uint64_t written_ = 0;
  std::uint64_t published_ = 0;
  std::uint64_t taken_seen_ = 0;
  bool broken_ = false;
};

class ring_reader {
public:
  ring_reader() = default;
  explicit ring_reader(const ring_place& at, std::uint64_t start = 0)
    : at_{at}, taken_{start}, published_{start}, written_seen_{start} {}

  /// Copies what there is, as much as fits in `to`; the number of bytes. None: the writer's index
  /// can't be.
  std::optional<std::size_t> read(mutable_bytes to);
  std::size_t unpublished_bytes() const { return static_cast<std::size_t>(taken_ - published_); }
  /// Gives the writer the room of what was read. True: it sleeps and must be woken.
  bool publish();

  /// The next `n` bytes where they lie; empty: they are not there yet, or not in one piece. To be
  /// followed by `took`. None: the writer's index can't be.
  std::optional<const_bytes> view(std::size_t n);
  void took(std::size_t n) { taken_ += n; }

  /// Whether `n` bytes are there; also true when the writer's index can't be.
  bool has_bytes(std::size_t n = 1);
  /// From now on the writer's `publish` tells when there are more. True: `n` are there already.
  bool sleep_unless_bytes(std::size_t n = 1);

private:
  void look();
  std::optional<std::size_t> there() const;

  ring_place at_{};
  std::uint64_t taken_ = 0;
  std::uint64_t published_ = 0;
  std::uint64_t written_seen_ = 0;
  bool broken_ = false;
};

} // namespace troupe::detail
