// INV-X1, P1, P2: what closures did to shards.
#include <map>
#include <set>
#include <utility>

#include <troupe/actors/ledger.hpp>
#include <troupe/sim/checkers/support.hpp>

namespace troupe::sim {

namespace {

class effect_checker final : public checker {
public:
  explicit effect_checker(verdict_sink sink) : fail_{std::move(sink)} {}

  void on(const observed& e, std::uint64_t key) override {
    switch (key) {
      case event_key("server.shard_made"): return made(e);
      case event_key("server.applied"): return applied(e);
      case event_key("server.cleared"):
      case event_key("sim.crash"):
      case event_key("sim.left"):
        if (is_server(e.node))
          forget(e.node);
        return;
      case event_key("client.pushed"): return pushed(e);
      case event_key("queue.ended"): return ended(e);
      default: return;
    }
  }

private:
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

  void pushed(const observed& e) {
    auto id = closure_of(e);
    if (is_program_call(id))
      return;
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
            look_for(id, p, shard);
    pushes_.erase(pushes_.lower_bound({id, 0}), pushes_.upper_bound({id, INT64_MAX}));
  }

  void look_for(const closure_id& id, const push& p, std::int64_t shard) {
    effect wanted{id, p.op};
    auto at = shards_.find({p.variable, shard});
    if (at != shards_.end()
        && (at->second.applied.contains(wanted) || at->second.rolled_back.contains(wanted)))
      return;
    fail_("INV-X1", to_string(id) + " finished, but its op " + std::to_string(p.op)
                      + " is not in variable " + std::to_string(p.variable) + " shard "
                      + std::to_string(shard));
  }

  verdict_sink fail_;
  std::map<place, shard_model> shards_{};
  std::map<std::pair<closure_id, std::int64_t>, std::vector<push>> pushes_{};
};

} // namespace

std::unique_ptr<checker> make_effect_checker(verdict_sink sink, const checker_options&) {
  return std::make_unique<effect_checker>(std::move(sink));
}

} // namespace troupe::sim
