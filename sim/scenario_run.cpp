#include <troupe/sim/scenario_run.hpp>

namespace troupe::sim {

void scenario_run::phase(process& p, std::string_view what) {
  phases_[p.name()] = what;
  trace(p.env(), "program.phase", {{"what", what}});
}

void scenario_run::expect(bool holds, std::string_view rule, const std::string& text) {
  if (!holds)
    world_->fail(std::string{rule}, text);
}

void scenario_run::ended_with(process& p, const error& why) {
  named_end_ = why.what();
  phases_[p.name()] = "nothing: it ended with " + named_end_;
  trace(p.env(), "program.ended_with", {{"code", why.code()}, {"why", named_end_}});
  if (!scenario_.beyond_guard)
    world_->fail("named-error", "the program ended with " + named_end_);
}

std::string scenario_run::phases() const {
  std::string out;
  for (const auto& [node, what] : phases_)
    out += to_string(node) + " is in " + what + "; ";
  return out;
}

} // namespace troupe::sim
