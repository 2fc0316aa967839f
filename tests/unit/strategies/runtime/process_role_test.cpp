// The roles of a process before they start. Goal: options become the role that they describe, and a
// role whose start failed halfway can be ended. Method: roles that are made and never started.
#include <chrono>
#include <memory>
#include <string>

#include <doctest/doctest.h>

#include <troupe/strategies/runtime/detail/make_role.hpp>

namespace {

using namespace troupe;
using namespace troupe::detail;

/// A role over ports and a system of its own, which has no network: no role asks for it before its
/// start.
struct made_role {
  explicit made_role(runtime_options o)
    : options{std::move(o)}, role{make_role({options, host, ends})} {}
  const runtime_options options;
  process_host host{{}, nullptr};
  actor_ends ends{host.env()};
  std::unique_ptr<process_role> role;
};

runtime_options as_task(job_kind job) {
  return {.workers = 4, .threads_per_worker = 3, .task = task_id{.job = job}};
}

} // namespace

TEST_CASE("process role: the program runs within one process, as chief and among equals") {
  CHECK(made_role{{}}.role->runs_program());
  CHECK(made_role{as_task(job_kind::chief)}.role->runs_program());
  CHECK(made_role{{.peers = {"127.0.0.1:0"}}}.role->runs_program());
  CHECK_FALSE(made_role{as_task(job_kind::worker)}.role->runs_program());
  CHECK_FALSE(made_role{as_task(job_kind::ps)}.role->runs_program());
}

TEST_CASE("process role: who runs the program serves nobody") {
  for (const auto& options :
       {runtime_options{}, as_task(job_kind::chief), runtime_options{.peers = {"127.0.0.1:0"}}}) {
    const made_role made{options};
    try {
      (void)made.role->serve();
      FAIL("served");
    } catch (const error& why) {
      CHECK(why.code() == errc::wrong_state);
    }
  }
}

TEST_CASE("process role: threads of steps, and where named devices are opened at start") {
  const auto needs = [](runtime_options options) {
    return made_role{std::move(options)}.role->needs();
  };
  const auto embedded = needs({.workers = 4, .threads_per_worker = 3});
  CHECK(embedded.threads == 12);
  CHECK(embedded.runs_steps_here);
  const auto worker = needs(as_task(job_kind::worker));
  CHECK(worker.threads == 3);
  CHECK(worker.runs_steps_here);
  CHECK_FALSE(needs(as_task(job_kind::chief)).runs_steps_here);
  CHECK_FALSE(needs(as_task(job_kind::ps)).runs_steps_here);
  const auto equal = needs({.threads_per_worker = 3, .peers = {"127.0.0.1:0"}});
  CHECK(equal.threads == 1);
  CHECK(equal.runs_steps_here);
}

TEST_CASE("process role: members outlive a coordinator of processes alone") {
  CHECK(made_role{as_task(job_kind::chief)}.role->members_can_stay());
  CHECK_FALSE(made_role{{}}.role->members_can_stay());
}

TEST_CASE("process role: one that was never started ends at once, and twice") {
  for (const auto& options :
       {runtime_options{}, as_task(job_kind::chief), as_task(job_kind::worker),
        as_task(job_kind::ps), runtime_options{.peers = {"127.0.0.1:0"}}}) {
    const made_role made{options};
    CHECK(made.role->owner() == nullptr);
    CHECK(made.role->address().empty());
    const auto deadline = after(made.host.env().clock.now(), std::chrono::seconds{5});
    CHECK(made.role->end(deadline, {}));
    CHECK(made.role->end(deadline, {}));
    made.role->close();
    made.role->release();
    CHECK(made.host.env().clock.now() < deadline);
  }
}
