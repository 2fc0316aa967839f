// Goal: every flag of troupe-sim arrives, and a wrong one is named.
#include <troupe/sim/tools/options.hpp>

#include <doctest/doctest.h>

#include <troupe/sim/scenarios/registry.hpp>

using namespace troupe::sim;
using namespace std::chrono_literals;

namespace {

std::string any_scenario() { return std::string{all_scenarios().front()->name}; }

usage refused(std::vector<std::string> arguments) {
  auto command = parse_sim_command(std::move(arguments));
  auto* out = std::get_if<usage>(&command.what);
  return out ? *out : usage{.text = "accepted", .code = -1};
}

} // namespace

TEST_CASE("troupe-sim: run takes a scenario, a seed and what to print") {
  auto name = any_scenario();
  auto plain = std::get<run_command>(parse_sim_command({"run", name}).what);
  CHECK(plain.scenario == name);
  CHECK(plain.seed == 1);
  CHECK_FALSE(plain.trace);
  auto full = parse_sim_command({"run", name, "--seed", "18446744073709551615", "--trace",
                                 "--faults", "--bug", "double_apply"});
  CHECK(std::get<run_command>(full.what).seed == 18446744073709551615u);
  CHECK(std::get<run_command>(full.what).trace);
  CHECK(std::get<run_command>(full.what).faults);
  CHECK(full.bug == "double_apply");
}

TEST_CASE("troupe-sim: swarm has the documented defaults and takes every flag") {
  auto plain = std::get<swarm_command>(parse_sim_command({"swarm"}).what).swarm;
  CHECK(plain.seeds == 1'000);
  CHECK(plain.first_seed == 1);
  CHECK(plain.scenario.empty());
  CHECK(plain.twice_percent == 5);
  CHECK(plain.limits.wall == 60s);
  auto name = any_scenario();
  auto full = std::get<swarm_command>(parse_sim_command({"--bug",
                                                         "no_sync",
                                                         "swarm",
                                                         "--seeds",
                                                         "20",
                                                         "--first-seed",
                                                         "30",
                                                         "--scenario",
                                                         name,
                                                         "--jobs",
                                                         "3",
                                                         "--minutes",
                                                         "1.5",
                                                         "--twice",
                                                         "100",
                                                         "--until-failure",
                                                         "--failures",
                                                         "there",
                                                         "--seed-seconds",
                                                         "9",
                                                         "--seed-mb",
                                                         "100"})
                                        .what)
                .swarm;
  CHECK(full.seeds == 20);
  CHECK(full.first_seed == 30);
  CHECK(full.scenario == name);
  CHECK(full.jobs == 3);
  CHECK(full.minutes == 1.5);
  CHECK(full.twice_percent == 100);
  CHECK(full.until_failure);
  CHECK(full.failures == "there");
  CHECK(full.limits.wall == 9s);
  CHECK(full.limits.memory_bytes == std::size_t{100} << 20);
  CHECK(full.bug == "no_sync");
}

TEST_CASE("troupe-sim: replay, shrink and list") {
  auto replay =
    std::get<replay_command_options>(parse_sim_command({"replay", "a", "b", "--quiet"}).what);
  CHECK(replay.files == std::vector<std::string>{"a", "b"});
  CHECK(replay.quiet);
  auto shrink =
    std::get<shrink_command>(parse_sim_command({"shrink", "a", "--to", "b", "--runs", "9"}).what);
  CHECK(shrink.file == "a");
  CHECK(shrink.to == "b");
  CHECK(shrink.runs_max == 9);
  CHECK(std::get<list_command>(parse_sim_command({"list"}).what).what == list_command::scenarios);
  auto marks = std::get<list_command>(parse_sim_command({"list", "marks", "--seeds", "7"}).what);
  CHECK(marks.what == list_command::marks);
  CHECK(marks.swarm.seeds == 7);
  CHECK(std::get<list_command>(parse_sim_command({"list", "invariants"}).what).what
        == list_command::invariants);
}

TEST_CASE("troupe-sim: what is wrong is named, and help is no error") {
  CHECK(refused({"--help"}).code == 0);
  CHECK(refused({}).code == 2);
  CHECK(refused({"run"}).code == 2);
  CHECK(refused({"run", "no_such_scenario"}).text.find("no_such_scenario") != std::string::npos);
  CHECK(refused({"swarm", "--scenario", "none"}).text.find("none") != std::string::npos);
  CHECK(refused({"swarm", "--seeds", "0"}).code == 2);
  CHECK(refused({"swarm", "--twice", "101"}).code == 2);
  CHECK(refused({"list", "stars"}).code == 2);
  CHECK(refused({"fly"}).code == 2);
  CHECK(refused({"fly"}).text.find("'fly'") != std::string::npos);
  CHECK(refused({"--bug", "no_sync", "fly", "away"}).text.find("'fly'") != std::string::npos);
  CHECK(refused({"--flyy"}).text.find("'--flyy'") != std::string::npos);
  CHECK(refused({"replya"}).text.find("did you mean 'replay'?") != std::string::npos);
  CHECK(refused({"--version"}).code == 0);
  CHECK(refused({"--version"}).text.starts_with("troupe-sim "));
}

TEST_CASE("troupe-sim: what is no seed is refused, and so are seeds past the last one") {
  auto name = any_scenario();
  for (const char* bad : {"-1", "18446744073709551616", "1.5", "0x10", "+3", "3 ", ""}) {
    for (auto arguments : {std::vector<std::string>{"run", name, "--seed", bad},
                           std::vector<std::string>{"swarm", "--first-seed", bad},
                           std::vector<std::string>{"swarm", "--seeds", bad}}) {
      auto said = refused(arguments);
      CHECK(said.code == 2);
      CHECK_MESSAGE(said.text.find(arguments[arguments.size() - 2]) != std::string::npos,
                    said.text);
    }
  }
  const std::string last = "18446744073709551615";
  CHECK(refused({"swarm", "--first-seed", last, "--seeds", "3"}).text.find(last)
        != std::string::npos);
  auto one = parse_sim_command({"swarm", "--first-seed", last, "--seeds", "1"});
  CHECK(std::get<swarm_command>(one.what).swarm.first_seed == 18446744073709551615u);
}

TEST_CASE("troupe-sim: a seed has the same scenario and the same number of runs for ever") {
  swarm_options all;
  CHECK(scenario_of(all, 12) == scenario_of(all, 12));
  CHECK(scenario_of(all, 0) == any_scenario());
  CHECK(scenario_of(all, all_scenarios().size()) == any_scenario());
  int twice = 0;
  for (std::uint64_t seed = 0; seed < 10'000; ++seed)
    twice += runs_twice(seed, 5) ? 1 : 0;
  CHECK(twice > 400);
  CHECK(twice < 600);
  CHECK_FALSE(runs_twice(3, 0));
  CHECK(runs_twice(3, 100));
}
