// What a start that waits says. Goal: whoever reads it knows which task to start, and where.
// Method: states of a cluster that is coming up.
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <troupe/strategies/runtime/detail/start_report.hpp>

namespace {

using namespace troupe;
using namespace troupe::detail;
using indices = std::vector<std::uint32_t>;

} // namespace

TEST_CASE("start report: the tasks of a cluster, described or counted") {
  CHECK(server_tasks_of({.servers = 3}) == indices{0, 1, 2});
  CHECK(server_tasks_of({.servers = 2, .server_tasks = {1, 4}}) == indices{1, 4});
  CHECK(worker_tasks_of({.workers = 2}) == indices{0, 1});
  CHECK(worker_tasks_of({.workers = 1}, 3) == indices{0, 1, 2});
  CHECK(worker_tasks_of({.workers = 2, .worker_tasks = {3, 5}}, 9) == indices{3, 5});
}

TEST_CASE("start report: nobody is there, and the missing are named with their addresses") {
  runtime_options options{.workers = 1, .servers = 2};
  options.task_addresses[{.job = job_kind::ps, .index = 1}] = "10.0.0.7:4704";
  CHECK(start_report(options, {})
        == "servers 0 of 2, workers 0 (1 required); missing: ps:0, ps:1 (10.0.0.7:4704), worker:0");
}

TEST_CASE("start report: who has joined and is not ready is named with what is missing") {
  CHECK(start_report({.workers = 1, .servers = 2},
                     {.servers = {0, 1}, .ready_servers = {0}, .linking = {0}})
        == "servers 1 of 2, workers 0 (1 required); missing: ps:1 (joined, but its data plane does "
           "not answer), worker:0 (joined, but its control link is not connected)");
}

TEST_CASE("start report: workers are named only while fewer than required are there") {
  const runtime_options options{.workers = 3, .servers = 1, .start_workers = 2};
  CHECK(start_report(options, {.workers = {1}})
        == "servers 0 of 1, workers 1 (2 required); missing: ps:0, worker:0, worker:2");
  CHECK(start_report(options, {.workers = {1, 2}})
        == "servers 0 of 1, workers 2 (2 required); missing: ps:0");
  CHECK(start_report({.servers = 1, .start_workers = 0}, {.workers = {0}})
        == "servers 0 of 1, workers 1 (1 required); missing: ps:0");
}

TEST_CASE("start report: sixteen tasks are named, the rest counted") {
  const auto text = start_report({.servers = 20}, {.workers = {0}});
  CHECK(text.ends_with("ps:14, ps:15 and 4 more"));
  CHECK(text.find("ps:16") == std::string::npos);
}
