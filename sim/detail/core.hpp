#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <troupe/sim/checkers.hpp>
#include <troupe/sim/detail/calendar.hpp>
#include <troupe/sim/detail/machine.hpp>
#include <troupe/sim/detail/network.hpp>
#include <troupe/sim/run_hash.hpp>
#include <troupe/sim/world.hpp>

namespace troupe::sim {

/// Counts by name, found by text without making a string.
class name_counts {
public:
  std::uint64_t& operator[](std::string_view name) {
    auto at = counts_.find(name);
    if (at == counts_.end())
      at = counts_.emplace(std::string{name}, 0).first;
    return at->second;
  }
  std::map<std::string, std::uint64_t> sorted() const { return {counts_.begin(), counts_.end()}; }

private:
  struct text_hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view x) const { return std::hash<std::string_view>{}(x); }
  };
  std::unordered_map<std::string, std::uint64_t, text_hash, std::equal_to<>> counts_{};
};

/// `options` changed as TROUPE_SIM_SEED and TROUPE_SIM_TRACE say.
world_options obey_environment(world_options options);

/// The state of the world, behind `world`.
struct world::core {
  core(world& w, world_options o);
  ~core();

  // -- world_machines.cpp: the cluster --
  machine& add_machine(node_name name, program main);
  machine* find(node_name name);
  void start(machine& m);
  void exit_soon(process_instance& l);
  void finish_exit(process_instance& l);
  void process_ended(process_instance& l);
  void heal_for_the_end();
  runtime_options options_for(const machine& m) const;

  // -- world_actions.cpp --
  bool act(const action& what);
  bool act_on_links(const action& what, machine& a, machine* b);
  bool act_on_machine(const action& what, machine& m);
  bool crash(machine& m, std::int64_t flags, exit_record::how_t how);
  bool pause(machine& m, duration length);
  bool resume(machine& m);
  bool slow(machine& m, std::int64_t factor, duration length);
  void later(duration after, std::function<void()> f);
  void call_at(time_point at, std::function<void()> f);
  void plan(duration since_start, std::function<void()> f);

  // -- world_loop.cpp --
  report run();
  bool step();
  std::size_t count_enabled();
  void execute(std::size_t k);
  void run_task(machine& m, std::size_t k);
  void run_call();
  void after_step();
  time_point next_moment() const;
  report make_report();

  // -- world_checks.cpp --
  void begin_checks();
  void end_checks(outcome how);
  void judge_programs();

  // -- world_trace.cpp --
  void trace(process_instance* of, node_name node, std::uint32_t start, std::string_view id,
             std::span<const trace_field> fields);
  void world_event(std::string_view id, const node_name& node,
                   std::initializer_list<trace_field> fields = {});
  void mark(process_instance& l, std::string_view id);
  void fail(std::string rule, std::string text);
  void print(const observed& what);

  duration since_start() const { return now - begin; }

  world& handle;
  world_options options;
  runtime_options settings{};
  std::unique_ptr<schedule> order;
  std::vector<observer*> observers{};
  std::optional<checker_panel> panel{}; ///< a world built by hand watches itself
  bool checks_over = false;

  time_point now{std::chrono::hours{1}}; // 0 has a meaning of its own for CAF
  const time_point begin = now;
  run_hash hash{};
  calendar events{};
  slots<std::function<void()>> calls{};
  deadlines waits{};
  std::vector<std::unique_ptr<machine>> machines{};
  network net;
  std::uint32_t instances = 0;
  std::uint64_t ready_seq = 0;
  std::size_t planned = 0; ///< actions that are still to come
  std::vector<std::uint32_t> picks{};

  struct mark_action {
    std::string mark{};
    node_name where{};
    std::uint64_t left = 0;
    action what{};
  };
  std::vector<mark_action> mark_actions{};

  // of the current step
  struct enabled {
    machine* of = nullptr;
    std::uint32_t tasks = 0;
    bool timer = false;
  };
  std::vector<enabled> enabled_now{};
  std::deque<std::pair<std::uint32_t, std::uint64_t>> calls_due{}; ///< and since when

  std::uint64_t steps = 0;
  std::uint64_t traced = 0;
  name_counts marks{};
  name_counts event_counts{};
  std::map<action_kind, std::uint64_t> actions_done{};
  std::vector<exit_record> exits{};
  std::vector<violation> violations{};
  bool program_over = false;
  bool ran = false;
};

} // namespace troupe::sim
