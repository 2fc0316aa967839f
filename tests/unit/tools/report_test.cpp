// Goal: the closing lines are exactly the promised ones, and a report survives the pipe.
#include "report.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace tool;

namespace {

training_report sample() {
  training_report out;
  out.statistics = {
    .scheduled = 9370,
    .finished = 9370,
    .failed = 1,
    .cancelled = 2,
    .retried = 12,
    .fenced = 3,
    .servers = {{.server = 0,
                 .shards = 5,
                 .bytes = 1'000,
                 .pushes_applied = 40,
                 .duplicates = 7,
                 .refused = 2},
                {.server = 1, .shards = 4, .bytes = 900, .pushes_applied = 30, .duplicates = 1}}};
  out.steps = 9370;
  out.seconds = 4.5;
  out.lost = 1;
  out.doubled = 2;
  out.reruns = 2;
  out.rerun_begin_ns = {10, -20};
  out.correct = 8'912;
  out.images = 10'000;
  return out;
}

} // namespace

TEST_CASE("final lines: all of them, in their order") {
  const std::vector<std::string> want{"closures: scheduled 9370 run 9370 retried 12",
                                      "pushes: applied 70 duplicates 8",
                                      "ps:0 shards 5 bytes 1000 pushes 40",
                                      "ps:1 shards 4 bytes 900 pushes 30",
                                      "updates lost: 1",
                                      "updates doubled: 2",
                                      "kills: 9",
                                      "fenced: 3",
                                      "processes: 5 of 6 exited with code 0",
                                      "test accuracy: 0.8912"};
  CHECK(final_lines(sample(), process_report{.kills = 9, .ended_well = 5, .tasks = 6}) == want);
}

TEST_CASE("final lines: one process has no kills, fences and processes to tell") {
  const auto lines = final_lines(sample(), std::nullopt);
  REQUIRE(lines.size() == 7);
  CHECK(lines[5] == "updates doubled: 2");
  CHECK(lines[6] == "test accuracy: 0.8912");
}

TEST_CASE("report: through the pipe and back it is the same") {
  const auto before = sample();
  const auto after = decode_report(encode_report(before));
  REQUIRE(after);
  CHECK(final_lines(*after, process_report{}) == final_lines(before, process_report{}));
  CHECK(encode_report(*after) == encode_report(before));
  CHECK(after->seconds == doctest::Approx(4.5));
  CHECK(after->rerun_begin_ns == before.rerun_begin_ns);
  CHECK(after->statistics.servers[0].refused == 2);
}

TEST_CASE("report: a line that is none is refused by name") {
  for (const char* bad : {"steps", "steps x", "steps 5 6", "stepz 5", "server 0 1 2", ""}) {
    CAPTURE(bad);
    const auto got = decode_report(std::string{bad} + "\n");
    REQUIRE_FALSE(got);
    CHECK(got.error().text == "report: malformed line '" + std::string{bad} + "'");
  }
}

TEST_CASE("progress: the bar fits the terminal and shows all numbers") {
  const progress_state x{.steps = 4'217,
                         .fraction = 0.45,
                         .loss = 0.3119,
                         .seconds = 9,
                         .steps_per_s = 2'231,
                         .batch_size = 64};
  const auto bar = progress_bar(x, 120);
  CHECK(bar
        == "[##########..............]  45 %  4217 steps  2231 steps/s  142784 examples/s  loss "
           "0.312  11 s left");
  for (std::size_t columns : {0u, 5u, 40u, 79u, 80u, 90u, 200u}) {
    CAPTURE(columns);
    CHECK(progress_bar(x, columns).size() <= columns);
  }
  CHECK(progress_text(x)
        == "step 4217 (45 %): 2231 steps/s, 142784 examples/s, loss 0.312, 11 s left");
  CHECK(seconds_left(0, 5) == 0);
  CHECK(readable_seconds(125) == "2 min 05 s");
}

TEST_CASE("recovery: from each death to the first re-run before the next death") {
  const std::vector<std::int64_t> deaths{1'000'000, 50'000'000, 60'000'000};
  const std::vector<std::int64_t> reruns{500'000, 3'000'000, 4'000'000, 72'000'000};
  CHECK(recovery_ms(deaths, reruns) == std::vector<double>{2.0, 12.0});
  CHECK(recovery_ms({}, reruns).empty());
  CHECK(recovery_ms(deaths, {}).empty());
  CHECK(median({3.0, 1.0, 2.0}) == 2.0);
  CHECK(median({4.0, 1.0}) == 1.0);
  CHECK(median({}) == 0.0);
}
