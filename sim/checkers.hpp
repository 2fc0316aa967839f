#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <troupe/sim/draws.hpp>
#include <troupe/sim/observer.hpp>

namespace troupe::sim {

/// An event's id as a number, for `switch`.
constexpr std::uint64_t event_key(std::string_view id) { return hash_text(id); }

/// Takes a checker's verdict: the id of the broken rule and a text.
using verdict_sink = std::function<void(std::string rule, std::string text)>;

/// Watches events and reports broken rules; `known_invariants` lists the rules by id. Checkers know
/// nothing but events, so that tests can give them any sequence.
class checker : public observer {
public:
  void on_event(const observed& what) final { on(what, event_key(what.id)); }
  /// `key`: `event_key(what.id)`, hashed once for all checkers.
  virtual void on(const observed& what, std::uint64_t key) = 0;
  /// Called when the run has ended by itself: checks what must not be left over.
  virtual void at_end() {}
  /// A line on what still waits, for a run that makes no progress; empty: nothing.
  virtual std::string waiting() const { return {}; }
};

/// Facts on the run, for the checkers.
struct checker_options {
  std::size_t queue_len_max = 1024;
  std::size_t credits_max = 256; ///< prefetched closures a worker
  std::uint32_t threads = 1;
  bool infrastructure_errors = false; ///< beyond the guard: they may reach the user
};

/// Checks the effects of closures on shards: each finished closure has effect once on every shard.
std::unique_ptr<checker> make_effect_checker(verdict_sink sink, const checker_options& options);
/// Checks the order of events of closures: dispatch, end, `join`, and results of the right attempt.
std::unique_ptr<checker> make_order_checker(verdict_sink sink, const checker_options& options);
/// Checks which errors reach the user.
std::unique_ptr<checker> make_error_checker(verdict_sink sink, const checker_options& options);
/// Checks fences, terms and views.
std::unique_ptr<checker> make_fence_checker(verdict_sink sink, const checker_options& options);
/// Checks limits, and that nothing is left open at the end.
std::unique_ptr<checker> make_bound_checker(verdict_sink sink, const checker_options& options);

/// Checks the results of members of a collective group.
std::unique_ptr<checker> make_group_checker(verdict_sink sink, const checker_options& options);

/// Checks synchronous strategies: what replicas apply, in which order, and with whom.
std::unique_ptr<checker> make_replica_checker(verdict_sink sink, const checker_options& options);

/// All checkers as one observer.
class checker_panel final : public observer {
public:
  checker_panel(verdict_sink sink, const checker_options& options);
  void on_event(const observed& what) override;
  void at_end();
  std::string waiting() const;

private:
  std::vector<std::unique_ptr<checker>> all_{};
};

} // namespace troupe::sim
