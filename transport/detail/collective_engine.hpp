#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <troupe/core/data_port.hpp>
#include <troupe/core/result.hpp>
#include <troupe/transport/collective_types.hpp>

/// The interface of a group to whatever carries an operation.
namespace troupe::detail {

/// An operation as a member calls it, checked.
struct collective_task {
  collective_kind kind = collective_kind::barrier;
  dtype type = dtype::u8;
  std::size_t count = 0; ///< elements of the whole vector
  std::uint32_t root = 0;
  std::vector<std::size_t> parts{}; ///< all_gather, gather: as in `plan_task`
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  const reduction* how = nullptr; ///< null: nothing is merged
  collective_options options{};
  collective_algorithm algorithm = collective_algorithm::direct;
};

/// How the elements of a task are merged in a group of `size`.
kernels::merge_spec merge_spec_of(const collective_task& task, std::uint32_t size);

/// The user's function of a task, or null.
const user_reduction* user_of(const collective_task& task);

/// 64 bits that differ for tasks that don't go together.
std::uint64_t describe(const collective_task& task, std::uint32_t size);

/// "all_reduce sum f32[1000]".
std::string to_string(const collective_task& task);
/// The name of a task in errors: the caller's name for it, or `to_string`.
std::string doing(const collective_task& task);

/// Merges any sources in their order into all outs, by a user's function or a kernel.
void merge_task(const kernels::merge_spec& spec, const user_reduction* user,
                std::span<const kernels::merge_source> sources, std::span<std::byte* const> outs,
                std::size_t count);

/// A state machine for one operation. Driven by one thread, never waits by itself.
class collective_engine {
public:
  virtual ~collective_engine() = default;
  /// Moves what can move now; true: something did. Errors are final.
  virtual result<bool> advance() = 0;
  virtual bool done() const = 0;
  /// The member that an error of `advance` is about; `no_member`: none in particular.
  static constexpr std::uint32_t no_member = 0xffffffff;
  virtual std::uint32_t failed_peer() const = 0;
  /// Whether the operation waits for the peer.
  virtual bool needs(std::uint32_t peer) const = 0;
  /// Whether it can no longer end, now that the peer has left and `advance` has found nothing to
  /// do.
  virtual bool ends_with(std::uint32_t peer) const = 0;
  /// Tells the poller, and others, what would wake it. False: look again instead of sleeping.
  virtual bool before_sleep(channel_poller& poller) = 0;
  virtual void after_sleep(channel_poller& poller) = 0;
  /// Leaves the operation. False: it is past that, and will end soon.
  virtual bool give_up() = 0;
};

} // namespace troupe::detail
