#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <troupe/transport/detail/collective_engine.hpp>
#include <troupe/transport/detail/group_links.hpp>

/// Operations between threads of one process: each member publishes where its memory is, and when
/// all have come, the shares of the work are done in one pass, each by whoever is free: a thread
/// that has no core is not waited for.
namespace troupe::detail {

/// The state that the members of an epoch share. A seat is written by its member alone, and read by
/// others only between the start of an operation and the member's leaving it.
class inproc_area {
public:
  explicit inproc_area(std::uint32_t size);

  struct alignas(64) seat {
    std::atomic<std::uint32_t> arrived{0}; ///< operation
    std::atomic<std::uint32_t> taken{0};   ///< operation whose share of this member somebody does
    std::atomic<bool> sleeping{false};
    std::atomic<std::uint64_t> description{0};
    const std::byte* input = nullptr;
    std::byte* output = nullptr;
  };

  /// The way in which an operation goes on once all have arrived. Whoever sees that first decides,
  /// so that all see the same; whoever leaves before makes it `revoked` for good.
  enum class stage : std::uint8_t {
    shared = 0,   ///< everybody takes shares
    single = 1,   ///< whoever decided does all
    mismatch = 2, ///< nobody does anything
    revoked = 3
  };
  static std::uint64_t state_of(std::uint32_t operation, stage what) {
    return std::uint64_t{operation} << 8 | static_cast<std::uint8_t>(what);
  }

  std::vector<seat>& seats() { return seats_; }
  int tries() const { return tries_; } ///< before a member yields
  std::atomic<std::uint64_t>& state() { return state_; }

  /// A share that nobody has taken, the own one first; `no_member`: none is left.
  std::uint32_t take_share(std::uint32_t rank, std::uint32_t operation);
  /// Every operation has as many shares as there are members. True: the last of them is done.
  bool finish_shares(std::uint32_t count, std::uint32_t operation);
  bool all_finished(std::uint32_t operation) const {
    return finished_.load() >= std::uint64_t{operation} * seats_.size();
  }

private:
  std::vector<seat> seats_;
  int tries_;
  alignas(64) std::atomic<std::uint64_t> state_{0};
  alignas(64) std::atomic<std::uint64_t> finished_{0}; // shares of all operations
};

/// The area of that key, made by whoever asks first; it lives as long as somebody holds it. Any
/// thread.
std::shared_ptr<inproc_area> find_inproc_area(std::uint64_t key, std::uint32_t size);

class inproc_engine final : public collective_engine {
public:
  inproc_engine(inproc_area& area, group_links& channels, const collective_task& task,
                std::uint64_t description, std::uint32_t rank, std::uint32_t operation);

  result<bool> advance() override;
  bool done() const override { return phase_ == phase::done; }
  std::uint32_t failed_peer() const override { return no_member; }
  bool needs(std::uint32_t peer) const override;
  bool ends_with(std::uint32_t peer) const override { return needs(peer); }
  bool before_sleep(channel_poller& poller) override;
  void after_sleep(channel_poller& poller) override;
  bool give_up() override;

private:
  enum class phase : std::uint8_t { gather, work, done, left };

  result<bool> step();
  bool have_arrived() const;
  bool decide(std::uint64_t& state);
  void wake_sleepers();
  bool work_on();
  void work(std::uint32_t share);
  void reduce(std::uint32_t share);
  void reduce_scatter(std::uint32_t share);
  void copy(std::uint32_t to, std::size_t to_begin, std::uint32_t from, std::size_t count) const;
  std::size_t share_begin(std::uint32_t share) const;

  inproc_area& area_;
  group_links& channels_;
  const collective_task& task_;
  std::uint64_t description_;
  std::uint32_t rank_;
  std::uint32_t operation_;
  std::uint32_t size_;
  phase phase_ = phase::gather;
  bool is_shared_ = false;
  std::vector<kernels::merge_source> sources_{};
  std::vector<std::byte*> outs_{};
};

} // namespace troupe::detail
