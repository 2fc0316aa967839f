// Goal: a swarm runs what it was asked for, says so when it did not, and loses no failure.
#include <troupe/sim/tools/swarm.hpp>

#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <unistd.h>

#include "../../support/failures.hpp"
#include "../../support/scratch_folder.hpp"

using namespace troupe;
using namespace troupe::testing;
using namespace troupe::sim;

namespace {

namespace fs = std::filesystem;

std::string printed(const swarm_result& result) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* to = ::open_memstream(&text, &size);
  print(to, result);
  std::fclose(to);
  std::string out{text, size};
  std::free(text);
  return out;
}

swarm_result with(const char* name, const scenario_sums& sums, std::uint64_t asked) {
  swarm_result out;
  out.scenarios[name] = sums;
  out.asked = asked;
  return out;
}

} // namespace

TEST_CASE("swarm: the last of all seeds is run, and none after it") {
  swarm_options options{
    .seeds = 2, .first_seed = 18446744073709551614u, .scenario = "witness_calm", .jobs = 1};
  auto out = run_swarm(options, [](const swarm_failure&) {});
  CHECK(out.total().seeds == 2);
  CHECK(out.ok());
}

TEST_CASE("swarm: seeds that a limit left out are told") {
  scenario_sums some{.seeds = 5, .events = 500'000};
  CHECK(says(printed(with("witness_calm", some, 5)), "5 seeds in"));
  CHECK(says(printed(with("witness_calm", some, 9)), "5 of 9 seeds in"));
}

TEST_CASE("swarm: a scenario that tests less than it says is a failure") {
  scenario_sums good{.seeds = 20, .events = 20 * 100'000, .faults = 1};
  CHECK(with("worker_storm", good, 20).ok());
  auto quiet = good;
  quiet.faults = 0;
  CHECK(says(printed(with("worker_storm", quiet, 20)), "few: worker_storm, 20 seeds: no faults"));
  CHECK_FALSE(with("worker_storm", quiet, 20).ok());
  CHECK(with("witness_calm", quiet, 20).ok());
  quiet.trouble = 1; // of steps
  CHECK(with("worker_storm", quiet, 20).ok());
  auto little = good;
  little.events = 20 * 10;
  CHECK(says(printed(with("worker_storm", little, 20)), "few: worker_storm, 20 seeds: 10 events"));
  little.seeds = 19; // too few to tell
  CHECK(with("worker_storm", little, 19).ok());
}

TEST_CASE("swarm: where failures cannot go is told before the first one") {
  scratch_folder dir;
  CHECK(check_failures_directory(dir / "new/and/deep"));
  CHECK_FALSE(fs::exists(dir / "new")); // nothing stays of the try
  fs::create_directories(dir / "there");
  CHECK(check_failures_directory(dir / "there"));
  CHECK(fs::is_empty(dir / "there"));
  std::ofstream{dir / "file"} << "x";
  for (const char* bad : {"file", "file/below"}) {
    auto why = check_failures_directory(dir / bad);
    REQUIRE_FALSE(why);
    CHECK(says(why.error().text, dir / bad));
  }
  CHECK_FALSE(check_failures_directory("/proc/no/such"));
}

TEST_CASE("swarm: a failure is kept in a file, or says why not") {
  scratch_folder dir;
  std::ofstream{dir / "file"} << "x";
  // every seed needs longer than that: it is killed before it has begun
  swarm_options options{.seeds = 2,
                        .scenario = "worker_storm",
                        .failures = dir / "kept",
                        .limits = {.wall = std::chrono::milliseconds{0}}};
  std::vector<swarm_failure> told;
  auto out = run_swarm(options, [&](const swarm_failure& f) { told.push_back(f); });
  CHECK_FALSE(out.ok());
  REQUIRE(told.size() == 2);
  for (const auto& f : told) {
    CHECK(f.out.rule == "wall_limit");
    CHECK(read_failure(f.file).value_or_throw().spec.seed == f.seed);
  }
  told.clear();
  options.failures = dir / "file";
  CHECK_FALSE(run_swarm(options, [&](const swarm_failure& f) { told.push_back(f); }).ok());
  REQUIRE(told.size() == 2);
  for (const auto& f : told) {
    CHECK(f.file.empty());
    CHECK(says(f.unwritten, dir / "file"));
  }
}
