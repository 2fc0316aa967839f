#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/sim/scenario.hpp>

namespace troupe::sim {

/// Makes a plan happen: the faults of the safety phase, then the liveness phase. Also stands for
/// whoever starts processes again: a worker whose process left by itself comes back after a while.
/// Checks that the program returns within its time, and that while it runs every worker of the core
/// is a member again within `rejoin_bound`.
class liveness_driver final : public observer {
public:
  /// Several retries of a dial and a hello, each with its own time-out.
  static constexpr duration rejoin_bound = std::chrono::seconds{20};

  /// `due`: when the program must have returned. `waiting`: who waits for what.
  liveness_driver(world& w, const run_spec& spec, duration due,
                  std::function<std::string()> waiting);
  /// Plans the faults. Once, before the run.
  void plan();
  void on_event(const observed& what) override;
  void on_mark(const node_name& where, std::string_view mark) override;
  /// Faults of the plan that had an effect. What the liveness phase does is none.
  const std::map<action_kind, std::uint64_t>& done() const { return done_; }

private:
  bool inject(const action& what);
  void heal();
  void heal_machine(const node_name& n);
  void forsake(const node_name& n);
  void start_again(const node_name& n, std::uint32_t start, int tries);
  bool may_start(const node_name& n) const;
  void note_membership(const observed& what);
  void check_members();

  world& world_;
  const run_spec& spec_;
  duration due_;
  std::function<std::string()> waiting_;
  struct at_mark {
    const fault* what = nullptr;
    std::uint64_t left = 0;
  };
  std::set<node_name> core_{};
  std::vector<at_mark> at_marks_{};
  std::map<action_kind, std::uint64_t> done_{};
  std::map<node_name, duration> outside_{}; ///< workers that are up and no members: since when
  bool is_cluster_ = false; ///< somebody has joined; members of a bare group never do
  bool healed_ = false;
};

} // namespace troupe::sim
