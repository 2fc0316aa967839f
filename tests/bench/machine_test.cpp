#include <doctest/doctest.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "../support/scratch_folder.hpp"
#include "detail/bench.hpp"
#include "detail/child.hpp"
#include "detail/machine.hpp"

// Goal: a bench on a busy or slow machine says so, in words and in its file, and its ratios stand.
// Method: texts of /proc as they are found, and reports with known samples.
namespace {

/// A report of one bench that wrote its file to a path of its own.
struct written {
  explicit written(const std::string& suite)
    : flags{suite, "--json", folder / "report.json"},
      argv{flags[0].data(), flags[1].data(), flags[2].data()},
      report{suite, 3, argv.data()} {}
  std::string text() const { return troupe::testing::content_of(folder / "report.json"); }

  const tool::scratch_folder folder{};
  std::vector<std::string> flags;
  std::vector<char*> argv;
  bench::report report;
};

bench::row epochs(double ours, double peer) {
  return {
    .name = "one_worker", .unit = "s/epoch", .ours = {ours}, .peer = "plain_loop", .peers = {peer}};
}

} // namespace

TEST_CASE("bench: the processors' time is what /proc/stat says") {
  const auto t = bench::read_processors("cpu  100 10 50 800 40 5 15 20 7 0");
  REQUIRE(t.has_value());
  CHECK(t->all == 1040);
  CHECK(t->busy == 200); // neither idle nor waiting for a disk; what the host took is busy
  CHECK_FALSE(bench::read_processors("cpu0 1 2 3 4 5 6 7 8").has_value());
  CHECK_FALSE(bench::read_processors("cpu 1 2 3").has_value());
  CHECK_FALSE(bench::read_processors("").has_value());
}

TEST_CASE("bench: a process is read whatever its name is") {
  const auto p =
    bench::read_process("42 (a ) b (c)) S 7 42 42 0 -1 4194304 1 2 3 4 30 12 5 1 20 0 8 0");
  REQUIRE(p.has_value());
  CHECK(p->pid == 42);
  CHECK(p->parent == 7);
  CHECK(p->ticks == 48);
  CHECK_FALSE(bench::read_process("42 (cut").has_value());
  CHECK_FALSE(bench::read_process("42 (cut) S 7 1 2").has_value());
}

TEST_CASE("bench: a bench's processes are its descendants, and only they") {
  const std::vector<bench::process_ticks> all{
    {1, 0, 1000}, {10, 1, 5}, {11, 10, 7}, {12, 11, 11}, {20, 1, 300}};
  CHECK(bench::ticks_below(all, 10) == 23);
  CHECK(bench::ticks_below(all, 20) == 300);
  CHECK(bench::ticks_below(all, 99) == 0);
}

TEST_CASE("bench: others' share is what was busy and not ours") {
  const bench::processor_ticks before{1000, 500, 100};
  const auto share = bench::share_of_others(before, bench::processor_ticks{1200, 650, 150});
  REQUIRE(share.has_value());
  CHECK(*share == doctest::Approx(0.5));
  // Our own work is no other's, and a clock that ticks apart is no negative share.
  CHECK(*bench::share_of_others(before, bench::processor_ticks{1200, 600, 200}) == 0);
  CHECK(*bench::share_of_others(before, bench::processor_ticks{1200, 600, 203}) == 0);
  CHECK_FALSE(bench::share_of_others(before, bench::processor_ticks{1010, 510, 100}).has_value());
  CHECK_FALSE(bench::share_of_others(std::nullopt, before).has_value());
}

TEST_CASE("bench: this process's own work is counted as its own, a child's too") {
  const auto before = bench::processors_now();
  if (!before)
    return; // no /proc here: a bench says nothing then
  tool::child_process shell{
    tool::child_command{.program = "/bin/sh",
                        .arguments = {"-c", "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done"}}};
  for (const double begin = bench::cpu_seconds(); bench::cpu_seconds() - begin < 0.2;) {
  }
  CHECK(shell.wait_or_kill(std::chrono::seconds{30}).ok());
  const auto after = bench::processors_now();
  REQUIRE(after.has_value());
  CHECK(after->own - before->own > 20); // 0.2 s here and the shell's, in ticks of 10 ms
  CHECK(after->busy - before->busy >= after->own - before->own - 2);
}

TEST_CASE("bench: other work is said from a tenth of the processors on") {
  CHECK(bench::busy_text(std::nullopt).empty());
  CHECK(bench::busy_text(0.05).empty());
  const auto text = bench::busy_text(0.4);
  CHECK(text.find("other work took 40 %") == 0);
  CHECK(text.find("the ratios stand") != std::string::npos);
}

TEST_CASE("bench: a slower machine is told by its peers' middle one") {
  const auto speed = [](double slower) { return bench::peer_speed{"p", "s", slower, 1, slower}; };
  CHECK(bench::slower_text({}).empty());
  CHECK(bench::slower_text({speed(1.4)}).empty());
  CHECK(bench::slower_text({speed(0.2)}).empty()); // a faster one needs no excuse
  CHECK(bench::slower_text({speed(9), speed(1), speed(1.1)}).empty());
  const auto text = bench::slower_text({speed(9), speed(1), speed(2.46)});
  CHECK(text.find(
          "2.5 times slower here than on the machine of docs/performance.md (p: 2.46 s, there 1)")
        != std::string::npos);
}

TEST_CASE("bench: a row on a slow machine keeps its ratio and is not void") {
  written one{"train_overhead"};
  one.report.add(epochs(1.0, 0.9)); // four and a half times what the manual quotes
  CHECK(one.report.finish() == 0);
  const auto text = one.text();
  CHECK(text.find("\"ratio\": 0.9") != std::string::npos);
  CHECK(text.find("void") == std::string::npos);
  CHECK(text.find("4.6 times slower here than on the machine of docs/performance.md")
        != std::string::npos);
  CHECK(text.find("\"better\": \"less\"") != std::string::npos);
}

TEST_CASE("bench: a row on the manual's machine needs no remark about its speed") {
  written one{"train_overhead"};
  one.report.add(epochs(0.2, 0.195));
  CHECK(one.report.finish() == 0);
  CHECK(one.text().find("slower") == std::string::npos);
}

TEST_CASE("bench: a row without a result is no success") {
  written one{"dispatch"};
  one.report.add(epochs(1.0, 0.9));
  one.report.add({.name = "nothing", .unit = "us"});
  CHECK(one.report.finish() == 1);
  written none{"dispatch"};
  CHECK(none.report.finish() == 1);
  written said{"dispatch"};
  said.report.add({.name = "no GPU", .unmeasured = "there is none here"});
  CHECK(said.report.finish() == 0);
}

TEST_CASE("bench: a machine that gets slower meanwhile moves both medians and no ratio") {
  bench::row r{.name = "x", .unit = "s", .peer = "p"};
  for (const double slower : {1.0, 1.0, 3.0, 3.0, 3.0}) {
    r.ours.push_back(2.0 * slower);
    r.peers.push_back(1.0 * slower);
  }
  CHECK(bench::ratio(r) == doctest::Approx(0.5));
}
