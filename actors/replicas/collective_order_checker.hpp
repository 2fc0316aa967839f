#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <troupe/actors/replicas/replica_operation.hpp>
#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/transport/collective_types.hpp>

/// The check that all replicas of a run make the same calls in the same order. Plain; its owner
/// locks.
namespace troupe {

/// A call that every replica makes: a collective operation, or a merge call.
struct replica_call {
  std::string kind{}; ///< "all_reduce", "merge_call"
  std::string how{};  ///< "sum"; empty where there is nothing to say
  troupe::dtype type = dtype::u8;
  std::vector<shape_t> shapes{}; ///< -1: an extent that may differ
  bool on_devices = false;       ///< of device tensors
  /// What `kind` and `how` say, for a replica that stands in. Not compared: the words are.
  replica_operation operation{};
  /// Options of the call; a replica that stands in has to give the same. Not compared here.
  collective_options options{};
  /// The work of a replica that stands in, after the call, so that its copies of variables stay
  /// equal to the others'. Not compared.
  std::function<void()> for_empty_replicas{};
  friend bool operator==(const replica_call& a, const replica_call& b) {
    return a.kind == b.kind && a.how == b.how && a.type == b.type && a.shapes == b.shapes
           && a.on_devices == b.on_devices;
  }
};

/// "all_reduce sum f32[2]", "all_reduce sum on devices f32[2]".
std::string to_string(const replica_call& call);

/// Compares the sequences of calls of the replicas of a process. Replica ids are those of the whole
/// group: the first local one is `first_id`.
class collective_order_checker {
public:
  collective_order_checker(std::uint32_t first_id, std::uint32_t replicas);

  /// Replica `local` begins its next call. `mismatch` quotes both calls, with their number, when
  /// another replica made a different call there, or has ended before it; `dtype_mismatch` or
  /// `shape_mismatch` when both gather along one axis and only their tensors differ.
  std::optional<failure> begin(std::uint32_t local, replica_call call);
  /// The call of `local` is over.
  void done(std::uint32_t local);
  /// The function of `local` has ended, well or not. `mismatch` when another replica has gone
  /// further.
  std::optional<failure> end(std::uint32_t local, bool well);

  /// The call that `local` has to make next, if another one has begun it.
  const replica_call* next(std::uint32_t local) const;
  bool in_call(std::uint32_t local) const { return states_.at(local).in_call; }
  /// The call that `local` stands in. @pre in_call
  const replica_call& current(std::uint32_t local) const { return at(states_.at(local).calls); }
  bool ended(std::uint32_t local) const { return states_.at(local).ended; }
  bool all_ended() const;
  /// Drops the work that replicas without data were to do.
  void forget_for_empty_replicas() {
    for (auto& each : made_)
      each.for_empty_replicas = nullptr;
  }
  /// Whether every replica is in the same call.
  bool all_in_call() const;
  /// Number of calls that `local` has begun.
  std::uint64_t calls(std::uint32_t local) const { return states_.at(local).calls; }
  /// "op 12 all_reduce sum f32[2] waits for {1}"; empty when nobody waits. For status pages.
  std::string waiting() const;

private:
  struct state {
    std::uint64_t calls = 0; ///< begun
    bool in_call = false;
    bool ended = false;
    bool well = false;
  };
  std::string name(std::uint32_t local) const;
  const replica_call& at(std::uint64_t number) const { return made_[number - 1 - forgotten_]; }
  void forget();

  const std::uint32_t first_id_;
  std::vector<state> states_;
  std::deque<replica_call> made_{}; ///< by number, from `forgotten_` + 1 on
  std::deque<std::uint32_t> made_by_{};
  std::uint64_t forgotten_ = 0;
};

} // namespace troupe
