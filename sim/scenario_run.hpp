#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/sim/scenario.hpp>
#include <troupe/sim/step_dice.hpp>

namespace troupe::sim {

/// The state that a scenario's programs share with the run around them. Outlives the world.
class scenario_run {
public:
  scenario_run(const scenario& s, const run_spec& spec) : scenario_{s}, spec_{spec} {}
  scenario_run(const scenario_run&) = delete;
  scenario_run& operator=(const scenario_run&) = delete;
  /// The world that `build` fills; made after this, ended before it.
  void attach(world& w) { world_ = &w; }

  world& cluster() { return *world_; }
  const run_spec& spec() const { return spec_; }
  const cluster_shape& shape() const { return spec_.shape; }
  const scenario& which() const { return scenario_; }
  /// The dice of the scenario's steps.
  step_dice dice() const { return step_dice::of(spec_.seed, spec_.plan.steps); }
  /// A worker that is sure to be there in the end.
  std::uint32_t sure_worker(std::uint64_t draw) const;
  /// A stream of draws for the program's own choices.
  draw_stream draws(std::string_view purpose) const { return {spec_.seed, purpose}; }

  /// An object of the scenario's own that all its programs see, over crashes too.
  template <class T>
  std::shared_ptr<T> share() {
    auto out = std::make_shared<T>();
    kept_.push_back(out);
    return out;
  }

  /// Keeps an object of the scenario that is made elsewhere.
  void keep(std::shared_ptr<void> object) { kept_.push_back(std::move(object)); }

  // -- the program reports --

  /// Tells what the program waits for now: named when the run gets stuck.
  void phase(process& p, std::string_view what);
  /// Breaks `rule` unless `holds`.
  void expect(bool holds, std::string_view rule, const std::string& text);
  /// Tells that the program ended with a named error: the allowed end beyond the guard.
  void ended_with(process& p, const error& why);
  /// The text of `ended_with`; empty: the program did not end so.
  const std::string& named_end() const { return named_end_; }
  /// The last `phase` of each process.
  std::string phases() const;

private:
  world* world_ = nullptr;
  const scenario& scenario_;
  const run_spec& spec_;
  std::vector<std::shared_ptr<void>> kept_{};
  std::map<node_name, std::string> phases_{};
  std::string named_end_{};
};

} // namespace troupe::sim
