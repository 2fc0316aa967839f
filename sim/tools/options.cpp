#include <troupe/sim/tools/options.hpp>

#include <algorithm>
#include <charconv>
#include <limits>
#include <sstream>

#include <CLI/CLI.hpp>

#include <troupe/core/nearest_word.hpp>
#include <troupe/sim/scenarios/registry.hpp>

namespace troupe::sim {

namespace {

constexpr std::uint64_t seeds_max = 1'000'000'000;

/// A whole number of 64 bits: the library would take -1 and 2^64 for 2^64 - 1.
CLI::Validator seed_number() {
  auto why = [](const std::string& text) {
    std::uint64_t x = 0;
    auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), x);
    return wrong == std::errc{} && end == text.data() + text.size()
             ? std::string{}
             : "'" + text + "' is not an integer from 0 to 18446744073709551615";
  };
  return {why, "SEED", "seed"};
}

void add_seeds(CLI::App& app, swarm_options& to) {
  app.add_option("--seeds", to.seeds, "number of seeds (default 1000)")
    ->check(seed_number())
    ->check(CLI::Range(1ul, seeds_max));
  app.add_option("--first-seed", to.first_seed, "first seed (default 1)")->check(seed_number());
  app.add_option("--scenario", to.scenario, "scenario to run (default: all, in turn)");
  app.add_option("--jobs", to.jobs, "seeds run in parallel (default: one per core)")
    ->check(CLI::Range(1, 1'024));
}

void add_limits(CLI::App& app, child_limits& to, std::int64_t& wall_s, std::size_t& memory_mb) {
  wall_s = std::chrono::duration_cast<std::chrono::seconds>(to.wall).count();
  memory_mb = to.memory_bytes >> 20;
  app
    .add_option("--seed-seconds", wall_s,
                "wall-clock limit per seed in seconds; longer runs fail (default 60)")
    ->check(CLI::Range(1, 86'400));
  app
    .add_option("--seed-mb", memory_mb,
                "memory limit per seed in MiB; larger runs fail (default 4096)")
    ->check(CLI::Range(64, 1'048'576));
}

/// What flags fill in before it becomes a command.
struct raw {
  run_command run{};
  swarm_command swarm{};
  replay_command_options replay{};
  shrink_command shrink{};
  list_command list{};
  std::string list_what{"scenarios"};
  std::string bug{};
  std::int64_t wall_s = 0;
  std::size_t memory_mb = 0;
};

CLI::App* add_run(CLI::App& app, raw& r) {
  auto* run = app.add_subcommand(
    "run", "run one seed of a scenario; exits with 1 when an invariant is violated");
  run->add_option("scenario", r.run.scenario)->required();
  run->add_option("--seed", r.run.seed, "seed (default 1)")->check(seed_number());
  run->add_flag("--trace", r.run.trace, "print one line per event");
  run->add_flag("--faults", r.run.faults, "print the planned faults");
  return run;
}

CLI::App* add_swarm(CLI::App& app, raw& r) {
  auto* swarm = app.add_subcommand("swarm", "run many seeds, each in its own process");
  auto& o = r.swarm.swarm;
  add_seeds(*swarm, o);
  swarm->add_option("--minutes", o.minutes, "start no new seed after this many minutes")
    ->check(CLI::Range(0.001, 100'000.0));
  swarm
    ->add_option("--twice", o.twice_percent,
                 "percentage of seeds run twice to check determinism (default 5)")
    ->check(CLI::Range(0, 100));
  swarm->add_flag("--until-failure", o.until_failure, "stop at the first failure");
  swarm->add_option("--failures", o.failures,
                    "directory for replay files of failed seeds (default sim-failures)");
  add_limits(*swarm, o.limits, r.wall_s, r.memory_mb);
  return swarm;
}

CLI::App* add_replay(CLI::App& app, raw& r) {
  auto* replay = app.add_subcommand("replay", "replay saved failures");
  replay->add_option("file", r.replay.files)->required();
  replay->add_flag("--quiet", r.replay.quiet, "print no trace");
  return replay;
}

CLI::App* add_shrink(CLI::App& app, raw& r) {
  auto* shrink = app.add_subcommand("shrink", "shrink a saved failure to a minimal one");
  shrink->add_option("file", r.shrink.file)->required();
  shrink->add_option("--to", r.shrink.to,
                     "output file (default: NAME.shrunk.json beside the input)");
  shrink->add_option("--runs", r.shrink.runs_max, "maximum number of runs (default 500)")
    ->check(CLI::Range(1, 1'000'000));
  return shrink;
}

CLI::App* add_list(CLI::App& app, raw& r) {
  auto* list =
    app.add_subcommand("list", "list scenarios, invariants, marks or bugs, one per line");
  list->add_option("what", r.list_what, "scenarios, invariants, marks or bugs (default scenarios)")
    ->check(CLI::IsMember({"scenarios", "invariants", "marks", "bugs"}));
  r.list.swarm.seeds = 200;
  add_seeds(*list, r.list.swarm);
  return list;
}

/// What a command needs that flags can't say.
std::string complaint(const swarm_options& o) {
  if (o.seeds - 1 > std::numeric_limits<std::uint64_t>::max() - o.first_seed)
    return "--first-seed " + std::to_string(o.first_seed) + " plus --seeds "
           + std::to_string(o.seeds) + " exceeds 2^64 - 1\n";
  if (o.scenario.empty() || find_scenario(o.scenario))
    return {};
  return "--scenario: unknown scenario '" + o.scenario + "'; see troupe-sim list\n";
}

sim_command wrong(std::string text) { return {.what = usage{std::move(text), 2}, .bug = {}}; }

sim_command command_of(const CLI::App& app, raw& r) {
  sim_command out{.what = usage{}, .bug = r.bug};
  if (app.got_subcommand("run")) {
    if (!find_scenario(r.run.scenario))
      return wrong("unknown scenario '" + r.run.scenario + "'; see troupe-sim list\n");
    out.what = r.run;
  } else if (app.got_subcommand("swarm")) {
    auto& o = r.swarm.swarm;
    o.limits.wall = std::chrono::seconds{r.wall_s};
    o.limits.memory_bytes = r.memory_mb << 20;
    o.bug = r.bug;
    if (auto why = complaint(o); !why.empty())
      return wrong(why);
    out.what = r.swarm;
  } else if (app.got_subcommand("replay")) {
    out.what = r.replay;
  } else if (app.got_subcommand("shrink")) {
    out.what = r.shrink;
  } else {
    r.list.what = r.list_what == "scenarios"    ? list_command::scenarios
                  : r.list_what == "invariants" ? list_command::invariants
                  : r.list_what == "marks"      ? list_command::marks
                                                : list_command::bugs;
    if (auto why = complaint(r.list.swarm); !why.empty())
      return wrong(why);
    out.what = r.list;
  }
  return out;
}

} // namespace

sim_command parse_sim_command(std::vector<std::string> arguments) {
  raw r;
  CLI::App app{"Deterministic simulator of Troupe clusters", "troupe-sim"};
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string{"troupe-sim " TROUPE_VERSION});
  app.add_option("--bug", r.bug, "enable a planted bug (requires a build with planted bugs)");
  for (auto* sub : {add_run(app, r), add_swarm(app, r), add_replay(app, r), add_shrink(app, r),
                    add_list(app, r)})
    sub->fallthrough();                             // --bug may stand behind the command
  std::reverse(arguments.begin(), arguments.end()); // as CLI11 takes them
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& e) {
    // of a word that it does not know the library says only that a command is required
    if (auto rest = app.remaining(); app.get_subcommands().empty() && !rest.empty())
      return wrong("unknown command or option '" + rest.front() + "'"
                   + did_you_mean(rest.front(), {"run", "swarm", "replay", "shrink", "list",
                                                 "--bug", "--version"})
                   + "; see troupe-sim --help\n");
    std::ostringstream out, err;
    int code = app.exit(e, out, err);
    return {.what = usage{out.str() + err.str(), code == 0 ? 0 : 2}, .bug = {}};
  }
  return command_of(app, r);
}

} // namespace troupe::sim
