// Goal: what --kill asks for is read exactly, and the plan hits only what lives, one at a time.
#include "kill_spec.hpp"
#include "../../support/failures.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace tool;
using namespace troupe::testing;
namespace tr = troupe;

namespace {

tr::task_id worker(std::uint32_t i) { return {.job = tr::job_kind::worker, .index = i}; }
tr::task_id server(std::uint32_t i) { return {.job = tr::job_kind::ps, .index = i}; }

std::string refusal(std::string_view text) {
  auto spec = parse_kill_spec(text);
  return spec ? "accepted" : spec.error().text;
}

} // namespace

TEST_CASE("kill spec: job, time, signal and resume are read") {
  CHECK(*parse_kill_spec("worker:every=2s") == kill_spec{.every_ms = 2'000});
  CHECK(*parse_kill_spec("worker:1:every=250ms") == kill_spec{.index = 1, .every_ms = 250});
  CHECK(*parse_kill_spec("ps:every=1.5s,signal=KILL")
        == kill_spec{.job = tr::job_kind::ps, .every_ms = 1'500});
  CHECK(*parse_kill_spec("worker:every=4s,signal=STOP,resume=6s")
        == kill_spec{.every_ms = 4'000, .signal = fault_signal::stop, .resume_ms = 6'000});
  CHECK(*parse_duration_ms("2m", "x") == 120'000);
}

TEST_CASE("kill spec: an error names the field and the value") {
  CHECK(says(refusal("chief:every=2s"), "--kill job is 'chief'"));
  CHECK(says(refusal("worker"), "--kill is 'worker'"));
  CHECK(says(refusal("worker:x:every=2s"), "--kill index is 'x'"));
  CHECK(says(refusal("worker:every=2"), "--kill every is '2'"));
  CHECK(says(refusal("worker:every=0s"), "--kill every is '0s'"));
  CHECK(says(refusal("worker:every=-1s"), "--kill every is '-1s'"));
  CHECK(says(refusal("worker:every=9e9s"), "--kill every is '9e9s'"));
  CHECK(says(refusal("worker:every=99999999s"), "--kill every is '99999999s'"));
  CHECK(says(refusal("worker:every=2s,signal=HUP"), "--kill signal is 'HUP'"));
  CHECK(says(refusal("worker:every=2s,color=red"), "--kill field is 'color'"));
  CHECK(says(refusal("worker:every=2s,resume"), "--kill field is 'resume'"));
  CHECK(says(refusal("worker:signal=KILL"), "expected an every=TIME"));
  CHECK(says(refusal("worker:every=2s,signal=STOP"), "expected a resume=TIME"));
  CHECK(says(refusal("worker:every=2s,resume=1s"), "expected no resume"));
  CHECK(says(refusal(""), "--kill is ''"));
}

TEST_CASE("mark spec: mark and number, with and without a task's number") {
  CHECK(*parse_mark_spec("client.after_read:3", "--x") == mark_spec{"client.after_read", 3});
  CHECK(says(parse_mark_spec("client.after_read", "--x").error().text, "--x is"));
  CHECK(says(parse_mark_spec("client.after_read:0", "--x").error().text, "--x number is '0'"));
  CHECK(*parse_task_mark_spec("worker:a.b:5", "--x") == task_mark_spec{worker(0), {"a.b", 5}});
  CHECK(*parse_task_mark_spec("worker:2:a.b:5", "--x") == task_mark_spec{worker(2), {"a.b", 5}});
  CHECK(*parse_task_mark_spec("ps:1:a.b:5", "--x") == task_mark_spec{server(1), {"a.b", 5}});
  CHECK(says(parse_task_mark_spec("chief:a:1", "--x").error().text, "--x job is 'chief'"));
  CHECK(says(parse_task_mark_spec("worker:5", "--x").error().text, "--x is '5'"));
}

TEST_CASE("kill plan: one fault a period, only at what lives, and every victim gets its turn") {
  kill_plan plan{{{.every_ms = 100}}, 7};
  const std::vector<tr::task_id> living{server(0), worker(0), worker(1), worker(2)};
  CHECK(plan.next_ms() == 100);
  CHECK(plan.due(99, living).empty());
  std::vector<int> hits(3, 0);
  for (std::int64_t now = 100; now <= 10'000; now += 100) {
    const auto due = plan.due(now, living);
    REQUIRE(due.size() == 1);
    CHECK(due[0].signal == fault_signal::kill);
    REQUIRE(due[0].task.job == tr::job_kind::worker);
    ++hits.at(due[0].task.index);
    CHECK(plan.due(now, living).empty());
  }
  for (int n : hits)
    CHECK(n > 15);
  CHECK(plan.due(20'000, {server(0)}).empty()); // nobody to hit
}

TEST_CASE("kill plan: a late look brings one fault, not the missed ones") {
  kill_plan plan{{{.every_ms = 100}}, 7};
  CHECK(plan.due(1'050, {worker(0)}).size() == 1);
  CHECK(plan.next_ms() == 1'100);
}

TEST_CASE("kill plan: a stopped process goes on after its time and is not hit meanwhile") {
  kill_plan plan{{{.every_ms = 100, .signal = fault_signal::stop, .resume_ms = 250}}, 7};
  const auto stop = plan.due(100, {worker(0)});
  REQUIRE(stop == std::vector<due_fault>{{worker(0), fault_signal::stop, false}});
  CHECK(plan.due(200, {worker(0)}).empty());
  CHECK(plan.due(300, {worker(0)}).empty());
  CHECK(plan.next_ms() == 350);
  CHECK(plan.due(350, {worker(0)})
        == std::vector<due_fault>{{worker(0), fault_signal::stop, true}});
  CHECK(plan.due(400, {worker(0)}).size() == 1);
}

TEST_CASE("kill plan: the end lets go on what is stopped, once, and hits nothing more") {
  kill_plan plan{{{.every_ms = 100, .signal = fault_signal::stop, .resume_ms = 900}}, 7};
  CHECK(plan.due(100, {worker(0)}).size() == 1);
  CHECK(plan.end() == std::vector<due_fault>{{worker(0), fault_signal::stop, true}});
  CHECK(plan.end().empty());
  CHECK(plan.due(5'000, {worker(0)}).empty());
  CHECK_FALSE(plan.next_ms().has_value());
}
