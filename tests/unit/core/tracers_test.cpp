#include <troupe/core/tracers.hpp>

#include <doctest/doctest.h>

#include <csignal>
#include <limits>

#include <sys/wait.h>

#include <troupe/core/production_ports.hpp>

#include "../../support/fake_storage.hpp"
#include "../../support/processes.hpp"

using namespace troupe;

namespace {

struct fixed_clock final : clock_port {
  time_point now() const override { return time_point{duration{7}}; }
  std::int64_t unix_ms() const override { return 0; }
};

void emit(tracer& to, std::string_view id, std::initializer_list<trace_field> fields) {
  to.event(id, {fields.begin(), fields.size()});
}

} // namespace

TEST_CASE("counting tracer: events and marks are counted apart, also from several threads") {
  counting_tracer trace;
  auto ports = make_production_ports();
  std::vector<std::unique_ptr<thread_handle>> threads;
  for (int i = 0; i < 4; ++i)
    threads.push_back(ports->threads().start("count", [&] {
      for (int k = 0; k < 500; ++k) {
        trace.mark("a");
        emit(trace, "b", {{"k", k}});
      }
    }));
  for (auto& each : threads)
    each->join();
  CHECK(trace.marks("a") == 2000);
  CHECK(trace.marks("b") == 0);
  CHECK(trace.events("b") == 2000);
  CHECK(trace.events("a") == 0);
  CHECK(trace.all_marks() == std::map<std::string, std::uint64_t>{{"a", 2000}});
}

TEST_CASE("jsonl tracer: a line per event and mark, with text escaped") {
  testing::fake_storage disk;
  fixed_clock clock;
  auto trace = make_jsonl_tracer(disk, clock, "trace.jsonl");
  REQUIRE(trace);
  emit(**trace, "worker.lost",
       {{"worker", 3},
        {"why", "a \"b\"\\\n"},
        {"left", std::uint64_t{1} << 63},
        {"delta", -1},
        {"rate", 0.5}});
  (*trace)->mark("after_pull");
  emit(**trace, "odd", {{"x", std::numeric_limits<double>::quiet_NaN()}});
  CHECK(disk.content("trace.jsonl")
        == "{\"t_ns\":7,\"event\":\"worker.lost\",\"worker\":3,\"why\":\"a \\\"b\\\"\\\\\\u000a\","
           "\"left\":9223372036854775808,\"delta\":-1,\"rate\":0.5}\n"
           "{\"t_ns\":7,\"mark\":\"after_pull\"}\n"
           "{\"t_ns\":7,\"event\":\"odd\",\"x\":\"nan\"}\n");
}

TEST_CASE(
  "jsonl tracer: a full disk ends the trace and nothing else, a missing directory is an error") {
  testing::fake_storage disk;
  fixed_clock clock;
  auto trace = make_jsonl_tracer(disk, clock, "trace.jsonl");
  REQUIRE(trace);
  (*trace)->mark("a");
  const auto before = disk.content("trace.jsonl");
  disk.fail_at(0, errc::no_space);
  (*trace)->mark("b");
  (*trace)->mark("c");
  CHECK(disk.content("trace.jsonl").substr(0, before.size()) == before);
  CHECK(disk.content("trace.jsonl").find("\"c\"") == std::string::npos);
  auto nowhere = make_jsonl_tracer(disk, clock, "none/trace.jsonl");
  REQUIRE_FALSE(nowhere);
  CHECK(nowhere.error().code == errc::not_found);
}

TEST_CASE("fan-out tracer: every sink hears everything") {
  testing::fake_storage disk;
  fixed_clock clock;
  std::vector<std::unique_ptr<tracer>> sinks;
  for (const char* path : {"1", "2"}) {
    auto sink = make_jsonl_tracer(disk, clock, path);
    REQUIRE(sink);
    sinks.push_back(std::move(*sink));
  }
  auto trace = make_fan_out_tracer(std::move(sinks));
  trace->mark("a");
  emit(*trace, "b", {});
  CHECK(disk.content("1") == disk.content("2"));
  CHECK(disk.content("1") == "{\"t_ns\":7,\"mark\":\"a\"}\n{\"t_ns\":7,\"event\":\"b\"}\n");
}

TEST_CASE("kill-at-mark tracer: the process dies at the n-th hit and not before") {
  const auto hit = [](int times) {
    return testing::child_process{[times] {
             auto trace = make_kill_at_mark_tracer("here", 3);
             for (int i = 0; i < times; ++i) {
               trace->mark("elsewhere");
               trace->mark("here");
             }
             return 0;
           }}
      .wait();
  };
  CHECK(hit(2).ok());
  CHECK(hit(3).signal == SIGKILL);
}

TEST_CASE("stop-at-mark tracer: the process stops at the n-th hit and goes on when told") {
  testing::child_process child{[] {
    auto trace = make_stop_at_mark_tracer("here", 2);
    trace->mark("here");
    trace->mark("here");
    return 0;
  }};
  int status = 0;
  REQUIRE(::waitpid(child.pid(), &status, WUNTRACED) == child.pid());
  REQUIRE(WIFSTOPPED(status));
  CHECK(WSTOPSIG(status) == SIGSTOP);
  child.signal(SIGCONT);
  CHECK(child.wait().ok());
}
