// Limits, and what is left over.
#include <map>
#include <set>
#include <utility>

#include <troupe/sim/checkers/support.hpp>

namespace troupe::sim {

namespace {

class bound_checker final : public checker {
public:
  bound_checker(verdict_sink sink, const checker_options& options)
    : fail_{std::move(sink)}, options_{options} {}

  void on(const observed& e, std::uint64_t key) override {
    switch (key) {
      case event_key("queue.accepted"): return accepted(e);
      case event_key("queue.dispatched"): return dispatched(e);
      case event_key("queue.put_back"):
      case event_key("queue.ended"): return landed(e);
      case event_key("queue.join_begun"): ++joins_; return;
      case event_key("queue.join_ended"): --joins_; return;
      case event_key("sim.crash"):
      case event_key("sim.left"):
        if (e.node == chief)
          begin_anew();
        return;
      case event_key("membership.began"): return begin_anew();
      default: return;
    }
  }

  void at_end() override {
    if (!open_.empty())
      fail_("INV-B2", std::to_string(open_.size()) + " closures never ended, first "
                        + to_string(*open_.begin()));
    if (joins_ != 0)
      fail_("INV-B2", std::to_string(joins_) + " joins never returned");
  }

private:
  void accepted(const observed& e) {
    auto queued = static_cast<std::size_t>(e.integer("queued"));
    if (queued >= options_.queue_len_max)
      fail_("INV-B1", to_string(closure_of(e)) + " was accepted with " + std::to_string(queued)
                        + " queued, " + std::to_string(options_.queue_len_max) + " are allowed");
    open_.insert(closure_of(e));
  }

  void dispatched(const observed& e) {
    auto worker = e.integer("worker");
    auto n = ++on_worker_[worker];
    worker_of_[closure_of(e)] = worker;
    if (n > options_.credits_max + options_.threads)
      fail_("INV-B1", "worker " + std::to_string(worker) + " has " + std::to_string(n)
                        + " closures, at most " + std::to_string(options_.credits_max) + " and "
                        + std::to_string(options_.threads) + " running are allowed");
  }

  void landed(const observed& e) {
    auto id = closure_of(e);
    if (auto at = worker_of_.find(id); at != worker_of_.end()) {
      --on_worker_[at->second];
      worker_of_.erase(at);
    }
    if (e.id == "queue.ended")
      open_.erase(id);
  }

  /// What the last coordinator had, went with it.
  void begin_anew() {
    open_.clear();
    worker_of_.clear();
    on_worker_.clear();
    joins_ = 0;
  }

  verdict_sink fail_;
  checker_options options_;
  std::set<closure_id> open_{};
  std::map<closure_id, std::int64_t> worker_of_{};
  std::map<std::int64_t, std::size_t> on_worker_{};
  std::int64_t joins_ = 0;
};

} // namespace

std::unique_ptr<checker> make_bound_checker(verdict_sink sink, const checker_options& options) {
  return std::make_unique<bound_checker>(std::move(sink), options);
}

// --- all
// -------------------------------------------------------------------------------------------------

checker_panel::checker_panel(verdict_sink sink, const checker_options& options) {
  for (auto make :
       {&make_effect_checker, &make_order_checker, &make_error_checker, &make_fence_checker,
        &make_bound_checker, &make_group_checker, &make_replica_checker})
    all_.push_back(make(sink, options));
}

void checker_panel::on_event(const observed& what) {
  auto key = event_key(what.id);
  for (auto& one : all_)
    one->on(what, key);
}

void checker_panel::at_end() {
  for (auto& one : all_)
    one->at_end();
}

std::string checker_panel::waiting() const {
  std::string out;
  for (const auto& one : all_)
    out += one->waiting();
  return out;
}

} // namespace troupe::sim
