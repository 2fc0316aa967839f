#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <troupe/sim/observer.hpp>

namespace troupe::sim {

/// What a checker says when a rule is broken.
using verdict_sink = std::function<void(std::string rule, std::string text)>;

/// Watches events and says when a rule is broken. Checkers know nothing but events, so that tests
/// can tell them any story.
class checker : public observer {
public:
  /// The run has ended by itself: what must not be left over?
  virtual void at_end() {}
  /// One line on what still waits, for a run that makes no progress; empty: nothing.
  virtual std::string waiting() const { return {}; }
};

/// What the checkers are told of the run.
struct checker_options {
  std::size_t queue_len_max = 1024;
  std::size_t credits_max = 64; ///< prefetched closures a worker
  std::uint32_t lanes = 1;
  bool infrastructure_errors = false; ///< beyond the guard: they may reach the user
};

/// All of them: INV-X1 to X4, P1 to P3, M1, B1, B2.
std::vector<std::unique_ptr<checker>> make_checkers(verdict_sink sink,
                                                    const checker_options& options);

} // namespace troupe::sim
