// The order in which things happen to closures, and the results of finished ones.
#include <map>
#include <set>
#include <utility>

#include <troupe/actors/shards/ledger.hpp>
#include <troupe/sim/checkers/support.hpp>

namespace troupe::sim {

namespace {

class order_checker final : public checker {
public:
  explicit order_checker(verdict_sink sink) : fail_{std::move(sink)} {}

  void on(const observed& e, std::uint64_t key) override {
    switch (key) {
      case event_key("queue.accepted"): return accepted(e);
      case event_key("queue.dispatched"): return dispatched(e);
      case event_key("queue.put_back"): return put_back(e);
      case event_key("queue.ended"): return ended(e);
      case event_key("queue.stopped"): stopped_.insert(e.integer("term")); return;
      case event_key("queue.join_begun"): joins_.insert(e.integer("upto")); return;
      case event_key("queue.join_ended"): return joined(e);
      case event_key("worker.closure_ended"): return attempt_ended(e);
      case event_key("server.applied"): return applied(e);
      case event_key("coordinator.server_lost"):
        void_.insert(server{static_cast<std::uint32_t>(e.integer("server"))});
        return;
      case event_key("server.cleared"):
      case event_key("sim.start"): void_.erase(e.node); return;
      case event_key("sim.crash"):
      case event_key("sim.left"):
      case event_key("sim.exit"):
        if (e.node == chief)
          program_gone();
        return;
      case event_key("membership.began"):
        program_gone();
        ++reign_;
        return;
      default: return;
    }
  }

  std::string waiting() const override {
    std::string out;
    if (!joins_.empty())
      out += "join waits for closures up to " + std::to_string(*joins_.rbegin()) + "; ";
    std::size_t n = 0;
    for (const auto& id : open_) {
      const auto& c = closures_.at(id);
      if (++n > names_max)
        break;
      out += to_string(id)
             + (c.flying ? " is on worker " + std::to_string(c.worker) + " as attempt "
                             + std::to_string(c.attempt) + " since "
                             + std::to_string(to_ms(c.since.time_since_epoch())) + " ms"
                         : " is queued after " + std::to_string(c.attempt) + " attempts")
             + "; ";
    }
    if (open_.size() > names_max)
      out += std::to_string(open_.size() - names_max) + " more; ";
    return out;
  }

private:
  static constexpr std::size_t names_max = 4;
  struct closure_model {
    std::uint32_t instance = 0; ///< of the coordinator's process
    std::uint64_t reign = 0;    ///< in it
    bool flying = false;
    bool done = false;
    std::int64_t status = 0;
    std::int64_t attempt = 0;
    std::int64_t worker = 0;
    time_point since{};
    std::set<std::int64_t> finished{}; ///< attempts that said so
  };

  void accepted(const observed& e) {
    auto id = closure_of(e);
    auto [at, fresh] = closures_.try_emplace(id);
    if (!fresh && at->second.instance == e.start && at->second.reign == reign_)
      fail_("INV-X2", to_string(id) + " was accepted before");
    at->second = {.instance = e.start,
                  .reign = reign_}; // where nobody is left who knew the term, it may come again
    open_.insert(id);
  }

  closure_model* find(const observed& e, const char* what) {
    auto at = closures_.find(closure_of(e));
    if (at != closures_.end())
      return &at->second;
    fail_("INV-X2", to_string(closure_of(e)) + " was " + what + " and never accepted");
    return nullptr;
  }

  void dispatched(const observed& e) {
    auto* c = find(e, "dispatched");
    if (!c)
      return;
    auto id = to_string(closure_of(e));
    if (c->done)
      fail_("INV-X3", id + " was dispatched after its end");
    if (c->flying)
      fail_("INV-X3", id + " was dispatched to two workers at once");
    if (e.integer("attempt") != c->attempt + 1)
      fail_("INV-X2", id + " went from attempt " + std::to_string(c->attempt) + " to "
                        + std::to_string(e.integer("attempt")));
    c->flying = true;
    c->attempt = e.integer("attempt");
    c->worker = e.integer("worker");
    c->since = e.at;
  }

  void put_back(const observed& e) {
    if (auto* c = find(e, "put back")) {
      if (!c->flying)
        fail_("INV-X3", to_string(closure_of(e)) + " came back without having been dispatched");
      c->flying = false;
    }
  }

  void attempt_ended(const observed& e) {
    auto at = closures_.find(closure_of(e));
    if (at != closures_.end() && e.integer("outcome") == 0)
      at->second.finished.insert(e.integer("attempt"));
  }

  void ended(const observed& e) {
    if (e.integer("tagged") != 0)
      return;
    auto* c = find(e, "ended");
    if (!c)
      return;
    auto id = closure_of(e);
    if (c->done)
      fail_("INV-X3", to_string(id) + " ended twice");
    c->done = true;
    c->status = e.integer("status");
    open_.erase(id);
    if (c->status == ended_as::ready && !c->finished.contains(c->attempt))
      fail_("INV-X1", to_string(id) + " is ready, but its attempt " + std::to_string(c->attempt)
                        + " has not finished");
    c->flying = false;
    c->finished.clear();
  }

  void joined(const observed& e) {
    auto upto = e.integer("upto");
    if (auto at = joins_.find(upto); at != joins_.end())
      joins_.erase(at);
    auto code = static_cast<errc>(e.integer("code"));
    if (code == errc::deadline || code == errc::unavailable || open_.empty())
      return;
    auto first = *open_.begin();
    if (static_cast<std::int64_t>(value_of(first.term)) == e.integer("term")
        && static_cast<std::int64_t>(first.seq) <= upto)
      fail_("INV-X3", "join over closures up to " + std::to_string(upto) + " returned while "
                        + to_string(first) + " had not ended");
  }

  void applied(const observed& e) {
    auto id = closure_of(e);
    if (is_program_call(id) || id.seq == 0 || void_.contains(e.node))
      return;
    auto* c = find(e, "applied");
    if (!c)
      return;
    if (e.integer("attempt") > c->attempt)
      fail_("INV-X2", to_string(id) + " had an effect of attempt "
                        + std::to_string(e.integer("attempt")) + ", dispatched are "
                        + std::to_string(c->attempt));
    if (c->done && c->status != ended_as::ready && !stopped_.contains(e.integer("term")))
      fail_("INV-X2", to_string(id) + " had an effect on variable "
                        + std::to_string(e.integer("variable")) + " shard "
                        + std::to_string(e.integer("shard"))
                        + " after its failure or cancellation was confirmed");
  }

  /// Nobody waits any more; what it had scheduled ends with it.
  void program_gone() {
    for (const auto& id : open_)
      stopped_.insert(value_of(id.term));
    open_.clear();
    joins_.clear();
  }

  verdict_sink fail_;
  std::map<closure_id, closure_model> closures_{};
  std::uint64_t reign_ = 0; ///< coordinators so far: a process may be several, one after another
  std::set<closure_id> open_{};
  std::multiset<std::int64_t> joins_{}; ///< in progress
  std::set<node_name> void_{};          ///< servers that are lost and don't know it yet
  std::set<std::int64_t> stopped_{};    ///< terms that ended without confirming
};

} // namespace

std::unique_ptr<checker> make_order_checker(verdict_sink sink, const checker_options&) {
  return std::make_unique<order_checker>(std::move(sink));
}

} // namespace troupe::sim
