#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

/// Choice of what runs next: strategies over the set of what could run.
namespace troupe::sim {

/// Something that could run now.
struct choice {
  enum kind_t : std::uint8_t { actor, thread, timer, link, call } kind = actor;
  std::uint32_t machine = 0;
  /// Number of an actor or thread, stable over its process instance; of a link: its sender.
  std::uint64_t task = 0;
  std::uint64_t since = 0; ///< lower: could run earlier
};

/// All choices in a fixed order. Valid during one pick.
class choices {
public:
  virtual ~choices() = default;
  virtual std::size_t size() const = 0;
  virtual choice at(std::size_t i) const = 0;
  /// The choice that could run for the longest time.
  virtual std::size_t oldest() const = 0;
};

class schedule {
public:
  virtual ~schedule() = default;
  /// An index below `among.size()`, which is at least 2.
  virtual std::size_t pick(const choices& among) = 0;
};

/// The value of `choices::oldest()` in recorded picks.
inline constexpr std::uint32_t fifo_pick = 0xffffffffu;

/// A schedule in the order in which things became ready.
std::unique_ptr<schedule> make_fifo_schedule();
/// A schedule whose picks are uniform.
std::unique_ptr<schedule> make_random_schedule(std::uint64_t seed);
/// A schedule by random priorities of actors, threads and machines' timers; at `changes` of the
/// first `steps` picks the running one falls behind all others. Source: Burckhardt et al. 2010
/// (PCT).
std::unique_ptr<schedule> make_pct_schedule(std::uint64_t seed, std::uint32_t changes,
                                            std::uint64_t steps);
/// A schedule of the recorded picks, then FIFO. A pick that does not fit is FIFO too.
std::unique_ptr<schedule> make_replay_schedule(std::vector<std::uint32_t> picks);

} // namespace troupe::sim
