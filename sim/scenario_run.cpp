#include <troupe/sim/scenario_run.hpp>

namespace troupe::sim {

void scenario_run::phase(process& p, std::string_view what) {
  phases_[p.name()] = what;
  trace(p.env(), "program.phase", {{"what", what}});
}

std::uint32_t scenario_run::sure_worker(std::uint64_t draw) const {
  std::vector<std::uint32_t> all;
  for (const auto& n : spec_.plan.core.members)
    if (n.task.job == job_kind::worker)
      all.push_back(n.task.index);
  if (all.empty())
    return static_cast<std::uint32_t>(draw_stream::scaled(draw, spec_.shape.workers));
  return all[draw_stream::scaled(draw, all.size())];
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
