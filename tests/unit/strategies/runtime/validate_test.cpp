// What a runtime refuses before anything starts. Goal: half and contradicting options are refused
// in the words of the field, and whole ones are not. Method: `validate` alone.
#include <chrono>
#include <string>

#include <doctest/doctest.h>

#include <troupe/strategies/runtime/detail/validate.hpp>

#include "../../../support/failures.hpp"

namespace {

using namespace troupe;
using namespace std::chrono_literals;
using testing::refused_text;

std::string refused_text(const runtime_options& options) {
  return refused_text(detail::validate(options));
}

constexpr task_id chief{.job = job_kind::chief};
constexpr task_id first_worker{.job = job_kind::worker, .index = 0};

} // namespace

TEST_CASE("validate: the defaults of each kind of process are whole") {
  CHECK(refused_text(runtime_options{}).empty());
  CHECK(refused_text({.task = chief}).empty());
  CHECK(refused_text({.task = first_worker, .coordinator_address = "127.0.0.1:4100"}).empty());
  CHECK(refused_text({.peers = {"127.0.0.1:0"}}).empty());
}

TEST_CASE("validate: a time limit of requests below a millisecond") {
  CHECK(refused_text({.request_timeout = 999'999ns})
        == "runtime: request_timeout is 999999 ns, must be at least 1 ms");
  CHECK(refused_text({.request_timeout = 1ms}).empty());
  CHECK(refused_text({.task = chief, .request_timeout = 0ns}).find("request_timeout is 0 ns")
        != std::string::npos);
}

TEST_CASE("validate: a cluster of this process has a worker and a server") {
  CHECK(refused_text({.workers = 0}) == "runtime: workers is 0, must be at least 1");
  CHECK(refused_text({.servers = 0}) == "runtime: servers is 0, must be at least 1");
  // members of other processes may come later, and peers have neither
  CHECK(refused_text({.workers = 0, .servers = 0, .task = chief}).empty());
  CHECK(refused_text({.workers = 0, .servers = 0, .peers = {"127.0.0.1:0"}}).empty());
}

TEST_CASE("validate: a task or peers, not both") {
  CHECK(refused_text({.task = first_worker, .peers = {"127.0.0.1:0"}})
        == "runtime: task is worker:0 but peers are given: set either task or peers, not both");
}

TEST_CASE("validate: this process is one of its peers") {
  CHECK(refused_text({.peers = {"127.0.0.1:1", "127.0.0.1:2"}, .peer = 2})
        == "runtime: peer is 2, there are 2 peers");
  CHECK(refused_text({.peers = {"127.0.0.1:1", "127.0.0.1:2"}, .peer = 1}).empty());
  CHECK(refused_text({.peers = {"127.0.0.1:0"}, .peer = 1}) // also of one alone
        == "runtime: peer is 1, there are 1 peers");
}

TEST_CASE("validate: peers that cannot call each other, also over a host's network") {
  const runtime_options same{.peers = {"127.0.0.1:1", "127.0.0.1:1"}};
  CHECK(refused_text(same).find("have the same address") != std::string::npos);
  CHECK(refused_text(detail::validate_on_host(same)) == refused_text(same));
}

TEST_CASE("validate: addresses of processes are judged, but not those of a host's network") {
  const runtime_options open{.task = chief, .coordinator_address = "0.0.0.0:0"};
  CHECK(refused_text(open).find("a token is required") != std::string::npos);
  CHECK(refused_text(detail::validate_on_host(open)).empty());
  // within one process no address is used
  CHECK(refused_text({.coordinator_address = "0.0.0.0:0"}).empty());
}
