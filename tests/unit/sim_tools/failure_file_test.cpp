// Goal: a failure's file holds all that a replay needs, and a damaged one names what is wrong.
#include <troupe/sim/tools/failure_file.hpp>

#include <doctest/doctest.h>

#include <filesystem>

#include "../../support/scratch_folder.hpp"

using namespace troupe;
using namespace troupe::sim;
using namespace std::chrono_literals;

namespace {

failure_file example() {
  failure_file out;
  out.spec.scenario = "worker_storms";
  out.spec.seed = 0xffff'ffff'ffff'fff1u;
  out.spec.shape = {.workers = 20, .servers = 3, .closures = 77};
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
  for (std::uint8_t kind = 0; kind < action_kinds; ++kind)
    out.spec.plan.faults.push_back({.at = kind * 1ms + 3ns,
                                    .what = {.kind = static_cast<action_kind>(kind),
                                             .target = worker{kind},
                                             .other = server{2},
                                             .length = kind * 1us}});
  auto& all = out.spec.plan.faults;
  all[static_cast<std::size_t>(action_kind::crash)].what.flags = 7;
  all[static_cast<std::size_t>(action_kind::slow)].what.amount = 20;
  all[static_cast<std::size_t>(action_kind::clock_offset)].what.amount = -5;
  all[static_cast<std::size_t>(action_kind::clock_drift)].what.amount = -200;
  all[static_cast<std::size_t>(action_kind::bit_flip)].what.amount = 3;
  all.push_back({.what = {.kind = action_kind::crash, .target = worker{1}},
                 .mark = "client.pushed_k_of_n",
                 .nth = 3});
  out.invariant = "INV-X1";
  out.text = "closure 7 was applied \"twice\"\n";
  out.hash = 0xdeadbeef12345678u;
  out.events = 123'456;
  out.bug = "double_apply";
  out.build = build_text();
  out.commit = commit_text();
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
  const testing::scratch_folder folder;
  const auto path = folder / "failure.json";
  REQUIRE(write_failure(path, example()));
  CHECK(read_failure(path).value_or_throw() == example());
  std::filesystem::remove(path);
  CHECK(read_failure(path).error().code == errc::not_found);
  CHECK_FALSE(write_failure("/there/is/no/such/directory/x.json", example()));
}

namespace {

/// What reading says of the example with `from` replaced by `to`.
std::string complaint(std::string_view from, std::string_view to) {
  auto text = to_json(example());
  auto at = text.find(from);
  REQUIRE_MESSAGE(at != std::string::npos, from);
  text.replace(at, from.size(), to);
  auto out = failure_from_json(text);
  REQUIRE_MESSAGE(!out, to);
  CHECK(out.error().code == errc::corrupt);
  return out.error().text;
}

} // namespace

TEST_CASE("failure file: what is damaged is named, with its value") {
  struct {
    const char *from, *to, *said;
  } all[] = {
    {R"("format": 1)", R"("format": 2)", "format: unsupported format 2, expected 1"},
    {R"("format": 1)", R"("format": "1")", "format: \"1\" is not an integer"},
    {R"("seed": 18446744073709551601)", R"("seed": -4)", "seed: -4 is no"},
    {R"("seed": 18446744073709551601)", R"("seed": 1.5)", "seed: 1.5 is no"},
    {R"("seed")", R"("seat")", "seed: missing member"},
    {R"("text")", R"("next")", "next: unknown member"},
    {R"("text")", R"("seed")", "seed: duplicate member"},
    {R"("scenario": "worker_storms")", R"("scenario": 3)", "scenario: 3 is not a string"},
    {R"("workers": 20)", R"("workers": -1)", "shape.workers: -1 is not in the range 0 to 1000"},
    {R"("workers": 20)", R"("workers": 4294967297)", "shape.workers: 4294967297 is not"},
    {R"("servers": 3)", R"("server": 3)", "shape.servers: missing member"},
    {R"("closures": 77)", R"("closures": true)", "shape.closures: true is not an integer"},
    {R"("pct")", R"("best")", "order.kind: unknown value 'best'"},
    {R"("changes": 5)", R"("changes": 4000000000)", "order.changes: 4000000000 is not"},
    {"0*2 7", "0*2 seven", "order.picks: picks: invalid pick 'seven'"},
    {R"("latency_min_ns": 1000)", R"("latency_min_ns": -1)",
     "conditions.latency_min_ns: -1 is not"},
    {R"("latency_tail_per_mille": 3)", R"("latency_tail_per_mille": 1001)",
     "conditions.latency_tail_per_mille: 1001 is not"},
    {R"("segment_bytes": 4)", R"("segment_bytes": 0)",
     "conditions.segment_bytes: 0 is not in the range 1"},
    {R"("channel_bytes": 5)", R"("channel_bytes": 0)",
     "conditions.channel_bytes: 0 is not in the range 1"},
    {R"("throws": 1)", R"("throws": 999)", "steps.hangs: the shares up to this one sum to 1001"},
    {R"("slows": 4)", R"("slowness": 4)", "steps.slowness: unknown member"},
    {R"("at_ns": 9000000000)", R"("at_ns": -9)", "core.at_ns: -9 is not"},
    {R"("worker2")", R"("worker02")", "core.members: 'worker02' is not a node name"},
    {R"("ps0")", R"("ps3")", "core.members: ps3 is not in the cluster shape"},
    {R"("ps0")", R"("chief")", "core.members: chief is listed twice"},
    {R"("cut")", R"("hurt")", "core.others: 'hurt' must be dead or cut"},
    {R"("at_ns": 3,)", R"("at_ns": -5,)", "faults[0].at_ns: -5 is not"},
    {R"("at_ns": 3,)", R"("at_ns": 1.7,)", "faults[0].at_ns: 1.7 is not an integer"},
    {R"("at_ns": 3,)", R"()", "faults[0].at_ns: missing member"},
    {R"("crash")", R"("trash")", "faults[0].kind: unknown value 'trash'"},
    {R"("crash")", "\"action(?)\"", "faults[0].kind: unknown value 'action(?)'"},
    {R"("worker0")", R"("worker99")", "faults[0].target: worker99 is not in the cluster shape"},
    {R"("flags": 7)", R"("flags": 8)", "faults[0].flags: 8 is not in the range 0 to 7"},
    {R"("length_ns": 1000)", R"("lenght_ns": 1000)", "faults[1].lenght_ns: unknown member"},
    {R"("amount": 20)", R"("amount": -2)", "faults[4].amount: -2 is not"},
    {R"("client.pushed_k_of_n")", R"("client.no_such")", "faults[20].mark: unknown mark"},
    {R"("nth": 3)", R"("nth": 0)", "faults[20].nth: 0 is not in the range 1"},
    {"0xdeadbeef", "0xdeadbeet", "hash: '0xdeadbeet"},
  };
  for (const auto& each : all)
    CHECK_MESSAGE(complaint(each.from, each.to).find(each.said) == 0,
                  each.to << ": " << complaint(each.from, each.to));
  for (const char* none : {"{", "[]", "", "3", "{\"format\": 1}"})
    CHECK_FALSE(failure_from_json(none));
}

TEST_CASE("failure file: a fault at a mark needs no time") {
  auto text = to_json(example());
  auto mark = text.find("\"mark\"");
  REQUIRE(mark != std::string::npos);
  auto begin = text.rfind('{', mark), end = text.find('}', mark);
  CHECK(text.substr(begin, end - begin).find("at_ns") == std::string::npos);
  CHECK(failure_from_json(text).value_or_throw().spec.plan.faults.back().nth == 3);
}

TEST_CASE("failure file: a run that this program does not have is told, by the member") {
  failure_file file;
  file.spec.scenario = "no_such";
  CHECK(unusable(file).find("scenario: unknown scenario 'no_such'") == 0);
  file.spec.scenario = "worker_storm";
  CHECK(unusable(file).empty());
  file.spec.shape.servers = 0;
  CHECK(unusable(file).find("shape.servers: 0; the scenario needs at least 1") == 0);
  file.spec.scenario = "groups"; // has none
  CHECK(unusable(file).empty());
  file.spec.shape.workers = 0;
  CHECK(unusable(file).find("shape.workers: 0") == 0);
}

TEST_CASE("failure file: a file that is none is named") {
  auto said = read_failure("/tmp");
  REQUIRE_FALSE(said);
  CHECK(said.error().code == errc::io_failed);
  CHECK(said.error().text.find("/tmp: ") == 0);
}

TEST_CASE("failure file: the commit is a number of git's, or says that it is unknown") {
  auto commit = commit_text();
  auto plain = commit.substr(0, commit.find("-dirty"));
  CHECK(
    (commit == "unknown"
     || (plain.size() >= 12 && plain.find_first_not_of("0123456789abcdef") == std::string::npos)));
}

TEST_CASE("failure file: nodes are read as they are written") {
  for (node_name n : {chief, node_name{worker{0}}, node_name{worker{17}}, node_name{server{3}}})
    CHECK(node_from_text(to_string(n)).value_or_throw() == n);
  for (const char* bad : {"", "worker", "ps", "ps-1", "boss", "worker1x", "chief0", "worker 1"})
    CHECK_FALSE(node_from_text(bad));
}
