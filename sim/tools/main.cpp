// The simulator's command: troupe-sim list | run SCENARIO --seed N [--trace].
#include <cinttypes>
#include <cstdio>
#include <string>

#include <CLI/CLI.hpp>

#include "scenario.hpp"

namespace {

using namespace troupe::sim;

int list_scenarios() {
  for (const auto& s : scenarios())
    std::printf("%-24s %s\n", s.name.c_str(), s.about.c_str());
  return 0;
}

int run_scenario(const std::string& name, std::uint64_t seed, bool trace) {
  const auto* found = find_scenario(name);
  if (!found) {
    std::fprintf(stderr, "troupe-sim: there is no scenario '%s'; see `troupe-sim list`\n",
                 name.c_str());
    return 2;
  }
  world_options options;
  options.seed = seed;
  options.trace_to = trace ? stdout : nullptr;
  world w{std::move(options)};
  auto out = found->body(w);
  std::printf("%s\n", out.text().c_str());
  std::printf("events: %" PRIu64 "\nhash: 0x%016" PRIx64 "\n", out.events, out.hash);
  return out.ok() ? 0 : 1;
}

} // namespace

int main(int argc, char** argv) {
  CLI::App app{"The deterministic simulator of Troupe clusters", "troupe-sim"};
  app.require_subcommand(1);
  std::string name;
  std::uint64_t seed = 1;
  bool trace = false;
  auto* list = app.add_subcommand("list", "one scenario a line");
  auto* run = app.add_subcommand("run", "one run of a scenario");
  run->add_option("scenario", name)->required();
  run->add_option("--seed", seed);
  run->add_flag("--trace", trace, "one line an event");
  CLI11_PARSE(app, argc, argv);
  return *list ? list_scenarios() : run_scenario(name, seed, trace);
}
