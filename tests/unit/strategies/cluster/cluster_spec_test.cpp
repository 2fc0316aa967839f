#include <doctest/doctest.h>

#include <troupe/strategies/cluster/cluster_spec.hpp>

#include <string>
#include <type_traits>

#include "../../../support/failures.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

const cluster_spec& small() {
  static const cluster_spec spec{
    {{"chief", {"c0:1"}}, {"ps", {"p0:1", "p1:1"}}, {"worker", {"w0:1", "w1:1", "w2:1"}}}};
  return spec;
}

cluster_spec parsed(std::string_view text) {
  return cluster_spec::from_json(text).value_or_throw();
}

failure refused(std::string_view text) {
  auto spec = cluster_spec::from_json(text);
  REQUIRE_FALSE(spec);
  CHECK(spec.error().code == errc::bad_config);
  return spec.error();
}

failure refused(const cluster_spec& spec, const own_task& own = {}) {
  auto fine = validate_parameter_server_cluster(spec, own);
  REQUIRE_FALSE(fine);
  CHECK(fine.error().code == errc::bad_config);
  return fine.error();
}

} // namespace

TEST_CASE("PS-Z1 a cluster comes from lists, from maps by index, from JSON and by copying") {
  const cluster_spec dense{{{"ps", {"p0:1", "p1:1"}}}};
  CHECK(parsed(R"({"ps": ["p0:1", "p1:1"]})") == dense);
  CHECK(parsed(R"({"ps": {"1": "p1:1", "0": "p0:1"}})") == dense);
  CHECK(cluster_spec::of_indices({{"ps", {{0, "p0:1"}, {1, "p1:1"}}}}) == dense);
  auto copy = dense;
  copy.set_job("worker", {"w0:1"});
  CHECK(copy.num_tasks("worker") == 1);
  CHECK_FALSE(dense.has_job("worker"));
  static_assert(!std::is_constructible_v<cluster_spec, int>);
  static_assert(!std::is_constructible_v<cluster_spec, std::map<int, std::vector<std::string>>>);
}

TEST_CASE("PS-Z1 JSON that is no cluster is refused with the job and the value") {
  CHECK(says(refused("[]"), "[]"));
  CHECK(says(refused("3"), "3"));
  CHECK(says(refused(""), "not JSON"));
  CHECK(says(refused(R"({"worker": "w0:1"})"), R"(job "worker" is "w0:1")"));
  CHECK(says(refused(R"({"worker": 7})"), R"(job "worker" is 7)"));
  CHECK(says(refused(R"({"worker": ["w0:1", 8]})"), R"(job "worker": the address of task 1 is 8)"));
  CHECK(says(refused(R"({"ps": {"0": null}})"), R"(job "ps": the address of task 0 is null)"));
  for (auto index : {"x", "-1", "1.5", "", "4294967296", " 1", "+1"}) {
    auto why = refused(std::string{R"({"ps": {")"} + index + R"(": "p:1"}})");
    CHECK(says(why, std::string{"the index \""} + index + "\""));
  }
  CHECK(parsed(R"({"ps": {"4294967295": "p:1"}})").task_address("ps", 4294967295u) == "p:1");
}

TEST_CASE("PS-Z1 a key or an index that stands twice is refused, not merged") {
  CHECK(says(refused(R"({"ps": ["a:1"], "ps": ["b:1"]})"), R"(duplicate key "ps")"));
  CHECK(says(refused(R"({"ps": {"0": "a:1", "0": "b:1"}})"), R"(duplicate key "0")"));
  CHECK(says(refused(R"({"ps": {"0": "a:1", "00": "b:1"}})"), "duplicate index 0"));
  CHECK(parsed(R"({"ps": {"0": "a:1"}, "worker": {"0": "b:1"}})").jobs().size() == 2);
  CHECK(says(refused(std::string(10'000, '[') + std::string(10'000, ']')), "nested deeper"));
}

TEST_CASE("PS-Z2 dense jobs print as lists, sparse ones as maps, an empty one as an empty map") {
  cluster_spec spec{{{"ps", {"p0:1", "p1:1"}}, {"none", {}}}};
  spec.set_sparse_job("worker", {{7, "w7:1"}, {3, "w3:1"}});
  CHECK(to_string(spec)
        == R"({"none": {}, "ps": ["p0:1", "p1:1"], "worker": {"3": "w3:1", "7": "w7:1"}})");
  CHECK(parsed(spec.to_json()) == spec);
  CHECK(to_string(cluster_spec{}) == "{}");
  CHECK(to_string(cluster_spec{{{"a\"b", {"\n"}}}}) == R"({"a\"b": ["\n"]})");
}

TEST_CASE("PS-Z2 tasks are counted, listed in order of index, and gaps are none") {
  cluster_spec spec;
  spec.set_sparse_job("worker", {{3, "w3:1"}, {0, "w0:1"}});
  CHECK(spec.num_tasks("worker") == 2);
  CHECK(spec.task_indices("worker") == std::vector<std::uint32_t>{0, 3});
  CHECK(spec.task_address("worker", 3) == "w3:1");
  auto listed = spec.job_tasks("worker");
  REQUIRE(listed.size() == 4);
  CHECK(listed[0] == "w0:1");
  CHECK_FALSE(listed[1].has_value());
  CHECK_FALSE(listed[2].has_value());
  CHECK(listed[3] == "w3:1");
  CHECK(spec.as_map().at("worker").size() == 2);
  spec.set_sparse_job("worker", {{4'000'000'000u, "far:1"}});
  CHECK(code_of([&] { (void)spec.job_tasks("worker"); }) == errc::too_large);
}

TEST_CASE("PS-Z3 an unknown job or index is an error, and an empty cluster is false") {
  CHECK(code_of([] { (void)small().num_tasks("master"); }) == errc::unknown_name);
  CHECK(code_of([] { (void)small().task_indices("master"); }) == errc::unknown_name);
  CHECK(code_of([] { (void)small().job_tasks("master"); }) == errc::unknown_name);
  CHECK(code_of([] { (void)small().task_address("master", 0); }) == errc::unknown_name);
  CHECK(code_of([] { (void)small().task_address("ps", 2); }) == errc::out_of_range);
  CHECK_FALSE(cluster_spec{});
  CHECK_FALSE(parsed("{}"));
  CHECK(static_cast<bool>(small()));
}

TEST_CASE("PS-Z4 a job with gaps is a good cluster, and own indices are its own") {
  cluster_spec spec{{{"ps", {"p0:1"}}}};
  spec.set_sparse_job("worker", {{2, "w2:1"}, {5, "w5:1"}});
  CHECK(validate_parameter_server_cluster(spec, {"worker", 5}));
  CHECK(
    says(refused(spec, {"worker", 3}), "task index 3 is not in job \"worker\", which has 2, 5"));
  CHECK(says(refused(spec, {"worker", 6}), "task index 6"));
}

TEST_CASE("PS-A1 chief, workers, servers and an evaluator make a cluster") {
  CHECK(validate_parameter_server_cluster(small(), {"chief", 0}));
  CHECK(validate_parameter_server_cluster(small()));
  auto with_evaluator = small();
  with_evaluator.set_job("evaluator", {"e0:1"});
  CHECK(validate_parameter_server_cluster(with_evaluator, {"evaluator", 0}));
}

TEST_CASE("PS-A2 an empty cluster is refused") { CHECK(says(refused(cluster_spec{}), "no job")); }

TEST_CASE("PS-A3 a cluster without servers or without workers is refused") {
  CHECK(says(refused(cluster_spec{{{"worker", {"w0:1"}}}}), "\"ps\" has 0 tasks"));
  CHECK(says(refused(cluster_spec{{{"ps", {"p0:1"}}}}), "\"worker\" has 0 tasks"));
  CHECK(says(refused(cluster_spec{{{"ps", {"p0:1"}}, {"worker", {}}}}), "\"worker\" has 0 tasks"));
}

TEST_CASE("PS-A4 a job that is not one of the four is refused by its name") {
  for (auto job : {"master", "foobar", "Worker", ""}) {
    auto spec = small();
    spec.set_job(job, {"x:1"});
    CHECK(says(refused(spec), std::string{"job \""} + job + "\""));
  }
}

TEST_CASE("PS-A5 an own task type that is not one of the four is refused and echoed") {
  CHECK(says(refused(small(), {"foobar", 0}), "\"foobar\""));
  CHECK(validate_parameter_server_cluster(small(), {std::nullopt, 3}));
}

TEST_CASE("PS-A6 more than one chief or evaluator is refused with the number") {
  auto spec = small();
  spec.set_job("chief", {"a:1", "b:1", "c:1"});
  CHECK(says(refused(spec), "\"chief\" has 3 tasks"));
  spec = small();
  spec.set_job("evaluator", {"a:1", "b:1"});
  CHECK(says(refused(spec), "\"evaluator\" has 2 tasks"));
}

TEST_CASE("PS-A7 an own task type that the cluster lacks is refused, except the evaluator") {
  const cluster_spec spec{{{"ps", {"p0:1"}}, {"worker", {"w0:1"}}}};
  CHECK(says(refused(spec, {"chief", 0}), "\"chief\" is not a job"));
  CHECK(validate_parameter_server_cluster(spec, {"evaluator", 0}));
  CHECK(validate_parameter_server_cluster(spec, {"evaluator", 9}));
}

TEST_CASE("PS-A8 an own task index past the last task is refused with the largest one") {
  CHECK(
    says(refused(small(), {"worker", 3}), "task index 3 exceeds the largest of job \"worker\", 2"));
  CHECK(says(refused(small(), {"ps", 2}), "task index 2"));
  CHECK(says(refused(small(), {"ps", std::nullopt}), "requires a task index"));
  CHECK(validate_parameter_server_cluster(small(), {"worker", 2}));
}

TEST_CASE("PS-A9 a coordinator cannot go by the name of a worker or a server") {
  for (auto name : {"worker", "ps", ""}) {
    auto fine = validate_coordinator_name(name);
    REQUIRE_FALSE(fine);
    CHECK(says(fine.error(), std::string{"\""} + name + "\""));
  }
  CHECK(validate_coordinator_name("chief"));
}

TEST_CASE("cluster: a task without an address is refused by its name") {
  auto spec = small();
  spec.set_job("ps", {"p0:1", ""});
  CHECK(says(refused(spec), "task ps:1 has the address \"\""));
}

// --- addresses

namespace {

bool mentions(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

std::string address_refused(const cluster_spec& spec) {
  const auto verdict = validate_addresses(spec);
  REQUIRE_FALSE(verdict);
  CHECK(verdict.error().code == errc::bad_config);
  return verdict.error().text;
}

} // namespace

TEST_CASE(
  "two tasks with one address trained on: they are named, in the words of the description") {
  const auto same = address_refused(
    cluster_spec{{{"chief", {"a:1"}}, {"worker", {"b:1", "a:1"}}, {"ps", {"c:1"}}}});
  CHECK(mentions(same, "chief[0] and worker[1] have the same address, \"a:1\""));
  for (const auto& [one, other] :
       {std::pair{"localhost:7", "127.0.0.1:7"}, {"HOST:7", "host:7"}, {"h:7", "h:07"}})
    CHECK(mentions(address_refused(cluster_spec{{{"worker", {one, other}}}}),
                   "worker[0] and worker[1]"));
  CHECK(validate_addresses(cluster_spec{{{"worker", {"a:1", "a:2", "b:1", "[::1]:1"}}}}));
  CHECK(validate_addresses(cluster_spec{}));
}

TEST_CASE(
  "an address that nobody can call is refused, naming the task, the address and what is wrong") {
  const std::vector<std::pair<std::string, std::string>> all{
    {"h:0", "from 1 to 65535"},           {"h:65536", "from 1 to 65535"},
    {"h:99999999999", "from 1 to 65535"}, {"h", "expected host:port"},
    {":1", "expected host:port"},         {"h:", "number as the port"},
    {"h:x", "number as the port"},        {"h:1x", "number as the port"},
    {"h:-1", "number as the port"},       {"", "expected host:port"},
    {"grpc://h:1", "without a scheme"}};
  for (const auto& [address, what] : all) {
    const auto text =
      address_refused(cluster_spec::of_indices({{"worker", {{3, "fine:1"}, {7, address}}}}));
    CHECK_MESSAGE(mentions(text, "worker[7] is \"" + address + "\""), text);
    CHECK_MESSAGE(mentions(text, what), text);
  }
}

TEST_CASE("a misspelt job was passed by: it is refused, with the one that was meant") {
  const auto text = address_refused(cluster_spec{{{"chief", {"a:1"}}, {"wroker", {"b:1"}}}});
  CHECK(mentions(text, "\"wroker\""));
  CHECK(mentions(text, "did you mean 'worker'?"));
}
