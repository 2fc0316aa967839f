#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <troupe/transport/collective_table.hpp>
#include <troupe/transport/detail/collective_engine.hpp>
#include <troupe/transport/detail/group_links.hpp>
#include <troupe/transport/detail/host_memory.hpp>
#include <troupe/transport/detail/shm_arena.hpp>

/// Operations between processes of one host: data goes through slots of shared memory.
///
/// A vector is cut into chunks, the same on all members. Of each chunk, a member copies what others
/// need into its *in* slot, merges its own share from everybody's in slots into its *out* slot, and
/// copies what others merged; a kind leaves out what it does not need. Slots are used in turn, so
/// that members work on several chunks at a time. Cost of all_reduce: 2 copies of the vector and
/// one merge of 1/n of it, by each member. Of two members each gives the other all of a vector that
/// is not large, and merges everything itself: one wait for the other instead of two.
namespace troupe::detail {

/// The layout of the memory. A seat is written by its member alone.
struct shm_seat {
  static constexpr std::size_t remembered = 64;     // more operations than anybody can be ahead
  alignas(64) std::atomic<std::uint32_t> given{0};  ///< chunks whose in slot is filled
  alignas(64) std::atomic<std::uint32_t> merged{0}; ///< chunks whose out slot is filled
  alignas(64) std::atomic<std::uint32_t> read{0};   ///< chunks that it needs no more
  alignas(64) std::atomic<std::uint32_t> sleeping{0};
  /// Operation i stands at i % remembered: its number above the hash of its description.
  alignas(64) std::atomic<std::uint64_t> operations[remembered];
  /// The place of the member's vector in its arena; `elsewhere`: not in it.
  static constexpr std::uint64_t elsewhere = ~std::uint64_t{0};
  alignas(64) std::atomic<std::uint64_t> vectors[remembered];
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// How slots are cut for an operation.
struct slot_layout {
  std::size_t share_bytes = 0; ///< of a slot, for each member
  std::uint32_t slots = 1;
  bool is_small = false; ///< in the small slots, which hold a whole vector each
  friend bool operator==(const slot_layout&, const slot_layout&) = default;
};

/// A member's view of the memory of an epoch.
class shm_segment {
public:
  shm_segment(host_memory memory, std::uint32_t size, std::uint32_t rank, std::size_t arena_bytes,
              const collective_table& table);

  static std::size_t bytes_for(std::uint32_t size, std::size_t arena_bytes);
  std::uint32_t size() const { return size_; }
  int tries() const { return tries_; } ///< before a member yields
  shm_seat& seat(std::uint32_t member) const;
  std::byte* in(std::uint32_t member, const slot_layout& layout, std::uint32_t chunk) const;
  std::byte* out(std::uint32_t member, const slot_layout& layout, std::uint32_t chunk) const;
  slot_layout layout_for(const collective_task& task) const;
  bool has_arena() const { return arena_bytes_ > 0; }
  /// Whether a vector lies in an arena. What others wrote is not trusted.
  bool holds(std::uint64_t offset, std::size_t bytes) const {
    return bytes <= arena_bytes_ && offset <= arena_bytes_ - bytes;
  }
  shm_arena& arena() { return arena_; } ///< this member's
  std::byte* arena_of(std::uint32_t member) const;

  /// Chunks of all operations so far, and the layout of the last that used large slots.
  std::uint32_t chunks = 0;
  slot_layout last{};

private:
  std::byte* region(std::uint32_t member) const;
  std::shared_ptr<host_memory> memory_;
  const collective_table& table_;
  std::uint32_t size_;
  int tries_;
  std::size_t arena_bytes_;
  shm_arena arena_;
};

class shm_engine final : public collective_engine {
public:
  shm_engine(shm_segment& area, group_links& channels, const collective_task& task,
             std::uint64_t description, std::uint32_t rank, std::uint32_t operation);
  ~shm_engine() override;

  result<bool> advance() override;
  bool done() const override { return read_ == chunks_; }
  std::uint32_t failed_peer() const override { return blamed_; }
  bool needs(std::uint32_t peer) const override;
  bool ends_with(std::uint32_t peer) const override { return needs(peer); }
  bool before_sleep(channel_poller& poller) override;
  void after_sleep(channel_poller& poller) override;
  bool give_up() override { return true; }

private:
  using counter = std::atomic<std::uint32_t> shm_seat::*;
  struct range {
    std::size_t begin = 0;
    std::size_t count = 0;
  };

  std::uint32_t count_chunks() const;
  result<bool> settle();
  void merge_in_place();
  std::uint64_t vector_of(std::uint32_t member) const;
  result<bool> move_chunks();
  bool has_come(std::uint32_t member, counter what, std::uint32_t chunks) const;
  bool have_come(counter what, std::uint32_t chunks) const;
  bool can_give() const;
  result<void> check_operations();
  void publish(counter what, std::uint32_t chunks);

  range share(std::uint32_t member, std::uint32_t chunk) const;
  range part(std::uint32_t member, std::uint32_t chunk) const;
  range whole(std::uint32_t chunk) const;
  void give(std::uint32_t chunk);
  void merge(std::uint32_t chunk);
  void read(std::uint32_t chunk);
  void copy(std::byte* to, const std::byte* from, std::size_t count) const;
  std::byte* output(std::size_t element) const;
  const std::byte* input(std::size_t element) const;

  shm_segment& area_;
  group_links& channels_;
  const collective_task& task_;
  std::uint64_t description_;
  std::uint32_t rank_;
  std::uint32_t operation_;
  slot_layout layout_;
  std::size_t element_;
  std::size_t share_len_; ///< elements of a share of a slot
  bool merges_ = false;   ///< shares are merged
  bool gathers_ = false;  ///< merged shares go to others
  bool is_pair_ = false;  ///< everybody merges whole chunks
  bool new_layout_ = false;
  std::uint32_t settling_ = 0; ///< chunks before those with data: 1 when vectors may be in arenas
  bool in_place_ = false;
  std::uint32_t first_; ///< number of the first chunk
  std::uint32_t chunks_;
  std::uint32_t given_ = 0; ///< chunks of this operation
  std::uint32_t merged_ = 0;
  std::uint32_t read_ = 0;
  std::uint32_t blamed_ = no_member;
  bool checked_ = false;
  std::vector<kernels::merge_source> sources_{};
  std::vector<std::uint64_t> vectors_{}; ///< where they stand in the arenas, by member
};

} // namespace troupe::detail
