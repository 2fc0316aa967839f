#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <troupe/core/environment.hpp>
#include <troupe/core/result.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/transport/collective_types.hpp>
#include <troupe/transport/group_options.hpp>

/// Collective operations of a group of members: processes, or threads of one.
namespace troupe {

/// A member of a group, through all of its epochs.
///
/// Threads: one at a time, the thread that calls an operation drives it; nothing runs behind it.
/// `revoke` from any thread. All members call the same operations in the same order, with the same
/// types, counts and options; a member that does something else gets `mismatch`, and so does its
/// peer.
///
/// Every member gets the same bits, and they do not depend on what carries the data: elements are
/// merged in rank order (unless `reduction_order::fixed` allows another), f16 and bf16 are summed
/// as floats and rounded once, a wire that is not plain rounds what each member gives and the
/// result. A mean of integers or 16-bit floats is always merged in rank order and at once, in a
/// wider type: the mean of two that are near the type's end is between them. That of integers drops
/// the fraction. Sums and products of integers wrap.
///
/// Errors end the epoch: every later operation repeats them until the next `form`, `shrink` or
/// `grow`. The outputs of an operation that failed are undefined; others may have completed the
/// same operation. `peer_lost`: a member is gone; `deadline`: a member is silent; `revoked`;
/// `mismatch`; `bad_frame`; whatever a member was revoked with. Each names the operation and the
/// members that are missing, on every member: a member that hears of the error from another one
/// gets that one's code, retry class and origin. `invalid_argument` and `wrong_state` are the
/// caller's, and end nothing.
class collective_group {
public:
  virtual ~collective_group() = default;

  /// Makes a member that listens. `id`: this member's number, the same in all epochs.
  /// `invalid_argument` names an address that other machines reach, without a token. @param env
  /// outlives the group.
  static result<std::unique_ptr<collective_group>> make(environment& env, std::uint64_t id,
                                                        group_options options = {});

  /// The address that the other members call.
  virtual std::string address() const = 0;

  // --- epochs. Each ends the one before.

  /// Connects with all of `members`, this one among them; a member's place in the list is its rank.
  /// All members call `form` with the same list and epoch. Waits until `deadline` has passed. After
  /// an error there is no epoch, and this one's number is used up: `deadline` names the missing
  /// members; `fenced`: others are in a later epoch; `mismatch`: another list; `wrong_peer`:
  /// another token; `invalid_argument` for a list without this member's id, and for an epoch that
  /// is not above the last one.
  virtual result<void> form(group_epoch epoch, std::vector<collective_member> members,
                            duration deadline) = 0;
  /// `form` with the members of the last list that have these ids, in its order. `invalid_argument`
  /// for an id that is not in it.
  virtual result<void> shrink(group_epoch epoch, std::span<const std::uint64_t> survivors,
                              duration deadline) = 0;
  /// `form` with `joined` behind the last list. Those who join call `form` with the whole list.
  virtual result<void> grow(group_epoch epoch, std::vector<collective_member> joined,
                            duration deadline) = 0;
  /// Ends the epoch on all members: operations in flight and to come fail with `why`, its code,
  /// retry class and origin included, wherever the member is; the text names `missing` (ids) too.
  /// A `form` under way goes on to its own deadline.
  virtual void revoke(failure why, std::span<const std::uint64_t> missing = {}) = 0;
  /// `revoke` with `errc::revoked`.
  void revoke(std::string reason, std::span<const std::uint64_t> missing = {}) {
    revoke(make_failure(errc::revoked, std::move(reason)), missing);
  }

  /// This member's place in the epoch's list.
  virtual std::uint32_t rank() const = 0;
  /// Number of members of the epoch.
  virtual std::uint32_t size() const = 0;
  /// The epoch that was formed last.
  virtual group_epoch epoch() const = 0;
  /// The memory through which the epoch's members exchange data.
  virtual group_class carried_by() const = 0;
  /// The members of the epoch, in order of ranks.
  virtual const std::vector<collective_member>& members() const = 0;
  /// Counts since the group was made.
  virtual collective_counters counters() const = 0;
  /// The highest epoch that this member has begun to form, or was told of when it was `fenced`: a
  /// member that catches up continues there.
  virtual group_epoch newest_epoch() const = 0;
  /// Ids of those who were missing when the epoch ended, or when it could not form in time; none
  /// while it lasts.
  virtual std::vector<std::uint64_t> missing() const = 0;
  /// The failure that ended the epoch, as far as this member has heard; none while it lasts. Any
  /// thread.
  virtual std::optional<failure> why_ended() const = 0;

  /// An uninitialised tensor, in memory that the epoch's members share if there is such and it has
  /// room; else in any memory. An `all_reduce` of tensors that all members got from here copies
  /// nothing. Only for what a redo writes anew (gradients): a process that was stopped and wakes
  /// may still write there, so take new ones in each epoch. Outlives the epoch and the group.
  virtual tensor allocate(dtype type, shape_t shape) = 0;

  // --- operations

  /// Replaces each element of `x` by those of all members, merged. `x`: one dtype and number of
  /// elements on all members. In place. The operations' errors: see the class; `invalid_argument`
  /// for tensors without a value or that do not fit, and for a root that is no rank; `wrong_state`
  /// without an epoch.
  virtual result<void> all_reduce(tensor& x, const reduction& how,
                                  const collective_options& options = {}) = 0;
  /// `all_reduce` of several tensors, the small ones together.
  virtual result<void> all_reduce(std::span<tensor> xs, const reduction& how,
                                  const collective_options& options = {}) = 0;
  /// Writes segment `rank` of the merged vector to `out`: elements count * rank / size up to count
  /// * (rank + 1) / size. `in` stays.
  virtual result<void> reduce_scatter(const tensor& in, tensor& out, const reduction& how,
                                      const collective_options& options = {}) = 0;
  /// Replaces the root's `x` by the merged vector; the others' stay. In place.
  virtual result<void> reduce(tensor& x, std::uint32_t root, const reduction& how,
                              const collective_options& options = {}) = 0;
  /// Writes the members' `mine` to `all`, one after the other in rank order. `counts`: elements of
  /// each member; empty: all give as many as this one.
  virtual result<void> all_gather(const tensor& mine, tensor& all,
                                  std::span<const std::size_t> counts = {},
                                  const collective_options& options = {}) = 0;
  /// `all_gather` to the root alone; the others' `all` may be undefined and stays.
  virtual result<void> gather(const tensor& mine, tensor& all, std::uint32_t root,
                              std::span<const std::size_t> counts = {},
                              const collective_options& options = {}) = 0;
  /// Replaces `x` by the root's.
  virtual result<void> broadcast(tensor& x, std::uint32_t root,
                                 const collective_options& options = {}) = 0;
  /// Returns after all members have called `barrier`.
  virtual result<void> barrier(const collective_options& options = {}) = 0;
};

/// First element of segment `rank` of a vector that a group of `size` shares out.
std::size_t segment_begin(std::size_t count, std::uint32_t size, std::uint32_t rank);

} // namespace troupe
