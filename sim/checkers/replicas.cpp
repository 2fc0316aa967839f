// What replicas of synchronous strategies apply, in which order, and with whom. A session is one
// strategy of one or several processes; all its members call it by the same number.
#include <map>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include <troupe/sim/checkers/call_watch.hpp>

namespace troupe::sim {

namespace {

class replica_checker final : public checker {
public:
  explicit replica_checker(verdict_sink sink) : fail_{std::move(sink)}, calls_{fail_} {}

  void on(const observed& e, std::uint64_t key) override {
    switch (key) {
      case event_key("replica.life"): return entered(e);
      case event_key("replica.applied"): return applied(e);
      case event_key("replica.begun"): return calls_.begun(e);
      case event_key("replica.ended"): return calls_.ended(e);
      case event_key("replica.failed"): return failed(e);
      case event_key("replica.misdeed"): excused_ = true; return;
      case event_key("sim.action"): return disturbed(e);
      case event_key("sim.crash"):
      case event_key("sim.left"):
        excused_ = true;
        calls_.gone(e.node);
        sessions_of_.erase(e.node);
        return;
      default: return;
    }
  }

private:
  /// A strategy as its first member told of it.
  struct session {
    std::string starts{};
    std::int64_t first_step = 0;
    std::int64_t replicas = 0;
    std::map<std::int64_t, std::map<std::int64_t, std::int64_t>> got{}; ///< by step and replica
  };

  // -- who steps with whom

  void entered(const observed& e) {
    const auto number = e.integer("life");
    const auto starts = std::string{e.text("starts")};
    auto& at = sessions_[number];
    if (at.starts.empty())
      at = {.starts = starts, .first_step = e.integer("step"), .replicas = e.integer("replicas")};
    if (at.starts != starts || at.first_step != e.integer("step")
        || at.replicas != e.integer("replicas"))
      fail_("INV-M1", to_string(e.node) + " begins at step " + std::to_string(e.integer("step"))
                        + " with the processes " + starts + ", another one at step "
                        + std::to_string(at.first_step) + " with " + at.starts);
    auto now = numbers_of(starts);
    auto& before = seen_[e.node];
    for (std::size_t i = 0; i < before.size() && i < now.size(); ++i)
      if (now[i] < before[i])
        fail_("INV-M1", to_string(e.node) + " steps with process " + std::to_string(now[i])
                          + " of worker " + std::to_string(i) + ", after it has met process "
                          + std::to_string(before[i]));
    before = std::move(now);
    if (!sessions_of_[e.node].insert(number).second)
      fail_("INV-M1", to_string(e.node) + " enters the same strategy twice");
    current_[e.node] = number;
  }

  static std::vector<int> numbers_of(const std::string& text) {
    std::istringstream in{text};
    std::vector<int> out;
    for (int x = 0; in >> x;)
      out.push_back(x);
    return out;
  }

  void applied(const observed& e) {
    const auto number = e.integer("life");
    const auto step = e.integer("step");
    const auto replica = e.integer("replica");
    const auto who =
      to_string(e.node) + ": replica " + std::to_string(replica) + ", step " + std::to_string(step);
    if (current_[e.node] != number)
      fail_("INV-M1", who + " is applied by a strategy that another one has followed");
    if (e.integer("got") != e.integer("wanted"))
      fail_("INV-A1", who + " got something else than the replicas gave");
    auto& at = sessions_[number];
    // a step that failed late is done again, with the strategy that it failed with
    at.got[step][replica] = e.integer("got");
    for (const auto& [other, digest] : at.got[step])
      if (digest != e.integer("got"))
        fail_("INV-A1", who + " and replica " + std::to_string(other) + " got different bits");
    if (step > at.first_step && !begins_anew(at, step)
        && static_cast<std::int64_t>(at.got[step - 1].size()) < at.replicas)
      fail_("INV-S2", who + " is applied, and step " + std::to_string(step - 1) + " only by "
                        + std::to_string(at.got[step - 1].size()) + " of "
                        + std::to_string(at.replicas) + " replicas");
  }

  /// The first step after a restore within a session: nobody did the one before in it.
  static bool begins_anew(session& at, std::int64_t step) { return at.got[step - 1].empty(); }

  // -- calls, and what they end with

  void failed(const observed& e) {
    const auto why = std::string{e.text("why")};
    const auto code = static_cast<errc>(e.integer("code"));
    const auto told = to_string(e.node) + ": " + std::string{to_string(code)} + ": " + why;
    if (!excused_)
      fail_("INV-A1", told + ", and nothing had happened");
    switch (code) {
      case errc::peer_lost:
      case errc::deadline:
        if (why.find("(id ") == std::string::npos && why.find("replica ") == std::string::npos
            && why.find("waits for {") == std::string::npos
            && why.find("worker ") == std::string::npos && why.find("worker:") == std::string::npos)
          fail_("INV-A1", told + ": names nobody");
        return;
      case errc::mismatch:
      case errc::revoked:
      case errc::cancelled:
      case errc::unavailable:
      case errc::user_code:
      case errc::not_found: return;
      default: fail_("INV-A1", told);
    }
  }

  void disturbed(const observed& e) {
    excused_ = excused_ || e.text("kind") != "restart";
    calls_.disturbed(e);
  }

  verdict_sink fail_;
  bool excused_ = false;
  std::map<std::int64_t, session> sessions_{};
  std::map<node_name, std::vector<int>> seen_{}; ///< newest process of each worker that it met
  std::map<node_name, std::set<std::int64_t>> sessions_of_{};
  std::map<node_name, std::int64_t> current_{};
  call_watch calls_;
};

} // namespace

std::unique_ptr<checker> make_replica_checker(verdict_sink sink, const checker_options&) {
  return std::make_unique<replica_checker>(std::move(sink));
}

} // namespace troupe::sim
