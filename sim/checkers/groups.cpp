// What members of a collective group get, and when they hear that they get nothing.
#include <map>
#include <utility>

#include <troupe/sim/checkers/call_watch.hpp>

namespace troupe::sim {

namespace {

class group_checker final : public checker {
public:
  explicit group_checker(verdict_sink sink) : fail_{std::move(sink)}, calls_{fail_} {}

  void on(const observed& e, std::uint64_t key) override {
    switch (key) {
      case event_key("group.begun"): return calls_.begun(e);
      case event_key("group.result"): return result(e);
      case event_key("group.failed"): return failed(e);
      case event_key("sim.action"): return calls_.disturbed(e);
      case event_key("sim.crash"):
      case event_key("sim.left"): calls_.gone(e.node); return;
      default: return;
    }
  }

private:
  /// An operation as its first member told of it.
  struct operation {
    std::string kind{};
    std::map<std::int64_t, std::int64_t> digests{}; ///< by rank
  };

  void result(const observed& e) {
    calls_.ended(e);
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
    calls_.ended(e);
    auto code = static_cast<errc>(e.integer("code"));
    if (code != errc::peer_lost && code != errc::deadline && code != errc::revoked)
      fail_("INV-A1", to_string(e.node) + ": " + std::string{e.text("what")} + " failed with "
                        + std::string{to_string(code)} + ": " + std::string{e.text("why")});
    else if (e.integer("missing") == 0)
      fail_("INV-A1", to_string(e.node) + ": " + std::string{e.text("what")}
                        + " failed without naming a lost member: " + std::string{e.text("why")});
  }

  verdict_sink fail_;
  call_watch calls_;
  std::map<std::pair<std::int64_t, std::int64_t>, operation> seen_{};
};

} // namespace

std::unique_ptr<checker> make_group_checker(verdict_sink sink, const checker_options&) {
  return std::make_unique<group_checker>(std::move(sink));
}

} // namespace troupe::sim
