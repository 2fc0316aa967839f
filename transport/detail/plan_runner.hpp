#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <troupe/core/data_port.hpp>
#include <troupe/core/result.hpp>
#include <troupe/kernels/merge.hpp>
#include <troupe/transport/collective_types.hpp>
#include <troupe/transport/detail/block_header.hpp>
#include <troupe/transport/detail/collective_plan.hpp>
#include <troupe/transport/detail/scratch_memory.hpp>

/// Carries a plan out over channels: a state machine that the calling thread drives, and that never
/// waits by itself.
namespace troupe::detail {

/// The data channel to one peer, and what its use needs from one operation to the next.
struct data_link {
  channel* data = nullptr;   ///< null at the own place
  scratch_memory stage{};    ///< what was received and waits to be merged
  scratch_memory encoded{};  ///< the block that is being sent, when it is encoded
  std::string pushed_back{}; ///< received beyond a block that was dropped
  std::size_t pushed_back_at = 0;
};

/// The memory and meaning of an operation.
struct operation_data {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::byte* scratch = nullptr;
  kernels::merge_spec merge{}; ///< `divide_by` and `round` hold for the last merge of an element
  const user_reduction* user = nullptr;
  std::uint32_t epoch = 0;
  std::uint32_t operation = 0;
  std::uint32_t description = 0;
};

class plan_runner {
public:
  /// A runner of `plan`. All arguments outlive the runner. `links` has one entry a member.
  plan_runner(const collective_plan& plan, const operation_data& data, std::span<data_link> links,
              collective_counters& counters);

  /// Moves what can move now. True: something did. `connection_lost`, `bad_frame` and `mismatch`
  /// are final; `failed_peer` tells whose channel it was.
  result<bool> advance();
  bool done() const { return left_ == 0; }
  std::uint32_t failed_peer() const { return failed_peer_; }

  /// Whether something is still to come from the peer, or to be taken by it.
  bool needs(std::uint32_t peer) const;
  /// Whether the channel should be watched, and whether for room as well.
  bool wants_receive(std::uint32_t peer) const;
  bool wants_send(std::uint32_t peer) const { return sending_[peer].is_waiting; }
  /// Whether something is still to be taken by the peer.
  bool has_unsent(std::uint32_t peer) const {
    return sending_[peer].next < plan_.sends[peer].size();
  }

private:
  // How far a step has come.
  struct progress {
    std::size_t done = 0; // elements
    bool finished = false;
  };
  // Where a direction of a link stands: its step, the block of it, and the bytes of that.
  struct cursor {
    std::size_t next = 0; // in the list of steps
    std::size_t block_begin = 0;
    std::size_t in_block = 0; // bytes, header included
    std::size_t encoded = 0;  // elements of the block that were encoded
    block_header_image header{};
    std::size_t drop_left = 0; // bytes of a stale block
    bool is_waiting = false;   // the channel took less than it was offered
    // Whether what was encoded has been taken.
    bool is_encoded_out(std::size_t wire_bytes) const {
      return encoded == 0 || in_block == block_header_bytes + encoded * wire_bytes;
    }
    std::uint32_t staged = no_step; // the receive that used the stage last
  };
  struct outgoing;

  std::size_t block_len(std::size_t left) const { return std::min(left, block_len_max_); }
  std::size_t allowed(const plan_step& step) const;
  bool is_open(const plan_step& step) const;
  bool has_room(const cursor& at, std::uint32_t index, std::size_t len) const;
  void finish(std::uint32_t step);
  std::byte* place(memory where, std::size_t element) const {
    return (where == memory::scratch ? data_.scratch : data_.output) + element * element_bytes_;
  }
  const std::byte* source(memory where, std::size_t element) const;
  block_header header_of(const plan_step& step, std::size_t begin) const;

  result<bool> send(std::uint32_t peer);
  void gather(std::uint32_t peer, const plan_step& step, cursor& at, outgoing& out);
  const std::byte* payload(std::uint32_t peer, const plan_step& step, cursor& at, std::size_t begin,
                           std::size_t ready);
  void sent(std::uint32_t index, cursor& at, std::size_t bytes);

  result<bool> receive(std::uint32_t peer);
  result<std::size_t> take(data_link& from, std::span<const mutable_bytes> parts) const;
  std::byte* target(std::uint32_t peer, const plan_step& step, std::size_t begin) const;
  result<void> received(std::uint32_t peer, std::size_t bytes);
  result<void> judge_header(std::uint32_t peer, const block_header& expected,
                            const std::byte* payload);
  result<bool> drop(std::uint32_t peer);
  bool is_staged(const plan_step& step) const { return step.consumer != no_step; }

  bool merge_next(std::uint32_t index);
  void merge(const plan_step& step, std::size_t begin, std::size_t n);
  std::size_t stage_offset(std::size_t element) const { return element % stage_len_ * wire_bytes_; }

  const collective_plan& plan_;
  const operation_data& data_;
  std::span<data_link> links_;
  collective_counters& counters_;
  std::size_t element_bytes_;
  std::size_t wire_bytes_;
  std::size_t block_len_max_; // elements
  std::size_t stage_len_;     // elements, a multiple of block_len_max_
  std::size_t left_;
  std::vector<progress> progress_;
  std::vector<cursor> sending_;
  std::vector<cursor> receiving_;
  std::vector<kernels::merge_source> sources_{};
  std::uint32_t failed_peer_ = 0;
};

} // namespace troupe::detail
