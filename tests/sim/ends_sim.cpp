// How clusters end, and how they begin anew: what each process ends with, who is waited for, and
// for how long.

#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <string>

#include <troupe/core/exit_code.hpp>
#include <troupe/core/promise.hpp>
#include <troupe/sim/world.hpp>
#include <troupe/troupe.hpp>

#include "../support/failures.hpp"

using namespace troupe;
using namespace troupe::testing;
using namespace troupe::sim;
using namespace std::chrono_literals;

namespace {

void end_step(worker_context& ctx, const variable& to) {
  ctx.compute(500us);
  to.assign_add(tensor::scalar(1.0f));
}
TROUPE_FUNCTION(end_step);

struct parts {
  explicit parts(process& p, runtime_options options)
    : rt{std::move(options), p.host()},
      strategy{rt},
      coordinator{strategy},
      counter{strategy.create_variable({.name = "counter", .shape = {}})} {}
  explicit parts(process& p) : parts{p, p.options()} {}
  void work_until_error() {
    for (;;) {
      coordinator.schedule(end_step, counter);
      coordinator.join(30s);
    }
  }
  runtime rt;
  parameter_server_strategy strategy;
  cluster_coordinator coordinator;
  variable counter;
};

void wait_for(process& p, duration d) {
  promise_slot<bool> nothing{p.env()};
  (void)nothing.wait(after(p.env().clock.now(), d), "nothing");
}

/// The last process of each task.
struct ends {
  explicit ends(const report& of) {
    for (const auto& e : of.exits)
      last[to_string(e.node)] = e;
  }
  int code(const std::string& node) const { return last.at(node).code; }
  exit_record::how_t how(const std::string& node) const { return last.at(node).how; }
  std::uint32_t start(const std::string& node) const { return last.at(node).start; }
  std::map<std::string, exit_record> last{};
};

struct run_options {
  program main{};
  std::function<void(world&)> faults{};
  std::uint32_t workers = 2;
  std::uint32_t servers = 2;
};

report run_cluster(const run_options& how) {
  world_options options;
  options.seed = 11;
  world w{std::move(options)};
  w.coordinator(how.main);
  w.workers(how.workers);
  w.servers(how.servers);
  if (how.faults)
    how.faults(w);
  return w.run();
}

constexpr int lost = static_cast<int>(exit_code::unavailable);

} // namespace

TEST_CASE("ends: a cluster that ends as its program meant ends every process with 0") {
  auto out = run_cluster({.main = [](process& p) {
    parts c{p};
    c.coordinator.schedule(end_step, c.counter);
    c.coordinator.join(30s);
  }});
  INFO(out.text());
  CHECK(out.ok());
  for (const auto& e : out.exits)
    CHECK(e.code == 0);
}

TEST_CASE("ends: after a server's loss the others ended with 0; they end with 69") {
  failure why;
  SUBCASE("the error leaves the program") {
    auto out = run_cluster({.main =
                              [&](process& p) {
                                try {
                                  parts c{p};
                                  c.work_until_error();
                                } catch (const error& e) {
                                  why = e.details();
                                }
                              },
                            .faults = [](world& w) { w.at(1s).crash(server{0}); }});
    INFO(out.text());
    ends at{out};
    CHECK(why.code == errc::unavailable);
    for (const char* other : {"ps1", "worker0", "worker1"})
      CHECK(at.code(other) == lost);
  }
  SUBCASE("the program catches it and returns as if nothing were") {
    auto out = run_cluster({.main =
                              [&](process& p) {
                                parts c{p};
                                try {
                                  c.work_until_error();
                                } catch (const error& e) {
                                  why = e.details();
                                }
                              },
                            .faults = [](world& w) { w.at(1s).crash(server{0}); }});
    INFO(out.text());
    ends at{out};
    CHECK(why.code == errc::unavailable);
    for (const char* other : {"ps1", "worker0", "worker1"})
      CHECK(at.code(other) == lost);
  }
  SUBCASE("the program says that it means the end") {
    auto out = run_cluster({.main =
                              [&](process& p) {
                                parts c{p};
                                try {
                                  c.work_until_error();
                                } catch (const error& e) {
                                  why = e.details();
                                }
                                c.rt.shutdown();
                              },
                            .faults = [](world& w) { w.at(1s).crash(server{0}); }});
    INFO(out.text());
    ends at{out};
    for (const char* other : {"ps1", "worker0", "worker1"})
      CHECK(at.code(other) == 0);
  }
  SUBCASE("the program says why it ends") {
    auto out = run_cluster({.main = [&](process& p) {
      parts c{p};
      c.rt.fail(make_failure(errc::bad_config, "the learning rate is a colour"));
    }});
    INFO(out.text());
    ends at{out};
    for (const char* other : {"ps0", "ps1", "worker0", "worker1"})
      CHECK(at.code(other) == static_cast<int>(exit_code::usage));
  }
}

TEST_CASE("ends: after the chief's loss the others wait for the next one, then end with 69") {
  auto out = run_cluster({.main =
                            [](process& p) {
                              parts c{p};
                              c.work_until_error();
                            },
                          .faults = [](world& w) { w.at(1s).crash(chief); }});
  INFO(out.text());
  ends at{out};
  for (const char* other : {"ps0", "ps1", "worker0", "worker1"}) {
    CHECK(at.how(other) == exit_record::returned);
    CHECK(at.code(other) == lost);
    CHECK(at.last.at(other).at >= 60s);
    CHECK(at.last.at(other).at <= 70s);
  }
  CHECK(out.event_counts.at("member.waits") >= 4 * 10); // each said so every five seconds
}

TEST_CASE("ends: after a server's loss a new runtime makes the cluster anew in the same process") {
  float got = 0;
  auto out = run_cluster({.main =
                            [&](process& p) {
                              {
                                parts c{p};
                                CHECK_THROWS_AS(c.work_until_error(), error);
                                c.rt.step_down();
                              }
                              parts d{p};
                              for (int i = 0; i < 4; ++i)
                                d.coordinator.schedule(end_step, d.counter);
                              d.coordinator.join(30s);
                              got = d.counter.read().item<float>();
                            },
                          .faults =
                            [](world& w) {
                              w.at(1s).crash(server{0});
                              w.at(5s).restart(server{0});
                            }});
  INFO(out.text());
  CHECK(out.ok());
  CHECK(got == 4.0f); // nothing of the first cluster is left in it
  ends at{out};
  for (const char* other : {"ps0", "ps1", "worker0", "worker1"})
    CHECK(at.code(other) == 0);
  for (const char* other : {"ps1", "worker0", "worker1"})
    CHECK(at.start(other) == 1); // the same process all the time
  CHECK(at.start("ps0") == 2);
}

TEST_CASE("ends: a start that waits says every few seconds who is missing, by task and address") {
  failure why;
  auto out = run_cluster({.main =
                            [&](process& p) {
                              auto options = p.options();
                              options.start_timeout = 22s;
                              options.task_addresses = {{{job_kind::ps, 0}, "10.0.0.5:4703"},
                                                        {{job_kind::ps, 1}, "10.0.0.6:4704"},
                                                        {{job_kind::worker, 0}, "10.0.0.7:4701"}};
                              try {
                                parts c{p, options};
                              } catch (const error& e) {
                                why = e.details();
                              }
                            },
                          .faults = [](world& w) { w.at(0s).crash(server{1}); }});
  INFO(out.text());
  INFO(why.text);
  CHECK(why.code == errc::deadline);
  CHECK(says(why.text, "servers 1 of 2, workers 2 (1 required)"));
  CHECK(says(why.text, "missing: ps:1 (10.0.0.6:4704)"));
  CHECK_FALSE(says(why.text, "ps:0"));
  CHECK_FALSE(says(why.text, "worker:0"));
  CHECK(out.event_counts.at("runtime.start_waits") == 4);
  ends at{out};
  for (const char* other : {"ps0", "worker0", "worker1"})
    CHECK(at.code(other) == lost); // a start that failed is no end that the program meant
}

TEST_CASE("ends: a start without workers names those that it could do with") {
  failure why;
  auto out = run_cluster({.main =
                            [&](process& p) {
                              auto options = p.options();
                              options.start_timeout = 3s;
                              try {
                                parts c{p, options};
                              } catch (const error& e) {
                                why = e.details();
                              }
                            },
                          .faults =
                            [](world& w) {
                              w.at(0s).crash(worker{0});
                              w.at(0s).crash(worker{1});
                            }});
  INFO(out.text());
  INFO(why.text);
  CHECK(why.code == errc::deadline);
  CHECK(says(why.text, "servers 2 of 2, workers 0 (1 required)"));
  CHECK(says(why.text, "missing: worker:0, worker:1"));
}

TEST_CASE(
  "ends: a worker that starts just before shutdown never left while the coordinator's process "
  "lived; it ends after its patience") {
  auto out = run_cluster({.main =
                            [](process& p) {
                              {
                                parts c{p};
                                wait_for(p, 1s);
                              }
                              wait_for(p, 200s); // no cluster any more, and its process lives
                            },
                          .faults =
                            [](world& w) {
                              w.at(3s).restart(worker{0});
                              w.at(3s).restart(server{0});
                            }});
  INFO(out.text());
  CHECK(out.ok());
  ends at{out};
  for (const char* late : {"ps0", "worker0"}) {
    CHECK(at.start(late) == 2);
    CHECK(at.code(late) == lost);
    CHECK(at.last.at(late).at <= 70s); // 150 s were seen
  }
  CHECK(at.code("worker1") == 0);
}

TEST_CASE("ends: a worker that comes while the cluster ends as meant ends with 0") {
  // worker 1 is stopped, so that the end waits for it while worker 0 comes back
  auto out = run_cluster({.main =
                            [](process& p) {
                              parts c{p};
                              wait_for(p, 2s);
                              c.rt.shutdown(10s);
                            },
                          .faults =
                            [](world& w) {
                              w.at(1900ms).pause(worker{1}, 4s);
                              w.at(1s).crash(worker{0});
                              w.at(2100ms).restart(worker{0});
                            }});
  INFO(out.text());
  ends at{out};
  CHECK(at.start("worker0") == 2);
  CHECK(at.code("worker0") == 0);
}
