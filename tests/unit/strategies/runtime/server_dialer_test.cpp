// Whom a process dials for a server. Goal: the server's own incarnation is asked for, and a server
// that is no member is named. Method: entries of a membership, without a wire.
#include <memory>
#include <string>

#include <doctest/doctest.h>

#include <troupe/core/production_ports.hpp>
#include <troupe/strategies/runtime/detail/server_dialer.hpp>
#include <troupe/transport/memory_transport.hpp>

#include "../../../support/failures.hpp"

namespace {

using namespace troupe;
using namespace troupe::detail;
using testing::failure_of;

struct dialing {
  std::unique_ptr<production_ports> ports = make_production_ports();
  std::unique_ptr<data_transport> transport = make_memory_transport(ports->waits());
  environment env{ports->clock(), ports->random(), ports->storage(), ports->threads(),
                  ports->waits(), *transport,      nullptr};
  server_dialer dialer{
    env,
    {.cluster_name = "blue", .token = "secret", .request_timeout = std::chrono::milliseconds{50}}};
};

const origin third_worker{.task = {.job = job_kind::worker, .index = 3}, .inc = {2, 77}};

} // namespace

TEST_CASE("server dialer: the peer is the server's present incarnation, told who dials") {
  dialing d;
  const member server{
    .task = {.job = job_kind::ps, .index = 1}, .inc = {5, 99}, .data_address = "10.0.0.7:4704"};
  const auto peer = d.dialer.peer_of(server, 1, third_worker, term_no{4}).value_or_throw();
  CHECK(peer.address == "10.0.0.7:4704");
  CHECK(peer.cluster == "blue");
  CHECK(peer.token == "secret");
  CHECK(peer.self.task == third_worker.task);
  CHECK(peer.receiver == incarnation{5, 99});
  CHECK(peer.term == term_no{4});
}

TEST_CASE("server dialer: a server that is no member is unavailable, by name and with advice") {
  dialing d;
  const auto check = [](const failure& why) {
    CHECK(why.code == errc::unavailable);
    CHECK(why.text.starts_with("ps:2 is not a member"));
    CHECK(why.text.size() > std::string{"ps:2 is not a member"}.size());
    CHECK(why.where.task == task_id{.job = job_kind::ps, .index = 2});
  };
  check(d.dialer.connect({}, 2, third_worker, term_no{1}).error());
  check(d.dialer.open_snapshot_reader({}, 2, term_no{1}).error());
}

TEST_CASE("server dialer: nobody listens where a member said it would") {
  dialing d;
  const member server{.data_address = "ps1:4704"};
  CHECK(failure_of(d.dialer.connect(server, 1, third_worker, term_no{1})).code
        == errc::connect_failed);
  CHECK(failure_of(d.dialer.open_snapshot_reader(server, 1, term_no{1})).code
        == errc::connect_failed);
}
