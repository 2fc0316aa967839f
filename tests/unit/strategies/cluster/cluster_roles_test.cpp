#include <doctest/doctest.h>

#include <troupe/strategies/cluster/cluster_roles.hpp>

#include <string>
#include <vector>

#include "../../../support/failures.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

// Scenario M1: one chief, two workers, two servers.
const cluster_spec& m1() {
  static const cluster_spec spec{
    {{"chief", {"c:1"}}, {"worker", {"w0:1", "w1:1"}}, {"ps", {"p0:1", "p1:1"}}}};
  return spec;
}

const cluster_spec& no_chief() {
  static const cluster_spec spec{{{"worker", {"w0:1", "w1:1", "w2:1"}}, {"evaluator", {"e:1"}}}};
  return spec;
}

// Each function that takes a task refuses it with the same text.
std::string refused_by_all(const cluster_spec& spec, const cluster_task& own) {
  const auto text = refusal(validate_task(spec, own));
  CHECK(refusal(is_chief(spec, own)) == text);
  CHECK(refusal(id_in_cluster(spec, own)) == text);
  CHECK(refusal(collective_leader(spec, own)) == text);
  return text;
}

std::string leader_of(const cluster_spec& spec, const cluster_task& own) {
  const auto leader = collective_leader(spec, own).value_or_throw();
  return leader ? to_string(*leader) : "none";
}

} // namespace

TEST_CASE("SYNC-MWR-1 a task is one of four types, in the cluster and within its job") {
  for (auto job : {"chief", "worker", "ps"})
    CHECK(validate_task(m1(), {job, 0}));
  CHECK(validate_task(no_chief(), {"evaluator", 0}));
  CHECK(refused_by_all(m1(), {"master", 0})
        == "cluster: task type \"master\" is not one of chief, worker, ps, evaluator");
  CHECK(refused_by_all(m1(), {"", 0})
        == "cluster: task type \"\" is not one of chief, worker, ps, evaluator");
  CHECK(refused_by_all(m1(), {"evaluator", 0})
        == "cluster: task type \"evaluator\" is not a job of the cluster");
  CHECK(refused_by_all(no_chief(), {"chief", 0})
        == "cluster: task type \"chief\" is not a job of the cluster");
  CHECK(refused_by_all(m1(), {"worker", 2})
        == "cluster: task index 2 is not in job \"worker\", which has 2 tasks up to index 1");
  CHECK(refused_by_all(m1(), {"chief", 1})
        == "cluster: task index 1 is not in job \"chief\", which has 1 tasks up to index 0");
}

TEST_CASE("SYNC-MWR-1 more than one chief or evaluator is refused whoever asks") {
  const cluster_spec chiefs{{{"chief", {"c0:1", "c1:1"}}, {"worker", {"w:1"}}}};
  const cluster_spec evaluators{{{"worker", {"w:1"}}, {"evaluator", {"e0:1", "e1:1", "e2:1"}}}};
  CHECK(refused_by_all(chiefs, {"worker", 0})
        == "cluster: job \"chief\" has 2 tasks, may have at most 1");
  CHECK(refused_by_all(evaluators, {"worker", 0})
        == "cluster: job \"evaluator\" has 3 tasks, may have at most 1");
  CHECK(refusal(worker_count(evaluators, "evaluator"))
        == "cluster: job \"evaluator\" has 3 tasks, may have at most 1");
}

TEST_CASE("SYNC-MWR-2 PS-Z20 the chief, worker 0 without one, and the evaluator are chief") {
  CHECK(*is_chief(m1(), {"chief", 0}));
  CHECK_FALSE(*is_chief(m1(), {"worker", 0}));
  CHECK_FALSE(*is_chief(m1(), {"worker", 1}));
  CHECK_FALSE(*is_chief(m1(), {"ps", 0}));
  CHECK(*is_chief(no_chief(), {"worker", 0}));
  CHECK_FALSE(*is_chief(no_chief(), {"worker", 1}));
  CHECK(*is_chief(no_chief(), {"evaluator", 0}));
}

TEST_CASE("SYNC-MWR-3 PS-Z20 chief and workers count together, evaluators by themselves") {
  CHECK(*worker_count(m1(), "chief") == 3);
  CHECK(*worker_count(m1(), "worker") == 3);
  CHECK(*worker_count(no_chief(), "worker") == 3);
  CHECK(*worker_count(no_chief(), "evaluator") == 1);
  CHECK(refusal(worker_count(m1(), "ps"))
        == "cluster: a task of type \"ps\" has no worker count; only chief, worker and evaluator have one");
  CHECK(refusal(worker_count(m1(), "evaluator"))
        == "cluster: task type \"evaluator\" is not a job of the cluster");
  CHECK(refusal(worker_count(m1(), "boss"))
        == "cluster: task type \"boss\" is not one of chief, worker, ps, evaluator");
}

TEST_CASE("SYNC-MWR-4 PS-Z20 ids start with the chief, workers follow") {
  CHECK(*id_in_cluster(m1(), {"chief", 0}) == 0);
  CHECK(*id_in_cluster(m1(), {"worker", 0}) == 1);
  CHECK(*id_in_cluster(m1(), {"worker", 1}) == 2);
  for (std::uint32_t i = 0; i < 3; ++i)
    CHECK(*id_in_cluster(no_chief(), {"worker", i}) == i);
  CHECK(*id_in_cluster(no_chief(), {"evaluator", 0}) == 0);
  CHECK(refusal(id_in_cluster(m1(), {"ps", 0}))
        == "cluster: a task of type \"ps\" has no id in the cluster; only chief, worker and evaluator have one");
}

TEST_CASE("SYNC-MWR-5 the chief leads collectives, else worker 0; nobody an evaluator") {
  for (const auto& own :
       {cluster_task{"chief", 0}, cluster_task{"worker", 1}, cluster_task{"ps", 1}})
    CHECK(leader_of(m1(), own) == "/job:chief/replica:0/task:0");
  CHECK(leader_of(no_chief(), {"worker", 2}) == "/job:worker/replica:0/task:0");
  CHECK(leader_of(no_chief(), {"evaluator", 0}) == "none");
  CHECK(leader_of({}, {}) == "none");
  CHECK(leader_of({}, {"worker", 0}) == "none");
  const cluster_spec servers{{{"ps", {"p:1"}}}};
  CHECK(refusal(collective_leader(servers, {"ps", 0}))
        == "cluster: no leader of collectives: none of the jobs chief, worker has a task");
}

TEST_CASE("SYNC-MWR-6 PS-K1 server 0 leads the coordination, else the chief, else worker 0") {
  const auto leader = [](const cluster_spec& spec) {
    return to_string(*coordination_leader(spec).value_or_throw());
  };
  CHECK(leader(m1()) == "/job:ps/replica:0/task:0");
  CHECK(leader(cluster_spec{{{"chief", {"c:1"}}, {"worker", {"w:1"}}}})
        == "/job:chief/replica:0/task:0");
  CHECK(leader(no_chief()) == "/job:worker/replica:0/task:0");
  CHECK_FALSE(coordination_leader({}).value_or_throw().has_value());
  CHECK(refusal(coordination_leader(cluster_spec{{{"evaluator", {"e:1"}}}}))
        == "cluster: no coordination leader: none of the jobs ps, chief, worker has a "
           "task");
}

TEST_CASE("cluster roles: gaps between indices leave no gap between ids") {
  const auto sparse = cluster_spec::of_indices({{"worker", {{3, "w3:1"}, {7, "w7:1"}}}});
  CHECK(*is_chief(sparse, {"worker", 3}));
  CHECK_FALSE(*is_chief(sparse, {"worker", 7}));
  CHECK(*id_in_cluster(sparse, {"worker", 3}) == 0);
  CHECK(*id_in_cluster(sparse, {"worker", 7}) == 1);
  CHECK(leader_of(sparse, {"worker", 7}) == "/job:worker/replica:0/task:3");
  CHECK(refused_by_all(sparse, {"worker", 5})
        == "cluster: task index 5 is not in job \"worker\", which has 2 tasks up to index 7");
  // An empty job is as good as none.
  const cluster_spec empty_chief{{{"chief", {}}, {"worker", {"w:1"}}}};
  CHECK(*is_chief(empty_chief, {"worker", 0}));
  CHECK(leader_of(empty_chief, {"worker", 0}) == "/job:worker/replica:0/task:0");
}
