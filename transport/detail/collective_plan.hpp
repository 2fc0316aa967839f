#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <troupe/transport/collective_types.hpp>

/// The steps of one member in one operation over channels, as data: which ranges it sends to whom,
/// which it receives, which it merges, and what has to be done before. Plans know no bytes and no
/// sockets; the plans of all members of an operation fit each other, and whoever carries them out
/// in any order that the gates allow gets the same result.
///
/// Cost of each algorithm: steps one after the other, elements sent by a member; n members, c
/// elements.
///
///     exchange            1                 c (n - 1)
///     direct              2                 2 c (n - 1) / n
///     recursive doubling  log2 n            c log2 n
///     halving, doubling   2 log2 n          2 c (n - 1) / n
///     ring                2 (n - 1)         2 c (n - 1) / n
///     flat                1                 c (n - 1) at the root, or c at the others
///     spread              2                 about 2 c at the root
namespace troupe::detail {

enum class step_kind : std::uint8_t { send = 0, receive = 1, merge = 2 };

/// Memory of the member: what the user gave to read, to write, and the group's own.
enum class memory : std::uint8_t { input = 0, output = 1, scratch = 2 };

inline constexpr std::uint32_t no_step = std::numeric_limits<std::uint32_t>::max();

/// A step may go as far as `step` has come beyond its element `offset`; not at all before its end,
/// when `whole`.
struct step_gate {
  std::uint32_t step = no_step;
  std::size_t offset = 0;
  bool whole = false;
};

struct plan_step {
  step_kind kind = step_kind::send;
  std::uint32_t peer = 0;        ///< send, receive: the other member
  memory where = memory::output; ///< send: read from; receive (not staged), merge: written to
  std::size_t begin = 0;         ///< elements
  std::size_t count = 0;
  std::uint32_t ordinal = 0; ///< send, receive: how many steps this pair had before, that way
  std::uint32_t consumer = no_step; ///< receive: the merge that takes what was staged
  std::vector<step_gate> gates{};
  // Merge: receives in the order of merging, `no_step` standing for the own elements.
  std::vector<std::uint32_t> sources{};
  memory own = memory::input;
  std::size_t own_begin = 0;
  bool finish = false; ///< divides and rounds
};

struct collective_plan {
  std::vector<plan_step> steps{};
  std::vector<std::vector<std::uint32_t>> sends{};    ///< by peer, in order
  std::vector<std::vector<std::uint32_t>> receives{}; ///< by peer, in order
  std::vector<std::uint32_t> merges{};
  std::size_t scratch_count = 0; ///< elements
  /// Elements that a receive must be able to hold before any of them is merged: a merge that waits
  /// for sends to end must not keep the others from sending.
  std::size_t staged_count = 0;
};

/// The operation that is to be planned.
struct plan_task {
  collective_kind kind = collective_kind::all_reduce;
  collective_algorithm algorithm = collective_algorithm::direct;
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
  std::uint32_t root = 0;
  std::size_t count = 0; ///< elements of the whole vector
  /// all_gather, gather: where each member's part begins in the whole; size + 1 numbers.
  std::vector<std::size_t> parts{};
  bool encoded = false; ///< the wire is not plain: what is received is merged, never stored
};

/// First element of segment `i` of `n`.
std::size_t segment_begin(std::size_t count, std::uint32_t n, std::uint32_t i);

/// Whether the algorithm can do it.
bool can_plan(collective_kind kind, collective_algorithm algorithm, std::uint32_t size);

/// @pre `can_plan`, and `size` is at least 2.
collective_plan make_plan(const plan_task& task);

} // namespace troupe::detail
