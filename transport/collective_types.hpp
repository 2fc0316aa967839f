#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/core/limits.hpp>
#include <troupe/core/time.hpp>
#include <troupe/kernels/merge.hpp>

/// Types of collective operations: kinds, reductions, orders, and how members of a group are found.
namespace troupe {

/// Life of a group of members: each change of its members makes a new one. A number that failed to
/// form is not used again.
enum class group_epoch : std::uint32_t {};

enum class collective_kind : std::uint8_t {
  all_reduce = 0,
  reduce_scatter = 1,
  all_gather = 2,
  broadcast = 3,
  reduce = 4,
  gather = 5,
  barrier = 6
};

/// "all_reduce".
std::string_view to_string(collective_kind kind);

/// How elements of the members become one.
enum class reduce_op : std::uint8_t { sum = 0, mean = 1, min = 2, max = 3, prod = 4, user = 5 };

/// "sum".
std::string_view to_string(reduce_op op);
/// "sum", "MEAN": any letter case. Throws `invalid_argument` quoting the text.
reduce_op parse_reduce_op(std::string_view text);

/// A user's own reduction. The same on every member, and associative; it is applied in rank order,
/// to plain elements.
struct user_reduction {
  std::string name{}; ///< members whose names differ refuse each other
  /// into[i] = f(into[i], with[i]) for `count` elements. Does not throw.
  std::function<void(std::byte* into, const std::byte* with, std::size_t count)> merge{};
};

/// A reduction: `reduce_op::sum`, its name in any letter case (which throws as `parse_reduce_op`),
/// or a user's own.
struct reduction {
  reduction(reduce_op what) : op{what} {}
  reduction(std::string_view name) : op{parse_reduce_op(name)} {}
  reduction(const char* name) : reduction{std::string_view{name}} {}
  reduction(user_reduction what) : op{reduce_op::user}, user{std::move(what)} {}
  reduce_op op = reduce_op::sum;
  user_reduction user{};
};

/// The order in which elements are merged.
enum class reduction_order : std::uint8_t {
  /// Member 0, 1, 2, ... for every element, whatever carries the data.
  rank = 0,
  /// Some order that depends on the number of members and elements alone. Faster for large groups.
  fixed = 1
};

/// Algorithms of operations over channels.
enum class collective_algorithm : std::uint8_t {
  exchange = 0,           ///< everybody sends all to everybody
  direct = 1,             ///< member i merges segment i and sends it to all
  recursive_doubling = 2, ///< whole vectors between pairs; a power of two of members
  halving_doubling = 3,   ///< halves between pairs; a power of two of members
  ring = 4,               ///< segments go round
  flat = 5,               ///< all with the root
  spread = 6              ///< the root's data goes through all members
};

/// "exchange".
std::string_view to_string(collective_algorithm algorithm);

/// The memory that the members of a group have in common.
enum class group_class : std::uint8_t {
  network = 0, ///< channels
  host = 1,    ///< shared memory
  process = 2  ///< pointers
};

/// "network".
std::string_view to_string(group_class which);

/// The deadline of an operation whose caller names none. A nanosecond more than anybody would give,
/// so that strategies can tell.
inline constexpr duration no_deadline_given = limits::collective + duration{1};

/// Options of one operation; all but the deadline are the same on every member.
struct collective_options {
  /// How long the members may take, all together. Not given: they may take as long as something
  /// moves, and stand still for a strategy's `collective_timeout`, 30 s in a bare group.
  duration deadline = no_deadline_given;
  /// `deadline` starts anew with whatever moves; set by a strategy where none was given.
  bool by_progress = false;
  /// How f32 elements travel in a reduction. The result is rounded so on every member, and on every
  /// transport.
  kernels::encoding wire = kernels::encoding::plain;
  reduction_order order = reduction_order::rank;
  /// Tensors of at most this size travel together.
  std::size_t bucket_bytes = std::size_t{4} << 20;
  /// The algorithm instead of the table's: for benches and tests.
  std::optional<collective_algorithm> algorithm{};
  /// The caller's name for the operation. Members whose names differ refuse each other, and the
  /// errors quote both.
  std::string what{};
  /// Stands behind `what` in errors; members need not agree on it.
  std::string detail{};
};

/// The place where a member runs. Members of one `process` share memory, those of one `host` can
/// map the same memory; 0 shares nothing with anybody.
struct group_locality {
  std::uint64_t host = 0;
  std::uint64_t process = 0;
  friend bool operator==(const group_locality&, const group_locality&) = default;
};

/// The locality of this process on this machine.
group_locality this_locality();

/// A member as the others find it.
struct collective_member {
  std::uint64_t id = 0; ///< the same in all epochs; no two members have one
  std::string address{};
  std::string name{}; ///< "worker:1", for errors; need not be the same for all
};

/// The counts of a group since it was made.
struct collective_counters {
  std::uint64_t operations = 0;
  std::uint64_t blocks_sent = 0;
  std::uint64_t blocks_received = 0;
  std::uint64_t bytes_sent = 0;      ///< of the data plane, headers included
  std::uint64_t blocks_stale = 0;    ///< of another epoch: read and dropped
  std::uint64_t blocks_refused = 0;  ///< that broke the grammar or belonged to another operation
  std::uint64_t callers_refused = 0; ///< strangers, and members of another epoch
};

} // namespace troupe
