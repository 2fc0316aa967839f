#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <troupe/core/time.hpp>
#include <troupe/sim/detail/network.hpp>
#include <troupe/sim/detail/process_instance.hpp>
#include <troupe/sim/process.hpp>
#include <troupe/sim/storage.hpp>

namespace troupe::sim {

/// A machine's clock: runs `ppm` fast since the last change; wall time is another `offset` away.
class machine_clock {
public:
  machine_clock(time_point world, time_point local) : world_{world}, local_{local} {}
  time_point local(time_point world) const {
    auto d = (world - world_).count();
    return local_ + duration{d + scaled(d, ppm_, million)};
  }
  /// The first moment of the world at which `local` has come.
  time_point world_at(time_point local_time) const {
    if (local_time == never)
      return never;
    auto d = (local_time - local_).count();
    auto guess = world_ + duration{d - scaled(d, ppm_, million + ppm_)};
    while (local(guess) < local_time)
      guess += duration{1};
    return guess;
  }
  void set_drift(time_point world, std::int64_t ppm) {
    local_ = local(world);
    world_ = world;
    ppm_ = ppm;
  }
  std::int64_t offset_ms = 0;

private:
  static constexpr std::int64_t million = 1'000'000;
  static std::int64_t scaled(std::int64_t x, std::int64_t by, std::int64_t over) {
    if (by == 0)
      return 0;
    __extension__ using wide = __int128;
    return static_cast<std::int64_t>(static_cast<wide>(x) * by / over);
  }
  time_point world_;
  time_point local_;
  std::int64_t ppm_ = 0;
};

/// A host, which stays while processes come and go.
struct machine {
  machine(std::uint32_t i, node_name n, program p, machine_clock c, std::uint64_t seed)
    : index{i}, name{n}, host{to_string(n)}, main{std::move(p)}, clock{c}, disk{seed, host} {}
  bool runs() const { return now && now->is_up() && !paused; }

  const std::uint32_t index;
  const node_name name;
  const std::string host;
  const program main;
  machine_clock clock;
  sim_disk disk;
  std::unique_ptr<process_instance> now{};               ///< the last process started here
  std::vector<std::unique_ptr<process_instance>> dead{}; ///< kept: see `world`
  std::uint32_t starts = 0;
  std::uint16_t next_port = 20'000;
  std::int64_t slow = 1;
  std::uint64_t slow_round = 0; ///< counts changes, so that only the last one is undone
  std::uint64_t pause_round = 0;
  bool paused = false;
  bool off = false;                  ///< crashed silently: answers nothing
  std::vector<std::uint32_t> held{}; ///< packets that came while it was paused
  std::vector<troupe::sim::unanswered> unanswered{};
  time_point busy_until{};  ///< its actors and threads share one processor
  bool starts_first = true; ///< when the run begins
};

} // namespace troupe::sim
