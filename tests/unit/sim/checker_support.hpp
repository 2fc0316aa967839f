#pragma once

#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <troupe/sim/checkers.hpp>

/// Tells checkers stories: events as hand-written lists.
namespace troupe::sim::testing {

class story {
public:
  using maker = std::unique_ptr<checker> (*)(verdict_sink, const checker_options&);

  explicit story(maker make, checker_options options = {})
    : checker_{make(
      [this](std::string rule, std::string text) { verdicts_.emplace_back(std::move(rule), text); },
      options)} {}

  story& at(duration when) {
    now_ = time_point{} + when;
    return *this;
  }
  /// From now on another process of that machine.
  story& restart(node_name n) {
    ++starts_[n];
    return *this;
  }
  story& tell(node_name who, std::string_view id, std::initializer_list<trace_field> fields = {}) {
    auto at = starts_.find(who);
    checker_->on_event({.at = now_,
                        .node = who,
                        .start = at == starts_.end() ? 1 : at->second + 1,
                        .number = ++number_,
                        .id = id,
                        .fields = {fields.begin(), fields.size()}});
    return *this;
  }
  story& end() {
    checker_->at_end();
    return *this;
  }

  // -- what many stories tell --

  story& accepted(int closure) {
    return tell(chief, "queue.accepted",
                {{"term", 1}, {"closure", closure}, {"priority", 0}, {"queued", 0}});
  }
  story& dispatched(int closure, int attempt, int to = 0) {
    return tell(chief, "queue.dispatched",
                {{"term", 1}, {"closure", closure}, {"attempt", attempt}, {"worker", to}});
  }
  story& put_back(int closure) {
    return tell(chief, "queue.put_back",
                {{"term", 1}, {"closure", closure}, {"reason", 1}, {"strikes", 1}});
  }
  story& attempt_ended(int closure, int attempt, int outcome = 0) {
    return tell(worker{0}, "worker.closure_ended",
                {{"term", 1},
                 {"closure", closure},
                 {"attempt", attempt},
                 {"worker", 0},
                 {"outcome", outcome},
                 {"code", 0}});
  }
  story& ended(int closure, int attempt, std::int64_t status, errc code = errc::none,
               const char* why = "") {
    return tell(chief, "queue.ended",
                {{"term", 1},
                 {"closure", closure},
                 {"attempt", attempt},
                 {"status", status},
                 {"tagged", 0},
                 {"code", code},
                 {"why", why}});
  }
  story& pushed(int closure, int attempt, int op, int shards) {
    return tell(worker{0}, "client.pushed",
                {{"term", 1},
                 {"closure", closure},
                 {"attempt", attempt},
                 {"variable", 7},
                 {"op", op},
                 {"shards", shards}});
  }
  story& applied(int closure, int attempt, int op, int shard, int version, int incarnation = 1,
                 int term = 1) {
    return tell(server{0}, "server.applied",
                {{"term", term},
                 {"closure", closure},
                 {"op", op},
                 {"attempt", attempt},
                 {"variable", 7},
                 {"shard", shard},
                 {"bytes", 8},
                 {"job", job_kind::worker},
                 {"task", 0},
                 {"incarnation", incarnation},
                 {"version", version}});
  }

  bool is_good() const { return verdicts_.empty(); }
  /// The rules that were broken, in order, with spaces between.
  std::string rules() const {
    std::string out;
    for (const auto& [rule, text] : verdicts_)
      out += (out.empty() ? "" : " ") + rule;
    return out;
  }
  std::string waiting() const { return checker_->waiting(); }

private:
  std::unique_ptr<checker> checker_;
  std::vector<std::pair<std::string, std::string>> verdicts_{};
  std::map<node_name, std::uint32_t> starts_{};
  time_point now_{std::chrono::hours{1}};
  std::uint64_t number_ = 0;
};

inline constexpr std::int64_t ready = 1, failed = 2, cancelled = 3;

} // namespace troupe::sim::testing
