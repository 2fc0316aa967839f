#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include <troupe/actors/coordinator/closure_queue.hpp>

namespace troupe {

/// Keeps account of which ends the servers know of. A server forgets a closure, and refuses what is
/// still on its way for it, once a completion watermark says that the closure has ended. So the
/// ends of most closures are gathered into a list now and then, and an end that the user may hear
/// of only when no server can apply anything of the closure any more is held back until every
/// server has acknowledged a list without it. No CAF, clocks or locks; one thread.
///
/// Invariants: lists are numbered 1, 2, 3, ...; a list of `next_list` names no closure whose end is
/// held back; `take_confirmed` returns an end at most once, and only if every server that is there
/// has acknowledged a list made after `hold`.
class settlement {
public:
  // -- servers --

  /// A server is there that has acknowledged nothing.
  void server_joined(std::uint32_t server) { acknowledged_[server] = 0; }
  /// A server has granted the term: it holds nothing that the lists so far speak of.
  void server_granted(std::uint32_t server) { acknowledged_[server] = list_no_; }
  /// Nobody waits for that server any more.
  void server_lost(std::uint32_t server) { acknowledged_.erase(server); }
  /// A server has pruned by this list. Does nothing for one that is not there.
  void acknowledged(std::uint32_t server, std::uint64_t list_no);

  // -- when a list is due --

  void note_ended(std::size_t attempts) { ends_since_list_ += attempts; }
  /// Attempts that ended and that no list has told of.
  std::uint64_t ends_since_list() const { return ends_since_list_; }
  /// Whether to set the timer after which what has ended is told in any case: something has, and no
  /// timer runs. From then on one runs.
  bool start_timer();
  /// The timer ran out. Whether to send a list.
  bool timer_ended();

  // -- ends that are held back --

  void hold(closure_end end) { held_.push_back({.end = std::move(end)}); }
  std::size_t held() const { return held_.size(); }
  /// Whether an end is held back that no list has told of.
  bool list_wanted() const;
  /// Numbers the next list.
  /// @param of_queue  `closure_queue::settled()`: held ends, which are in flight for the queue, are
  ///                  taken out of it
  std::uint64_t next_list(completion_watermark& of_queue);
  /// The ends that all servers have acknowledged by now, in the order held; without a server all
  /// that a list has told of.
  std::vector<closure_end> take_confirmed();

private:
  struct held_end {
    closure_end end{};
    std::uint64_t list_no = 0; ///< the first list without it; 0: none yet
  };
  std::map<std::uint32_t, std::uint64_t> acknowledged_{}; ///< by server: the last list
  std::vector<held_end> held_{};
  std::uint64_t list_no_ = 0;
  std::uint64_t ends_since_list_ = 0;
  bool timer_runs_ = false;
};

} // namespace troupe
