// The rules for the addresses of a process. Goal: every refusal is made, and in words that name the
// field as the user wrote it. Method: the rules alone, without sockets.
#include <string>

#include <doctest/doctest.h>

#include <troupe/strategies/runtime/detail/address_rules.hpp>

#include "../../../support/failures.hpp"

namespace {

using namespace troupe;
using namespace troupe::detail;
using testing::refused_text;

runtime_options a_worker() {
  runtime_options options;
  options.task = task_id{.job = job_kind::worker, .index = 1};
  options.coordinator_address = "127.0.0.1:4100";
  return options;
}

runtime_options two_peers() {
  runtime_options options;
  options.peers = {"127.0.0.1:1", "127.0.0.1:2"};
  return options;
}

} // namespace

TEST_CASE("address rules: host and port are read, an IPv6 address without its brackets") {
  const auto plain = parse_host_port("ps.example.org:4703", "listen_address").value_or_throw();
  CHECK(plain.host == "ps.example.org");
  CHECK(plain.port == 4703);
  const auto six = parse_host_port("[::1]:65535", "listen_address").value_or_throw();
  CHECK(six.host == "::1");
  CHECK(six.port == 65535);
  CHECK(parse_host_port("127.0.0.1:0", "listen_address")->port == 0);
}

TEST_CASE("address rules: a text that is no address is quoted, with the field's name") {
  for (const std::string bad : {"127.0.0.1", ":80", "", "host:", "host:1x", "host:65536", "host:-1",
                                "host:port", "host:99999999999999999999999"})
    CHECK(refused_text(parse_host_port(bad, "TF_CONFIG worker[0]"))
          == "runtime: TF_CONFIG worker[0] is '" + bad
               + "', expected host:port with a port from 0 to 65535");
}

TEST_CASE(
  "address rules: an address that other machines reach takes a token, loopback takes none") {
  for (const char* here : {"localhost:1", "127.0.0.1:1", "127.8.9.1:1", "[::1]:1"})
    CHECK_MESSAGE(refused_text(check_reach(here, "listen_address", "")).empty(), here);
  for (const std::string there : {"0.0.0.0:1", "10.1.1.1:1", "[::]:1", "localhost.example.org:1"}) {
    CHECK(refused_text(check_reach(there, "listen_address", ""))
            .starts_with("runtime: listen_address is " + there
                         + ", which is reachable from other machines: a token is required; "));
    CHECK(refused_text(check_reach(there, "listen_address", "secret")).empty());
  }
  CHECK(refused_text(check_reach("0.0.0.0:1", "listen_address", "")).find("TROUPE_TOKEN")
        != std::string::npos);
  CHECK(refused_text(check_reach("nowhere", "listen_address", "secret")).find("'nowhere'")
        != std::string::npos);
}

TEST_CASE("address rules: another port of the same host") {
  CHECK(with_free_port("10.0.0.7:4703") == "10.0.0.7:0");
  CHECK(with_free_port("[::1]:4703") == "[::1]:0");
}

TEST_CASE("address rules: each of a process's three addresses is judged, by the user's name") {
  CHECK(refused_text(check_process_addresses(a_worker())).empty());
  const auto with = [](std::string runtime_options::*address) {
    auto options = a_worker();
    options.names = {.coordinator = "--c", .listen = "--l", .data_listen = "--d"};
    options.*address = "10.0.0.7:1";
    return refused_text(check_process_addresses(options));
  };
  CHECK(with(&runtime_options::coordinator_address).starts_with("runtime: --c is 10.0.0.7:1"));
  CHECK(with(&runtime_options::listen_address).starts_with("runtime: --l is 10.0.0.7:1"));
  CHECK(with(&runtime_options::data_listen_address).starts_with("runtime: --d is 10.0.0.7:1"));
}

TEST_CASE("address rules: a member needs the coordinator's port; the coordinator may take any") {
  auto options = a_worker();
  options.coordinator_address = "127.0.0.1:0";
  CHECK(refused_text(check_process_addresses(options))
        == "runtime: coordinator_address is 127.0.0.1:0: worker:1 needs the coordinator's port, "
           "not 0");
  options.task = task_id{.job = job_kind::ps, .index = 0};
  CHECK(refused_text(check_process_addresses(options)).find("ps:0 needs") != std::string::npos);
  options.task = task_id{.job = job_kind::chief};
  CHECK(refused_text(check_process_addresses(options)).empty());
}

TEST_CASE("address rules: a member listens elsewhere than the coordinator does") {
  auto options = a_worker();
  options.listen_address = options.coordinator_address;
  CHECK(refused_text(check_process_addresses(options))
        == "runtime: coordinator_address and listen_address are the same address, 127.0.0.1:4100");
  options.task = task_id{.job = job_kind::chief};
  CHECK(refused_text(check_process_addresses(options)).empty());
}

TEST_CASE("address rules: peers have fixed ports, each its own") {
  CHECK(refused_text(check_peer_addresses(two_peers())).empty());
  auto free_port = two_peers();
  free_port.peers[1] = "127.0.0.1:0";
  CHECK(refused_text(check_peer_addresses(free_port))
        == "runtime: peers[1] is 127.0.0.1:0: the port must be fixed, not 0");
  auto twice = two_peers();
  twice.peers.push_back(twice.peers[0]);
  CHECK(refused_text(check_peer_addresses(twice))
        == "runtime: peers[0] and peers[2] have the same address, 127.0.0.1:1");
  auto open = two_peers();
  open.peers[0] = "10.0.0.7:1";
  CHECK(refused_text(check_peer_addresses(open)).find("a token is required") != std::string::npos);
  open.token = "secret";
  CHECK(refused_text(check_peer_addresses(open)).empty());
}

TEST_CASE("address rules: peers are named as tasks where a description named them") {
  auto options = two_peers();
  options.peers[1] = "here";
  options.peer_tasks = {"chief", "worker:3"};
  CHECK(refused_text(check_peer_addresses(options)).starts_with("runtime: peers[1] is 'here'"));
  options.described_by = "TF_CONFIG";
  CHECK(refused_text(check_peer_addresses(options))
          .starts_with("runtime: TF_CONFIG worker:3 is 'here'"));
  options.peer_tasks.pop_back();
  CHECK(refused_text(check_peer_addresses(options)).starts_with("runtime: peers[1] is 'here'"));
}

TEST_CASE("address rules: nobody calls a peer without others, so its address is not looked at") {
  runtime_options options;
  options.peers = {"nowhere"};
  CHECK(refused_text(check_peer_addresses(options)).empty());
}
