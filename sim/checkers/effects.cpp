// What closures did to shards.
#include <map>
#include <set>
#include <utility>

#include <troupe/actors/shards/ledger.hpp>
#include <troupe/sim/checkers/support.hpp>

namespace troupe::sim {

namespace {

class effect_checker final : public checker {
public:
  explicit effect_checker(verdict_sink sink) : fail_{std::move(sink)} {}

  void on(const observed& e, std::uint64_t key) override {
    last_ = e.at;
    switch (key) {
      case event_key("server.shard_made"): return made(e);
      case event_key("server.applied"): return applied(e);
      case event_key("server.cleared"): return forget(e.node);
      case event_key("sim.crash"):
      case event_key("sim.left"): return went(e);
      case event_key("coordinator.server_lost"):
        unannounced_.erase(server{static_cast<std::uint32_t>(e.integer("server"))});
        return;
      case event_key("client.pushed"): return pushed(e);
      case event_key("client.acked"): return acked(e);
      case event_key("queue.ended"): return ended(e);
      case event_key("membership.began"): unannounced_.clear(); return;
      default: return;
    }
  }

  void at_end() override {
    for (const auto& [who, when] : unannounced_)
      if (last_ - when > announced_within)
        fail_("INV-P1", to_string(who) + " went with what it had applied, and its coordinator"
                          + " never said so");
  }

private:
  static constexpr duration announced_within = std::chrono::seconds{15};
  using place = std::pair<std::int64_t, std::int64_t>; // variable, shard
  struct effect {
    closure_id closure{};
    std::int64_t op = 0;
    friend auto operator<=>(const effect&, const effect&) = default;
  };
  struct shard_model {
    node_name home{};
    std::set<effect> applied{};
    std::int64_t version = 0;
    /// What was there before its server lost it, which its owner is told.
    std::set<effect> rolled_back{};
  };
  struct push {
    std::int64_t variable = 0;
    std::int64_t op = 0;
    std::int64_t shards = 0;
  };

  static effect effect_of(const observed& e) { return {closure_of(e), e.integer("op")}; }

  void made(const observed& e) {
    auto& s = shards_[{e.integer("variable"), e.integer("shard")}];
    s.home = e.node;
    s.rolled_back.merge(std::exchange(s.applied, {}));
    s.version = 0;
  }

  void applied(const observed& e) {
    auto& s = shards_[{e.integer("variable"), e.integer("shard")}];
    s.home = e.node;
    auto version = e.integer("version");
    auto what = to_string(closure_of(e)) + " op " + std::to_string(e.integer("op")) + " attempt "
                + std::to_string(e.integer("attempt")) + " on variable "
                + std::to_string(e.integer("variable")) + " shard "
                + std::to_string(e.integer("shard"));
    if (!s.applied.insert(effect_of(e)).second)
      fail_("INV-P2", what + " was applied a second time, as version " + std::to_string(version));
    if (version <= s.version)
      fail_("INV-P2", what + " made version " + std::to_string(version) + " after "
                        + std::to_string(s.version));
    s.version = version;
  }

  void forget(const node_name& server) {
    for (auto& [at, s] : shards_)
      if (s.home == server) {
        s.rolled_back.merge(std::exchange(s.applied, {}));
        s.version = 0;
      }
  }

  /// A server takes what it had along, of which its coordinator must hear; a coordinator that goes
  /// itself needs not.
  void went(const observed& e) {
    if (e.node == chief)
      unannounced_.clear();
    if (!is_server(e.node))
      return;
    for (const auto& [at, s] : shards_)
      if (s.home == e.node && !s.applied.empty())
        unannounced_.emplace(e.node, e.at);
    forget(e.node);
  }

  /// Its servers have said that they have it: so it is there, whatever becomes of the closure.
  void acked(const observed& e) {
    auto id = closure_of(e);
    auto at = pushes_.find({id, e.integer("attempt")});
    if (at == pushes_.end())
      return;
    for (const auto& p : at->second)
      for (std::int64_t shard = 0; shard < p.shards; ++shard)
        look_for("INV-P1", id, p, shard, " was acknowledged");
    if (is_program_call(id))
      pushes_.erase(at);
  }

  void pushed(const observed& e) {
    auto id = closure_of(e);
    pushes_[{id, e.integer("attempt")}].push_back(
      {e.integer("variable"), e.integer("op"), e.integer("shards")});
  }

  /// A closure that finished: every operation of its attempt is on every shard.
  void ended(const observed& e) {
    auto id = closure_of(e);
    if (e.integer("status") == ended_as::ready)
      if (auto at = pushes_.find({id, e.integer("attempt")}); at != pushes_.end())
        for (const auto& p : at->second)
          for (std::int64_t shard = 0; shard < p.shards; ++shard)
            look_for("INV-X1", id, p, shard, " finished");
    pushes_.erase(pushes_.lower_bound({id, 0}), pushes_.upper_bound({id, INT64_MAX}));
  }

  void look_for(const char* rule, const closure_id& id, const push& p, std::int64_t shard,
                const char* what) {
    effect wanted{id, p.op};
    auto at = shards_.find({p.variable, shard});
    if (at != shards_.end()
        && (at->second.applied.contains(wanted) || at->second.rolled_back.contains(wanted)))
      return;

    fail_(rule, to_string(id) + what + ", but its op " + std::to_string(p.op)
                  + " is not in variable " + std::to_string(p.variable) + " shard "
                  + std::to_string(shard));
  }

  verdict_sink fail_;
  std::map<place, shard_model> shards_{};
  std::map<std::pair<closure_id, std::int64_t>, std::vector<push>> pushes_{};
  std::map<node_name, time_point> unannounced_{};
  time_point last_{};
};

} // namespace

std::unique_ptr<checker> make_effect_checker(verdict_sink sink, const checker_options&) {
  return std::make_unique<effect_checker>(std::move(sink));
}

} // namespace troupe::sim
