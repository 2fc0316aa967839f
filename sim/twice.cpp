#include <troupe/sim/twice.hpp>

#include <memory>
#include <random>
#include <vector>

#include <troupe/sim/replay.hpp>

namespace troupe::sim {

namespace {

/// Blocks of many sizes, half of them free, in an order of their own: what is made after this
/// stands at other addresses, and in another order of addresses, than before. It is what shows a
/// program that depends on them.
class shaken_heap {
public:
  shaken_heap() {
    std::minstd_rand draw{12'345};
    for (int i = 0; i < 4'000; ++i)
      blocks_.push_back(std::make_unique<char[]>(16 + draw() % 500));
    for (std::size_t i = blocks_.size(); i > 1; --i)
      std::swap(blocks_[i - 1], blocks_[draw() % i]);
    blocks_.resize(blocks_.size() / 2);
  }

private:
  std::vector<std::unique_ptr<char[]>> blocks_{};
};

/// Two that see the same run.
class both final : public observer {
public:
  both(observer& one, observer* other) : one_{one}, other_{other} {}
  void on_event(const observed& what) override {
    one_.on_event(what);
    if (other_)
      other_->on_event(what);
  }
  void on_mark(const node_name& node, std::string_view mark) override {
    one_.on_mark(node, mark);
    if (other_)
      other_->on_mark(node, mark);
  }

private:
  observer& one_;
  observer* other_;
};

} // namespace

compared_run::compared_run(const scenario& s, run_spec spec, const run_settings& settings)
  : scenario_{s}, spec_{std::move(spec)}, settings_{settings}, first_{run(settings_, log_)} {}

run_result compared_run::run(run_settings settings, event_log& to) {
  both watch{to, settings.also};
  settings.also = &watch;
  return run_scenario(scenario_, spec_, settings);
}

std::string compared_run::again(bool record_picks) {
  auto settings = settings_;
  settings.trace_to = nullptr;
  settings.also = nullptr;
  settings.record_picks = record_picks;
  shaken_heap elsewhere;
  event_log log;
  second_ = run(settings, log);
  if (auto parted = event_log::difference(log_, log))
    return *parted;
  if (first_.rep.hash != second_.rep.hash)
    return "same events, different hash: steps or bytes of frames differ";
  return first_.rule() == second_.rule() ? "" : "same hash, different invariant: " + second_.rule();
}

run_result run_twice(const scenario& s, const run_spec& spec, const run_settings& settings) {
  compared_run run{s, spec, settings};
  auto parted = run.again();
  auto out = run.first();
  if (!parted.empty())
    out.rep.violations.push_back(
      {"INV-D1", "two runs of this seed differ: " + parted, out.rep.time});
  return out;
}

std::string why_failed(const scenario& s, std::uint64_t seed) {
  seed = seed_or(seed);
  auto out =
    run_scenario(s, draw_spec(s, seed), {.trace_to = trace_is_wanted() ? stdout : nullptr});
  if (out.ok())
    return {};
  return std::string{s.name} + " seed " + std::to_string(seed) + ": " + out.text()
         + "\nreplay: " + replay_here(seed);
}

} // namespace troupe::sim
