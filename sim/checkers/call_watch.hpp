#pragma once

#include <map>
#include <string>
#include <utility>

#include <troupe/sim/checkers/support.hpp>

namespace troupe::sim {

/// Watches calls that have a deadline, one open at a time in each process. A call that does not
/// return in time, on a machine that nothing held up, breaks the rule on collective operations.
class call_watch {
public:
  explicit call_watch(verdict_sink fail) : fail_{std::move(fail)} {}

  /// A call began; the event has `what` and `deadline`.
  void begun(const observed& e) {
    auto& at = open_[e.node] = {
      .what = std::string{e.text("what")}, .at = e.at, .deadline = duration{e.integer("deadline")}};
    if (auto slow = slow_until_.find(e.node); slow != slow_until_.end() && e.at < slow->second)
      at.disturbed = true;
  }

  void ended(const observed& e) {
    auto at = open_.find(e.node);
    if (at == open_.end())
      return;
    constexpr auto slack = std::chrono::milliseconds{500};
    auto took = e.at - at->second.at;
    if (!at->second.disturbed && took > at->second.deadline + slack)
      fail_("INV-A1", to_string(e.node) + " was " + std::to_string(to_ms(took)) + " ms in "
                        + at->second.what + ", " + std::to_string(to_ms(at->second.deadline))
                        + " ms are allowed");
    open_.erase(at);
  }

  /// A `sim.action` hit a machine.
  void disturbed(const observed& e) {
    auto kind = e.text("kind");
    if (kind == "slow")
      slow_until_[e.node] =
        e.integer("length") > 0 ? after(e.at, duration{e.integer("length")}) : never;
    if (kind != "pause" && kind != "slow" && kind != "clock_drift" && kind != "clock_offset")
      return;
    if (auto at = open_.find(e.node); at != open_.end())
      at->second.disturbed = true;
  }

  /// The process has gone, and its call with it.
  void gone(const node_name& who) { open_.erase(who); }

private:
  struct call {
    std::string what{};
    time_point at{};
    duration deadline{};
    bool disturbed = false; ///< its machine stood still or was slow meanwhile
  };
  verdict_sink fail_;
  std::map<node_name, call> open_{};
  std::map<node_name, time_point> slow_until_{};
};

} // namespace troupe::sim
