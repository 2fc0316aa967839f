// The rules that tell strategies apart. Goal: every kind has its own, as tf.distribute has them.
// Method: each rule with the list of the kinds that it holds for.

#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include <troupe/strategies/replicas/detail/strategy_policy.hpp>

namespace {

using kind = troupe::detail::strategy_kind;
using troupe::detail::policy_of;
using troupe::detail::strategy_policy;

const std::vector<kind> all{kind::standard,
                            kind::one_device,
                            kind::mirrored,
                            kind::central_storage,
                            kind::multi_worker_mirrored,
                            kind::tpu,
                            kind::parameter_server};

/// The kinds for which `rule` holds.
std::vector<kind> holds_for(bool strategy_policy::*rule) {
  std::vector<kind> out;
  std::copy_if(all.begin(), all.end(), std::back_inserter(out),
               [&](kind each) { return policy_of(each).*rule; });
  return out;
}

using kinds = std::vector<kind>;

TEST_CASE("strategy policy: each kind finds its own rules") {
  for (auto each : all)
    CHECK(policy_of(each).kind == each);
}

TEST_CASE("strategy policy: what holds for which kind") {
  CHECK(holds_for(&strategy_policy::is_default) == kinds{kind::standard});
  CHECK(holds_for(&strategy_policy::variables_on_servers) == kinds{kind::parameter_server});
  CHECK(holds_for(&strategy_policy::requires_equal_shapes) == kinds{kind::tpu});
  CHECK(holds_for(&strategy_policy::row_updates_without_aggregation_only) == kinds{kind::tpu});
  CHECK(holds_for(&strategy_policy::updates_with_mirrored_values_only) == kinds{kind::tpu});
  CHECK(holds_for(&strategy_policy::allows_pipeline_per_replica) == kinds{kind::mirrored});
  CHECK(holds_for(&strategy_policy::is_between_graph)
        == kinds{kind::multi_worker_mirrored, kind::parameter_server});
  CHECK(holds_for(&strategy_policy::isolates_sessions)
        == kinds{kind::mirrored, kind::central_storage, kind::tpu});
  CHECK(holds_for(&strategy_policy::configures_cluster) == kinds{kind::tpu});
  CHECK(holds_for(&strategy_policy::has_collective_leader) == kinds{kind::multi_worker_mirrored});
}

} // namespace
