// Which errors reach the user.
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <troupe/actors/support/failure_classifier.hpp>
#include <troupe/sim/checkers/support.hpp>

namespace troupe::sim {

namespace {

/// Errors of the cluster's own ways, which a retry can get around.
bool is_infrastructure(errc code) {
  switch (code) {
    case errc::unavailable:
    case errc::deadline:
    case errc::aborted:
    case errc::fenced:
    case errc::superseded:
    case errc::try_again:
    case errc::connection_lost:
    case errc::connect_failed:
    case errc::wrong_shard_view: return true;
    default: return false;
  }
}

class error_checker final : public checker {
public:
  error_checker(verdict_sink sink, const checker_options& options)
    : fail_{std::move(sink)}, options_{options} {}

  void on(const observed& e, std::uint64_t key) override {
    switch (key) {
      case event_key("queue.ended"): return ended(e);
      case event_key("queue.raised"): return raised(e);
      case event_key("queue.join_ended"): return join_ended(e);
      case event_key("coordinator.attempt_failed"): return attempt_failed(e);
      case event_key("coordinator.worker_lost"): return worker_lost(e);
      case event_key("coordinator.worker_joined"):
        if (e.integer("worker") == losing_)
          losing_ = -1;
        return;
      case event_key("queue.dispatched"): term_ = closure_of(e).term; return;
      case event_key("worker.closure_announced"):
      case event_key("worker.closure_started"):
        begun_[closure_of(e)].insert({e.integer("attempt"), e.integer("worker")});
        return;
      case event_key("queue.struck"): return failed_attempt(e);
      case event_key("coordinator.server_lost"): lost_.insert(e.integer("server")); return;
      case event_key("sim.crash"):
      case event_key("sim.left"):
        if (e.node == chief)
          forget();
        return;
      case event_key("membership.began"): return forget();
      default: return;
    }
  }

private:
  struct first_error {
    closure_id closure{};
    std::int64_t code = 0;
    std::string why{};
  };

  void ended(const observed& e) {
    begun_.erase(closure_of(e));
    if (e.integer("status") != ended_as::failed || e.integer("tagged") != 0)
      return;
    if (!first_)
      first_ = first_error{closure_of(e), e.integer("code"), std::string{e.text("why")}};
    auto code = static_cast<errc>(e.integer("code"));
    if (is_infrastructure(code) && !options_.infrastructure_errors
        && !tried_out_.contains(closure_of(e)))
      fail_("INV-X4", to_string(closure_of(e)) + " failed with " + std::string{to_string(code)}
                        + " while a retry was allowed: " + std::string{e.text("why")});
  }

  /// Says whether the classifier's limits allow no further retry, as of this failure.
  void attempt_failed(const observed& e) {
    const failure_classifier::options limits;
    auto job = static_cast<job_kind>(e.integer("from_job"));
    auto over = [&](std::deque<time_point>& seen, std::size_t max) {
      if (seen.empty() || e.at - seen.back() >= limits.hiccup - limits.hiccup / 100)
        seen.push_back(e.at);
      // the coordinator's clock may run a little fast
      while (e.at - seen.front() > limits.window + limits.window / 100)
        seen.pop_front();
      return seen.size() >= max;
    };
    bool over_now = false;
    if (job == job_kind::ps) {
      over_now = over(of_server_[e.integer("from_task")], limits.server_faults_max)
                 || lost_.contains(e.integer("from_task"));
    }
    if (e.text("code") == to_string(errc::deadline))
      over_now |= over(deadlines_, limits.deadline_faults_max);
    if (over_now)
      tried_out_.insert({term_, static_cast<std::uint64_t>(e.integer("closure"))});
  }

  void raised(const observed& e) {
    if (!first_)
      return fail_("INV-X4",
                   "an error was raised that no closure had: " + std::string{e.text("why")});
    if (first_->code != e.integer("code") || first_->why != e.text("why"))
      fail_("INV-X4", "the first error was that of " + to_string(first_->closure) + ", \""
                        + first_->why + "\", raised was \"" + std::string{e.text("why")} + "\"");
    first_.reset();
  }

  /// Nobody says that all is well over an error that was not raised.
  void join_ended(const observed& e) {
    if (first_ && e.integer("code") == value_of(errc::none))
      fail_("INV-X4", "join returned, and \"" + first_->why + "\" of " + to_string(first_->closure)
                        + " was not raised");
  }

  void worker_lost(const observed& e) {
    losing_ = e.integer("worker");
    clean_ = e.integer("clean") != 0;
  }

  /// Only what had begun on a worker gets a failed attempt counted for it, and none for one that
  /// left by itself.
  void failed_attempt(const observed& e) {
    auto at = begun_.find(closure_of(e));
    const auto worker = e.integer("worker");
    const bool there = at != begun_.end() && at->second.contains({e.integer("attempt"), worker});
    if (!there || (worker == losing_ && clean_))
      fail_("INV-X4", to_string(closure_of(e)) + " got a failed attempt counted for worker "
                        + std::to_string(worker) + ", where it was not running");
  }

  void forget() {
    begun_.clear();
    losing_ = -1;
    first_.reset();
    of_server_.clear();
    deadlines_.clear();
    tried_out_.clear();
    lost_.clear();
  }

  verdict_sink fail_;
  checker_options options_;
  std::optional<first_error> first_{};
  std::map<std::int64_t, std::deque<time_point>> of_server_{};
  std::deque<time_point> deadlines_{};
  std::set<closure_id> tried_out_{}; ///< closures whose last failure allowed no further retry
  term_no term_{};
  std::set<std::int64_t> lost_{};
  using attempt_there = std::pair<std::int64_t, std::int64_t>; ///< attempt, worker
  std::map<closure_id, std::set<attempt_there>> begun_{};
  std::int64_t losing_ = -1; ///< the worker that was lost last
  bool clean_ = false;
};

} // namespace

std::unique_ptr<checker> make_error_checker(verdict_sink sink, const checker_options& options) {
  return std::make_unique<error_checker>(std::move(sink), options);
}

} // namespace troupe::sim
