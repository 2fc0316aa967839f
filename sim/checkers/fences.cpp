// Fences, terms and views.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <troupe/sim/checkers/support.hpp>

namespace troupe::sim {

namespace {

class fence_checker final : public checker {
public:
  explicit fence_checker(verdict_sink sink) : fail_{std::move(sink)} {}

  void on(const observed& e, std::uint64_t key) override {
    switch (key) {
      case event_key("membership.began"): ++reigns_[instance_of(e)]; return;
      case event_key("membership.joined"): return joined(e);
      case event_key("membership.lost"): return lost(e);
      case event_key("member.admitted"): return admitted(e);
      case event_key("member.view"): return saw_view(e);
      case event_key("server.term_granted"): return granted(e);
      case event_key("server.applied"): return applied(e);
      case event_key("queue.dispatched"): return dispatched(e);
      case event_key("sim.crash"):
      case event_key("sim.left"):
      case event_key("sim.exit"): gone_.insert(instance_of(e)); return;
      default: return;
    }
  }

private:
  struct loss {
    std::int64_t epoch = 0;
    std::int64_t counter = 0;
  };
  /// One coordinator: a process may be several, one after another.
  struct reign_key {
    instance_key instance{};
    std::uint32_t nth = 0;
    friend auto operator<=>(const reign_key&, const reign_key&) = default;
  };
  reign_key reign_of(const observed& e) { return {instance_of(e), reigns_[instance_of(e)]}; }

  /// What one coordinator's membership did.
  struct author {
    std::int64_t epoch = 0;
    std::map<std::string, std::int64_t, std::less<>> live{}; ///< task: counter
    std::map<std::string, std::vector<loss>, std::less<>> lost{};
  };
  /// Who dispatched in a term, and the servers that had granted it then.
  struct reign {
    reign_key coordinator{};
    std::set<instance_key> granted_by{};
  };
  /// What one instance of a member knows.
  struct member_model {
    reign_key author{}; ///< start 0: none yet
    std::int64_t nonce = 0;
    std::int64_t epoch = 0;
    std::int64_t term = 0;    ///< of its views
    std::int64_t granted = 0; ///< servers: the highest term
  };

  void grow(author& a, const observed& e, const char* what) {
    auto epoch = e.integer("epoch");
    if (epoch < a.epoch)
      fail_("INV-M1", std::string{what} + " in epoch " + std::to_string(epoch) + " after epoch "
                        + std::to_string(a.epoch));
    a.epoch = epoch;
  }

  void joined(const observed& e) {
    auto& a = authors_[reign_of(e)];
    grow(a, e, "a join");
    seats_[e.integer("nonce")] = reign_of(e);
    auto task = std::string{e.text("task")};
    auto counter = e.integer("incarnation");
    auto at = a.live.find(task);
    if (at != a.live.end() && at->second != counter)
      fail_("INV-M1", task + " incarnation " + std::to_string(counter) + " joined while "
                        + std::to_string(at->second) + " was a member");
    for (const auto& l : a.lost[task])
      if (counter <= l.counter)
        fail_("INV-M1",
              task + " incarnation " + std::to_string(counter) + " joined after its fence");
    a.live[task] = counter;
  }

  void lost(const observed& e) {
    auto& a = authors_[reign_of(e)];
    grow(a, e, "a loss");
    a.live.erase(std::string{e.text("task")});
    a.lost[std::string{e.text("task")}].push_back({e.integer("epoch"), e.integer("incarnation")});
  }

  void admitted(const observed& e) {
    auto& m = members_[instance_of(e)];
    auto at = seats_.find(e.integer("nonce"));
    if (at == seats_.end())
      return fail_("INV-M1",
                   std::string{e.text("task")} + " was admitted without a coordinator's welcome");
    if (m.author.instance.start != 0 && at->second < m.author)
      fail_("INV-M1", std::string{e.text("task")} + " went back to an earlier coordinator");
    m.author = at->second;
    m.nonce = e.integer("nonce");
    m.epoch = e.integer("epoch");
    m.term = e.integer("term");
  }

  void saw_view(const observed& e) {
    auto& m = members_[instance_of(e)];
    if (e.integer("nonce") != m.nonce)
      return;
    if (e.integer("epoch") < m.epoch || e.integer("term") < m.term)
      fail_("INV-M1", std::string{e.text("task")} + " went from term " + std::to_string(m.term)
                        + " epoch " + std::to_string(m.epoch) + " back to term "
                        + std::to_string(e.integer("term")) + " epoch "
                        + std::to_string(e.integer("epoch")));
    m.epoch = e.integer("epoch");
    m.term = e.integer("term");
  }

  void granted(const observed& e) {
    auto term = e.integer("term");
    auto& m = members_[instance_of(e)];
    if (term < m.granted)
      fail_("INV-M1", to_string(e.node) + " granted term " + std::to_string(term) + " after "
                        + std::to_string(m.granted));
    m.granted = std::max(m.granted, term);
    auto [at, fresh] = holders_.try_emplace({instance_of(e), term}, e.integer("holder"));
    if (!fresh && at->second != e.integer("holder"))
      fail_("INV-M1",
            to_string(e.node) + " granted term " + std::to_string(term) + " to two coordinators");
  }

  void dispatched(const observed& e) {
    auto term = e.integer("term");
    auto [at, fresh] = acting_.try_emplace(term, reign{reign_of(e), {}});
    if (!fresh && at->second.coordinator != reign_of(e)) {
      // where all who had granted it are gone, nobody knows of the term
      if (std::any_of(at->second.granted_by.begin(), at->second.granted_by.end(),
                      [this](const instance_key& s) { return !gone_.contains(s); }))
        fail_("INV-M1", "two coordinators dispatched in term " + std::to_string(term));
      at->second = {reign_of(e), {}};
      fresh = true;
    }
    if (fresh)
      for (const auto& [key, holder] : holders_)
        if (key.second == term && !gone_.contains(key.first))
          at->second.granted_by.insert(key.first);
    if (fresh && at != acting_.begin() && reign_of(e) < std::prev(at)->second.coordinator)
      fail_("INV-M1", "an older coordinator acts in the higher term " + std::to_string(term));
  }

  void applied(const observed& e) {
    auto& m = members_[instance_of(e)];
    auto what = to_string(closure_of(e)) + " op " + std::to_string(e.integer("op"));
    if (e.integer("term") < m.granted)
      fail_("INV-P3", what + " of term " + std::to_string(e.integer("term"))
                        + " changed a shard of " + to_string(e.node) + ", which obeys term "
                        + std::to_string(m.granted));
    if (static_cast<job_kind>(e.integer("job")) != job_kind::worker || m.author.instance.start == 0)
      return;
    task_id sender{job_kind::worker, static_cast<std::uint32_t>(e.integer("task"))};
    const auto& all = authors_[m.author].lost;
    auto at = all.find(troupe::to_string(sender));
    if (at == all.end())
      return;
    for (const auto& l : at->second)
      if (l.epoch <= m.epoch && e.integer("incarnation") <= l.counter)
        return fail_("INV-P3", what + " of the fenced " + troupe::to_string(sender)
                                 + " incarnation " + std::to_string(e.integer("incarnation"))
                                 + " changed a shard of " + to_string(e.node)
                                 + ", which knows epoch " + std::to_string(m.epoch));
  }

  verdict_sink fail_;
  std::map<instance_key, std::uint32_t> reigns_{};
  std::map<reign_key, author> authors_{};
  std::map<std::int64_t, reign_key> seats_{}; ///< nonce: who admitted it
  std::map<instance_key, member_model> members_{};
  std::map<std::pair<instance_key, std::int64_t>, std::int64_t> holders_{}; ///< of terms
  std::set<instance_key> gone_{};
  std::map<std::int64_t, reign> acting_{}; ///< term: who dispatched
};

} // namespace

std::unique_ptr<checker> make_fence_checker(verdict_sink sink, const checker_options&) {
  return std::make_unique<fence_checker>(std::move(sink));
}

} // namespace troupe::sim
