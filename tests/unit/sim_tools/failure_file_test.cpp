// Goal: a failure's file holds all that a replay needs, and a damaged one names what is wrong.
#include <troupe/sim/tools/failure_file.hpp>

#include <doctest/doctest.h>

#include <filesystem>

#include <unistd.h>

using namespace troupe;
using namespace troupe::sim;
using namespace std::chrono_literals;

namespace {

failure_file example() {
  failure_file out;
  out.spec.scenario = "worker_storms";
  out.spec.seed = 0xffff'ffff'ffff'fff1u;
  out.spec.shape = {.workers = 4, .servers = 3, .closures = 77};
  out.spec.conditions = {.latency_min = 1us,
                         .latency_jitter = 2us,
                         .latency_tail_per_mille = 3,
                         .segment_bytes = 4,
                         .channel_bytes = 5};
  out.spec.order = order_kind::pct;
  out.spec.pct_changes = 5;
  out.spec.picks = {0, 0, 7, 0xffffffffu, 0xffffffffu};
  out.spec.plan.steps = {.throws = 1, .hangs = 2, .kills = 3, .slows = 4};
  out.spec.plan.core = {
    .at = 9s, .members = {chief, server{0}, worker{2}}, .others = core_plan::cut};
  for (std::uint8_t kind = 0; kind <= static_cast<std::uint8_t>(action_kind::slow_io); ++kind)
    out.spec.plan.faults.push_back({.at = kind * 1ms + 3ns,
                                    .what = {.kind = static_cast<action_kind>(kind),
                                             .target = worker{kind},
                                             .other = server{2},
                                             .length = kind * 1us,
                                             .amount = -kind,
                                             .flags = kind}});
  out.spec.plan.faults.push_back({.what = {.kind = action_kind::crash, .target = worker{1}},
                                  .mark = "client.pushed_k_of_n",
                                  .nth = 3});
  out.invariant = "INV-X1";
  out.text = "closure 7 was applied \"twice\"\n";
  out.hash = 0xdeadbeef12345678u;
  out.events = 123'456;
  out.bug = "double_apply";
  out.build = build_text();
  return out;
}

} // namespace

TEST_CASE("failure file: everything comes back from its text") {
  CHECK(failure_from_json(to_json(example())).value_or_throw() == example());
  failure_file least;
  least.spec.scenario = "x";
  CHECK(failure_from_json(to_json(least)).value_or_throw() == least);
}

TEST_CASE("failure file: everything comes back from a file") {
  auto path = std::filesystem::temp_directory_path()
              / ("troupe-failure-" + std::to_string(::getpid()) + ".json");
  REQUIRE(write_failure(path.string(), example()));
  CHECK(read_failure(path.string()).value_or_throw() == example());
  std::filesystem::remove(path);
  CHECK(read_failure(path.string()).error().code == errc::not_found);
  CHECK_FALSE(write_failure("/there/is/no/such/directory/x.json", example()));
}

TEST_CASE("failure file: what is damaged is named") {
  auto complaint = [](std::string_view from, std::string_view to) {
    auto text = to_json(example());
    auto at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    auto out = failure_from_json(text);
    REQUIRE_FALSE(out);
    CHECK(out.error().code == errc::corrupt);
    return out.error().text;
  };
  CHECK(complaint("\"format\": 1", "\"format\": 2").find("format") != std::string::npos);
  CHECK(complaint("\"crash\"", "\"trash\"").find("trash") != std::string::npos);
  CHECK(complaint("\"crash\"", "\"action(?)\"").find("action(?)") != std::string::npos);
  CHECK(complaint("\"worker2\"", "\"worker02\"").find("worker02") != std::string::npos);
  CHECK(complaint("\"pct\"", "\"best\"").find("best") != std::string::npos);
  CHECK(complaint("\"cut\"", "\"hurt\"").find("hurt") != std::string::npos);
  CHECK(complaint("\"seed\"", "\"seat\"").find("seed") != std::string::npos);
  CHECK(complaint("0xdeadbeef", "0xdeadbeet").find("hash") != std::string::npos);
  CHECK(complaint("0*2 7", "0*2 seven").find("seven") != std::string::npos);
  CHECK_FALSE(failure_from_json("{"));
  CHECK_FALSE(failure_from_json("[]"));
}

TEST_CASE("failure file: nodes are read as they are written") {
  for (node_name n : {chief, node_name{worker{0}}, node_name{worker{17}}, node_name{server{3}}})
    CHECK(node_from_text(to_string(n)).value_or_throw() == n);
  for (const char* bad : {"", "worker", "ps", "ps-1", "boss", "worker1x", "chief0", "worker 1"})
    CHECK_FALSE(node_from_text(bad));
}
