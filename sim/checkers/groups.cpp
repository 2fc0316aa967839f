// INV-A1: what members of a collective group get, and when they hear that they get nothing.
#include <map>
#include <utility>

#include <troupe/sim/checkers/support.hpp>

namespace troupe::sim {

namespace {

class group_checker final : public checker {
public:
  explicit group_checker(verdict_sink sink) : fail_{std::move(sink)} {}

  void on(const observed& e, std::uint64_t key) override {
    switch (key) {
      case event_key("group.begun"): return begun(e);
      case event_key("group.result"): return result(e);
      case event_key("group.failed"): return failed(e);
      case event_key("sim.action"): return disturbed(e);
      case event_key("sim.crash"):
      case event_key("sim.left"): open_.erase(e.node); return;
      default: return;
    }
  }

private:
  /// A call that has not returned.
  struct call {
    time_point at{};
    duration deadline{};
    bool disturbed = false; ///< its machine stood still or was slow meanwhile
  };
  /// An operation as its first member told of it.
  struct operation {
    std::string kind{};
    std::map<std::int64_t, std::int64_t> digests{}; ///< by rank
  };

  void begun(const observed& e) {
    open_[e.node] = {.at = e.at, .deadline = duration{e.integer("deadline")}};
    if (auto slow = slow_until_.find(e.node); slow != slow_until_.end() && e.at < slow->second)
      open_[e.node].disturbed = true;
  }

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

  void ended(const observed& e) {
    auto at = open_.find(e.node);
    if (at == open_.end())
      return;
    constexpr auto slack = std::chrono::milliseconds{500};
    auto took = e.at - at->second.at;
    if (!at->second.disturbed && took > at->second.deadline + slack)
      fail_("INV-A1", to_string(e.node) + " waited " + std::to_string(to_ms(took))
                        + " ms in an operation with a deadline of "
                        + std::to_string(to_ms(at->second.deadline)) + " ms");
    open_.erase(at);
  }

  void result(const observed& e) {
    ended(e);
    auto name = "operation " + std::to_string(e.integer("number")) + " of epoch "
                + std::to_string(e.integer("epoch"));
    if (e.integer("digest") != e.integer("expected"))
      fail_("INV-A1", to_string(e.node) + " got something else from " + name + " ("
                        + std::string{e.text("kind")} + ") than the members gave");
    auto& op = seen_[{e.integer("epoch"), e.integer("number")}];
    if (op.digests.empty())
      op.kind = std::string{e.text("kind")};
    if (op.kind != e.text("kind"))
      fail_("INV-A1", name + " was " + op.kind + " on one member and " + std::string{e.text("kind")}
                        + " on another");
    bool common = op.kind == "all_reduce" || op.kind == "all_gather" || op.kind == "broadcast";
    for (const auto& [rank, digest] : op.digests)
      if (common && digest != e.integer("digest"))
        fail_("INV-A1", name + ": ranks " + std::to_string(rank) + " and "
                          + std::to_string(e.integer("rank")) + " got different bits");
    if (!op.digests.emplace(e.integer("rank"), e.integer("digest")).second)
      fail_("INV-A1", name + ": two members have rank " + std::to_string(e.integer("rank")));
  }

  void failed(const observed& e) {
    ended(e);
    auto code = static_cast<errc>(e.integer("code"));
    if (code != errc::peer_lost && code != errc::deadline && code != errc::revoked)
      fail_("INV-A1", to_string(e.node) + ": " + std::string{e.text("what")} + " failed with "
                        + std::string{to_string(code)} + ": " + std::string{e.text("why")});
    else if (e.integer("missing") == 0)
      fail_("INV-A1", to_string(e.node) + ": " + std::string{e.text("what")}
                        + " failed and names nobody: " + std::string{e.text("why")});
  }

  verdict_sink fail_;
  std::map<node_name, call> open_{};
  std::map<node_name, time_point> slow_until_{};
  std::map<std::pair<std::int64_t, std::int64_t>, operation> seen_{};
};

} // namespace

std::unique_ptr<checker> make_group_checker(verdict_sink sink, const checker_options&) {
  return std::make_unique<group_checker>(std::move(sink));
}

} // namespace troupe::sim
