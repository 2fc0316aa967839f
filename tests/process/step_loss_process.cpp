// Steps that take their workers' processes with them, by a crash or by hanging past their deadline,
// and closures that only stood beside: who is blamed, and what people are told.
#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

#include "../support/scratch_folder.hpp"
#include "../support/thrown.hpp"
#include "counting_cluster.hpp"

namespace {

using namespace std::chrono_literals;

void crashing_step(tr::worker_context&) {
  ++shared_page::get().entered;
  std::signal(SIGSEGV, SIG_DFL);
  std::raise(SIGSEGV);
}
TROUPE_FUNCTION(crashing_step);

void endless_step(tr::worker_context&) {
  ++shared_page::get().entered;
  for (;;)
    sched_yield();
}
TROUPE_FUNCTION(endless_step);

std::int64_t value_step(tr::worker_context&, tr::per_worker_value<int>& built) {
  return built.value;
}
TROUPE_FUNCTION(value_step);

/// Stays inside for as long as the test holds it.
int held_build() {
  auto& page = shared_page::get();
  ++page.entered;
  while (page.hold)
    sched_yield();
  return 5;
}

/// Lines that the chief says, from any thread.
struct notices {
  std::mutex mutex{};
  std::vector<std::string> lines{};
  tr::runtime_options taken() {
    tr::runtime_options out;
    out.on_notice = [this](const std::string& line) {
      std::lock_guard lock{mutex};
      lines.push_back(line);
    };
    return out;
  }
  std::string first(const std::string& what) {
    std::lock_guard lock{mutex};
    auto at = std::find_if(lines.begin(), lines.end(),
                           [&](const std::string& line) { return says(line, what); });
    return at == lines.end() ? std::string{} : *at;
  }
};

/// Starts the worker again whenever it has ended, until the value is there; its last exit status,
/// and how often it ended.
struct worker_ends {
  int ended = 0;
  std::vector<tool::exit_status> statuses{};
};
template <class T>
worker_ends keep_alive(fixture& f, const tr::remote_value<T>& value) {
  worker_ends out;
  (void)eventually(
    [&] {
      if (!f.cluster.worker(0).running()) {
        ++out.ended;
        out.statuses.push_back(f.cluster.worker(0).wait());
        f.cluster.restart_worker(0);
      }
      return value.ready();
    },
    60s);
  return out;
}

void start_over() {
  shared_page::get().entered = 0;
  shared_page::get().hold = false;
}

} // namespace

TEST_CASE(
  "a step that crashes its worker: the first time is told with function, attempt and worker, "
  "the fifth poisons") {
  start_over();
  notices told;
  fixture f{1, 1, told.taken()};
  auto value = f.coordinator.schedule(crashing_step);
  auto ends = keep_alive(f, value);
  try {
    value.fetch();
    FAIL("it never ends well");
  } catch (const tr::error& e) {
    CHECK(e.code() == tr::errc::poisoned);
    CHECK(says(e.what(), "crashing_step lost 5 workers while it ran: worker:0"));
  }
  CHECK(shared_page::get().entered.load() == 5);
  for (const auto& status : ends.statuses)
    CHECK((status == tool::exit_status{.signal = SIGSEGV}));
  auto line = told.first("crashing_step");
  CHECK(
    says(line, "closure 1:1 of crashing_step: attempt 1, on worker:0, was lost with that worker"));
  CHECK(says(line, "4 more times"));
}

TEST_CASE(
  "a step past its deadline: its worker says so on stderr and ends with 75, the chief says "
  "how often is left") {
  start_over();
  const scratch_folder folder;
  const auto path = folder / "stderr";
  setenv("TROUPE_TEST_STDERR", path.c_str(), 1);
  notices told;
  {
    fixture f{1, 1, told.taken()};
    auto value = f.coordinator.schedule(
      tr::closure_options{.deadline = std::chrono::milliseconds{300}, .retries = 2}, endless_step);
    auto ends = keep_alive(f, value);
    try {
      value.fetch();
      FAIL("it never ends");
    } catch (const tr::error& e) {
      CHECK(e.code() == tr::errc::poisoned);
      CHECK(says(e.what(),
                 "lost 2 workers while it ran: worker:0 (exceeded its deadline of 300 ms), "
                 "worker:0 (exceeded its deadline of 300 ms)"));
    }
    CHECK(shared_page::get().entered.load() == 2);
    for (const auto& status : ends.statuses)
      CHECK((status == tool::exit_status{.code = 75}));
    CHECK(ends.ended >= 1);
  }
  unsetenv("TROUPE_TEST_STDERR");
  CHECK(says(content_of(path),
             "troupe: worker:0: step 'endless_step', closure 1:1, attempt 1 exceeded its deadline "
             "of 300 ms; a running step cannot be stopped, so this process exits with code 75"));
  CHECK(says(told.first("endless_step"),
             "attempt 1, on worker:0, was lost: exceeded its deadline of 300 ms; it is retried, "
             "and fails as poisoned if this "
             "happens 1 more time"));
}

TEST_CASE(
  "innocent closures: a worker that is killed six times while it builds a resource poisons "
  "no closure that waits for it") {
  start_over();
  fixture f{1};
  auto& page = shared_page::get();
  page.hold = true;
  auto built = f.coordinator.create_per_worker_value([] { return held_build(); });
  auto value = f.coordinator.schedule(value_step, built);
  for (int kills = 1; kills <= 6; ++kills) {
    REQUIRE(eventually([&] { return page.entered == kills; }));
    f.cluster.restart_worker(0); // kills the one before it
  }
  page.hold = false;
  CHECK(value.fetch() == 5);
  f.coordinator.join(std::chrono::seconds{30});
}
