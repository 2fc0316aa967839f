#include <troupe/sim/event_log.hpp>
#include <troupe/sim/tools/seed_run.hpp>

#include <doctest/doctest.h>

#include <algorithm>

#include <troupe/sim/lists.hpp>
#include <troupe/sim/scenario_run.hpp>

using namespace troupe;
using namespace troupe::sim;

namespace {

void tell(event_log& to, std::string_view id, std::int64_t ns, std::int64_t value) {
  trace_field field{"closure", value};
  to.on_event({.at = time_point{duration{ns}},
               .node = worker{1},
               .start = 2,
               .number = 1,
               .id = id,
               .fields = {&field, 1}});
}

} // namespace

TEST_CASE("seed run: an outcome comes back from its text") {
  seed_outcome out;
  out.rule = "INV-X1";
  out.text = "closure \"7\"\n";
  out.events = 12;
  out.hash = 0xffff'ffff'ffff'ffffu;
  out.closures = 3;
  out.faults = 4;
  out.trouble = 5;
  out.time_ns = 6;
  out.wall_ns = 7;
  out.twice = true;
  out.picks = "f*3";
  out.marks = {{"server.duplicate_dropped", 3}};
  out.actions = {{"crash", 2}};
  auto back = outcome_from_text(to_text(out)).value_or_throw();
  CHECK(to_text(back) == to_text(out));
  CHECK(back.hash == out.hash);
  CHECK(back.marks == out.marks);
  CHECK_FALSE(back.ok());
  CHECK_FALSE(outcome_from_text("{\"rule\": 3}"));
  CHECK_FALSE(outcome_from_text(""));
}

TEST_CASE("seed run: the text of a sanitizer is a rule") {
  auto rule = [](std::string errors) {
    return outcome_of({.how = child_end::died, .signal = 6, .errors = std::move(errors)}).rule;
  };
  CHECK(rule("==1==ERROR: AddressSanitizer: heap-use-after-free on") == "asan");
  CHECK(rule("==1==ERROR: LeakSanitizer: detected memory leaks") == "leak");
  CHECK(rule("a.cpp:1:2: runtime error: signed integer overflow") == "ubsan");
  CHECK(rule("nothing") == "signal 6");
}

TEST_CASE("seed run: whatever can end a run is in the list of rules") {
  auto known = [](std::string rule) {
    for (const char* numbered : {"signal ", "exit "})
      if (rule.starts_with(numbered))
        rule = std::string{numbered} + "N";
    auto all = known_invariants();
    CHECK_MESSAGE(std::ranges::count(all, rule, &list_line::id) == 1, rule);
  };
  for (auto how : {outcome::stuck, outcome::step_limit, outcome::time_limit})
    known(std::string{to_string(how)});
  for (const char* errors :
       {"ERROR: AddressSanitizer: x", "ERROR: LeakSanitizer: x", "a.cpp:1:2: runtime error: x",
        "troupe: invariant a sentence broken", "troupe: invariant INV-P2 broken", ""})
    known(outcome_of({.how = child_end::died, .signal = 11, .errors = errors}).rule);
  known(outcome_of({.how = child_end::died, .code = 3}).rule);
  known(outcome_of({.how = child_end::too_long}).rule);
  auto all = known_invariants();
  CHECK(std::ranges::is_sorted(all, {}, &list_line::id));
}

TEST_CASE(
  "INV-D1 a seed that fails is compared event by event, also when it is not one to run twice") {
  static int runs = 0;
  const scenario flawed{.name = "flawed", .fault_free = true, .build = [](scenario_run& run) {
                          run.cluster().coordinator([&run, n = ++runs](process& p) {
                            trace(p.env(), "test.count", {{"n", n}});
                            run.expect(false, "my-rule", "always");
                          });
                        }};
  auto out = run_seed(flawed, draw_spec(flawed, 1), false);
  CHECK(out.rule == "my-rule");
  CHECK(out.twice);
  CHECK(out.text.find("INV-D1: a second run of this seed differs: event ") != std::string::npos);
  CHECK(out.text.find("test.count of chief/1") != std::string::npos);
}

TEST_CASE("event log: two runs agree until they part, and the first difference is named") {
  event_log a, b;
  tell(a, "queue.raised", 5, 1);
  tell(b, "queue.raised", 5, 1);
  CHECK_FALSE(event_log::difference(a, b));
  tell(a, "server.applied", 6, 1);
  tell(b, "server.applied", 6, 2);
  auto why = event_log::difference(a, b).value();
  CHECK(why.find("event 2") != std::string::npos);
  CHECK(why.find("server.applied of worker1/2 at 6 ns") != std::string::npos);
}

TEST_CASE("event log: a run that ends earlier differs") {
  event_log a, b;
  tell(a, "queue.raised", 5, 1);
  CHECK(event_log::difference(a, b).value().find("the end") != std::string::npos);
}
