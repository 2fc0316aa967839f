#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <troupe/core/time.hpp>
#include <troupe/sim/names.hpp>
#include <troupe/transport/collective_types.hpp>

namespace troupe::sim {

/// Plans the members of the next epoch of a collective group: stands for a membership service in
/// scenarios about groups alone. Knows which machines are up, and otherwise what members report.
class group_registry {
public:
  struct epoch_plan {
    group_epoch epoch{};
    std::vector<collective_member> members{};
  };
  /// A member outside of any epoch.
  struct arrival {
    node_name node{};
    std::uint64_t id = 0;
    std::string address{};
    /// The members that it missed when its last epoch ended; none: it is new.
    std::vector<std::uint64_t> missing{};
  };

  explicit group_registry(std::size_t machines) : machines_{machines} {}

  /// Tells that `who` waits for a plan from now on.
  void arrive(duration now, arrival who);
  /// The plan that `id` belongs to and has not seen, once there is one. `is_up`: of a machine.
  template <class IsUp>
  std::optional<epoch_plan> plan_for(duration now, std::uint64_t id, IsUp is_up) {
    if (waiting_.contains(id) && may_close(now, is_up))
      close(now);
    if (waiting_.contains(id) || !inside_.contains(id))
      return {};
    return plan_;
  }
  /// Whether someone waits whom a running epoch should make room for.
  bool someone_waits(duration now) const;
  /// Tells that member `id` needs no further epoch.
  void leave(duration now, std::uint64_t id);

private:
  template <class IsUp>
  bool may_close(duration now, IsUp is_up) const {
    bool all_out = true;
    for (const auto& [id, node] : inside_)
      all_out &= !is_up(node) || restarted(id, node) || gives_up_on_those_inside(now);
    return all_out && gathered(now);
  }
  bool restarted(std::uint64_t id, const node_name& node) const;
  bool gives_up_on_those_inside(duration now) const;
  bool gathered(duration now) const;
  bool held(duration now, const node_name& node) const;
  void hold(duration now, const std::vector<std::uint64_t>& missing);
  void close(duration now);

  std::size_t machines_;
  std::size_t left_ = 0;
  epoch_plan plan_{};
  std::map<std::uint64_t, node_name> inside_{}; ///< of the plan, and not back from it
  std::map<std::uint64_t, arrival> waiting_{};
  duration first_out_{-1};     ///< when the first came back from the plan's epoch
  duration first_waiting_{-1}; ///< when the first of those that wait arrived
  struct penalty {
    duration until{};
    duration length{};
  };
  std::map<node_name, penalty> held_{}; ///< those whom others could not reach
};

} // namespace troupe::sim
