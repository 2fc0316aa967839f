#include <troupe/sim/tools/swarm.hpp>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include <unistd.h>

#include <troupe/core/random.hpp>
#include <troupe/sim/draws.hpp>
#include <troupe/sim/lists.hpp>
#include <troupe/sim/scenarios/registry.hpp>
#include <troupe/sim/tools/pick_text.hpp>

namespace troupe::sim {

namespace {

using steady = std::chrono::steady_clock;

class swarm {
public:
  using failure_hook = std::function<void(const swarm_failure&)>;
  swarm(const swarm_options& options, const failure_hook& on_failure)
    : options_{options}, on_failure_{on_failure}, pool_{jobs_of(options), options.limits} {}

  swarm_result run() {
    auto begin = steady::now();
    auto until = begin + std::chrono::duration<double>{options_.minutes * 60};
    out_.asked = options_.seeds;
    for (std::uint64_t started = 0; started < options_.seeds || !pool_.idle();) {
      bool open = started < options_.seeds && !(options_.until_failure && !out_.failures.empty())
                  && !(options_.minutes > 0 && steady::now() >= until);
      if (open && !pool_.full())
        start(options_.first_seed + started++);
      else if (!pool_.idle())
        take(pool_.wait());
      else
        break;
    }
    std::sort(out_.failures.begin(), out_.failures.end(),
              [](const auto& a, const auto& b) { return a.seed < b.seed; });
    out_.wall_s = std::chrono::duration<double>{steady::now() - begin}.count();
    return std::move(out_);
  }

private:
  static unsigned jobs_of(const swarm_options& options) {
    return options.jobs > 0 ? options.jobs : std::max(std::thread::hardware_concurrency(), 1u);
  }
  void start(std::uint64_t seed) {
    pool_.start(seed, [&] {
      const auto* s = find_scenario(scenario_of(options_, seed));
      return to_text(run_seed(draw_spec(*s, seed), runs_twice(seed, options_.twice_percent)));
    });
  }
  void take(child_end end) {
    swarm_failure one{.seed = end.key, .scenario = scenario_of(options_, end.key)};
    one.out = outcome_of(std::move(end));
    out_.scenarios[one.scenario].add(one.out);
    for (const auto& [name, n] : one.out.marks)
      out_.marks[name] += n;
    for (const auto& [name, n] : one.out.actions)
      out_.actions[name] += n;
    if (one.out.ok())
      return;
    keep(one);
    on_failure_(one);
    out_.failures.push_back(std::move(one));
  }
  /// Writes its file.
  void keep(swarm_failure& one) const {
    auto path = options_.failures + "/" + one.scenario + "-" + std::to_string(one.seed) + ".json";
    std::error_code why;
    std::filesystem::create_directories(options_.failures, why);
    if (auto ok = write_failure(path, troupe::sim::file_of(one, options_.bug)); ok)
      one.file = path;
    else
      one.unwritten = ok.error().text;
  }

  const swarm_options& options_;
  const failure_hook& on_failure_;
  child_pool pool_;
  swarm_result out_{};
};

double per(double sum, double n) { return n > 0 ? sum / n : 0; }

} // namespace

void scenario_sums::add(const seed_outcome& out) {
  ++seeds;
  failed += out.ok() ? 0 : 1;
  twice += out.twice ? 1 : 0;
  events += out.events;
  closures += out.closures;
  faults += out.faults;
  trouble += out.trouble;
  time_ns += out.time_ns;
  wall_ns += out.wall_ns;
}

void scenario_sums::add(const scenario_sums& other) {
  seeds += other.seeds;
  failed += other.failed;
  twice += other.twice;
  events += other.events;
  closures += other.closures;
  faults += other.faults;
  trouble += other.trouble;
  time_ns += other.time_ns;
  wall_ns += other.wall_ns;
}

scenario_sums swarm_result::total() const {
  scenario_sums out;
  for (const auto& [name, sums] : scenarios)
    out.add(sums);
  return out;
}

std::vector<std::string> swarm_result::too_few() const {
  constexpr std::uint64_t seeds_enough = 20;
  std::vector<std::string> out;
  for (const auto& [name, sums] : scenarios) {
    const auto* s = find_scenario(name);
    if (!s || sums.seeds < seeds_enough)
      continue;
    auto of = name + ", " + std::to_string(sums.seeds) + " seeds: ";
    if (sums.events / sums.seeds < s->events_expected)
      out.push_back(of + std::to_string(sums.events / sums.seeds)
                    + " events per seed, expected at least " + std::to_string(s->events_expected));
    if (!s->fault_free && sums.faults == 0 && sums.trouble == 0)
      out.push_back(of + "no faults injected");
  }
  return out;
}

std::string scenario_of(const swarm_options& options, std::uint64_t seed) {
  if (!options.scenario.empty())
    return options.scenario;
  auto all = all_scenarios();
  return std::string{all[seed % all.size()]->name};
}

bool runs_twice(std::uint64_t seed, std::uint32_t percent) {
  return draw_stream{seed, "twice"}.value(0) % 100 < percent;
}

result<void> check_failures_directory(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code why;
  std::vector<fs::path> made; // by this: gone again, the deepest first
  for (auto p = fs::absolute(path, why); !fs::exists(p, why) && p.has_relative_path();
       p = p.parent_path())
    if (p.has_filename())
      made.push_back(p);
  fs::create_directories(path, why);
  auto probe = path + "/.troupe-sim-" + std::to_string(::getpid());
  result<void> out;
  if (!fs::is_directory(path, why) || !write_failure(probe, {}))
    out = make_failure(errc::io_failed, path + ": cannot write to the directory");
  fs::remove(probe, why);
  for (const auto& p : made)
    fs::remove(p, why);
  return out;
}

swarm_result run_swarm(const swarm_options& options,
                       const std::function<void(const swarm_failure&)>& on_failure) {
  return swarm{options, on_failure}.run();
}

failure_file file_of(const swarm_failure& failed, const std::string& bug) {
  failure_file out;
  out.spec = draw_spec(*find_scenario(failed.scenario), failed.seed);
  out.invariant = failed.out.rule;
  out.text = failed.out.text;
  out.hash = failed.out.hash;
  out.events = failed.out.events;
  out.bug = bug;
  out.build = build_text();
  out.commit = commit_text();
  if (auto picks = picks_from_text(failed.out.picks); picks && !picks->empty())
    out.spec.picks = std::move(*picks); // its order stays the one that was drawn
  return out;
}

// --- figures

void print_marks(std::FILE* to, const std::map<std::string, std::uint64_t>& hits) {
  auto rest = hits;
  for (const auto& mark : known_marks()) {
    auto at = rest.find(std::string{mark.id});
    std::fprintf(to, "%-36.*s %10llu  %.*s\n", static_cast<int>(mark.id.size()), mark.id.data(),
                 static_cast<unsigned long long>(at == rest.end() ? 0 : at->second),
                 static_cast<int>(mark.text.size()), mark.text.data());
    if (at != rest.end())
      rest.erase(at);
  }
  for (const auto& [name, n] : rest)
    std::fprintf(to, "%-36s %10llu  (not in the list)\n", name.c_str(),
                 static_cast<unsigned long long>(n));
}

namespace {

void print_speed(std::FILE* to, const swarm_result& result) {
  auto all = result.total();
  double inside = static_cast<double>(all.wall_ns) / 1e9;
  auto of = result.asked > all.seeds ? " of " + std::to_string(result.asked) : std::string{};
  std::fprintf(to, "%llu%s seeds in %.1f s, %llu failed, %llu run twice\n",
               static_cast<unsigned long long>(all.seeds), of.c_str(), result.wall_s,
               static_cast<unsigned long long>(all.failed),
               static_cast<unsigned long long>(all.twice));
  std::fprintf(to,
               "speed: %.0f world steps/s and %.0f simulated seconds per wall second on one core, "
               "%.0f seeds/hour\n",
               per(static_cast<double>(all.events), inside),
               per(static_cast<double>(all.time_ns) / 1e9, inside),
               per(static_cast<double>(all.seeds) * 3600, result.wall_s));
  std::string never;
  for (const auto& mark : known_marks())
    if (!result.marks.contains(std::string{mark.id}))
      never += (never.empty() ? "" : ", ") + std::string{mark.id};
  std::fprintf(to, "marks never hit: %s\n", never.empty() ? "none" : never.c_str());
}

void print_scenarios(std::FILE* to, const swarm_result& result) {
  std::fprintf(to, "%-28s %7s %7s %10s %10s %8s %9s %9s\n", "scenario", "seeds", "failed", "events",
               "closures", "faults", "bad steps", "ms");
  for (const auto& [name, sums] : result.scenarios) {
    auto n = static_cast<double>(sums.seeds);
    std::fprintf(
      to, "%-28s %7llu %7llu %10.0f %10.1f %8.2f %9.2f %9.1f\n", name.c_str(),
      static_cast<unsigned long long>(sums.seeds), static_cast<unsigned long long>(sums.failed),
      per(static_cast<double>(sums.events), n), per(static_cast<double>(sums.closures), n),
      per(static_cast<double>(sums.faults), n), per(static_cast<double>(sums.trouble), n),
      per(static_cast<double>(sums.wall_ns) / 1e6, n));
  }
}

} // namespace

void print(std::FILE* to, const swarm_result& result) {
  print_speed(to, result);
  std::fputs("means per seed:\n", to);
  print_scenarios(to, result);
  std::string line;
  for (std::uint8_t i = 0; i <= static_cast<std::uint8_t>(action_kind::slow_io); ++i) {
    std::string name{to_string(static_cast<action_kind>(i))};
    auto at = result.actions.find(name);
    line += (line.empty() ? "" : ", ") + name + " "
            + std::to_string(at == result.actions.end() ? 0 : at->second);
  }
  std::fprintf(to, "faults: %s, step_trouble %llu\n", line.c_str(),
               static_cast<unsigned long long>(result.total().trouble));
  for (const auto& line : result.too_few())
    std::fprintf(to, "few: %s\n", line.c_str());
}

} // namespace troupe::sim
