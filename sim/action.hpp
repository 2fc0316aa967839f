#pragma once

#include <cstdint>
#include <string_view>

#include <troupe/core/time.hpp>
#include <troupe/sim/names.hpp>

/// Actions on a simulated cluster, as plain data: fault schedules are lists of these.
namespace troupe::sim {

enum class action_kind : std::uint8_t {
  // processes
  crash = 0,   ///< the process ends without a word; `flags`: see `crash_flag`
  restart = 1, ///< a new process on the machine, if none runs there
  pause = 2,   ///< not scheduled, links keep buffering; with `length`: until then
  resume = 3,
  slow = 4, ///< everything there takes `amount` times as long; with `length`: until then
  // links; `length` 0: until `heal`
  partition = 5,         ///< between `target` and `other`
  partition_one_way = 6, ///< from `target` to `other`
  isolate = 7,           ///< `target` from all others
  heal = 8,              ///< all partitions, stalls and delays between the two
  heal_all = 9,
  reset = 10, ///< all connections between the two end; what is under way is lost
  stall = 11, ///< from `target` to `other` nothing moves for `length`; unlike in a partition no
              ///< system gives the connection up meanwhile, and all arrives in order after it
  delay = 12, ///< from `target` to `other` everything takes `amount` ns longer
  // clocks
  /// The wall time of `target` moves by `amount` ms. No production code reads wall time today
  /// (`clock_port::unix_ms`): it has no effect before some does.
  clock_offset = 13,
  clock_drift = 14, ///< clocks of `target` run `amount` ppm fast
  // storage of `target`; `amount`: how many operations (0: one)
  torn_write = 15, ///< a write leaves half its bytes and fails
  io_error = 16,
  no_space = 17,
  bit_flip = 18, ///< reads answer with one bit flipped
  slow_io = 19,  ///< operations take `length` each; `amount`: how many
};
inline constexpr std::uint8_t action_kinds = 20;

enum crash_flag : std::int64_t {
  crash_plain = 0,          ///< peers see the sockets end; what was under way arrives
  crash_loses_sent = 1,     ///< what was under way is lost
  crash_silent = 2,         ///< the machine goes: nobody is told before it comes back
  crash_keeps_unsynced = 4, ///< the machine lives: unsynced writes are not lost
};

enum reset_flag : std::int64_t {
  reset_all = 0,
  reset_channels = 1, ///< only those of the data plane: both remain members
};

struct action {
  action_kind kind = action_kind::crash;
  node_name target{};
  node_name other{};
  duration length{};
  std::int64_t amount = 0;
  std::int64_t flags = 0;
  friend bool operator==(const action&, const action&) = default;
};

/// "crash", "partition_one_way", ...
std::string_view to_string(action_kind kind);

} // namespace troupe::sim
