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

/// What a checker says when a rule is broken.
using verdict_sink = std::function<void(std::string rule, std::string text)>;

/// Watches events and says when a rule is broken. Checkers know nothing but events, so that tests
/// can tell them any story.
class checker : public observer {
public:
  void on_event(const observed& what) final { on(what, event_key(what.id)); }
  /// `key`: `event_key(what.id)`, hashed once for all checkers.
  virtual void on(const observed& what, std::uint64_t key) = 0;
  /// The run has ended by itself: what must not be left over?
  virtual void at_end() {}
  /// One line on what still waits, for a run that makes no progress; empty: nothing.
  virtual std::string waiting() const { return {}; }
};

/// What the checkers are told of the run.
struct checker_options {
  std::size_t queue_len_max = 1024;
  std::size_t credits_max = 256; ///< prefetched closures a worker
  std::uint32_t lanes = 1;
  bool infrastructure_errors = false; ///< beyond the guard: they may reach the user
};

/// INV-X1, P1, P2: what closures did to shards.
std::unique_ptr<checker> make_effect_checker(verdict_sink sink, const checker_options& options);
/// INV-X2, X3, and INV-X1 of results: the order in which things happen to closures.
std::unique_ptr<checker> make_order_checker(verdict_sink sink, const checker_options& options);
/// INV-X4: which errors reach the user.
std::unique_ptr<checker> make_error_checker(verdict_sink sink, const checker_options& options);
/// INV-P3, M1: fences, terms and views.
std::unique_ptr<checker> make_fence_checker(verdict_sink sink, const checker_options& options);
/// INV-B1, B2: limits, and what is left over.
std::unique_ptr<checker> make_bound_checker(verdict_sink sink, const checker_options& options);

/// INV-A1: what members of a collective group get.
std::unique_ptr<checker> make_group_checker(verdict_sink sink, const checker_options& options);

/// INV-A1, S2, M1 of synchronous strategies: what replicas apply, in which order, and with whom.
std::unique_ptr<checker> make_replica_checker(verdict_sink sink, const checker_options& options);

/// All of them as one observer.
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
