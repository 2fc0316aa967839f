// Configurations of v1's sessions. Goal: row SYNC-V1-8. Method: strategies without a runtime, which
// are only asked what they are.

#include <doctest/doctest.h>

#include <troupe/strategies/compat/compat_v1.hpp>
#include <troupe/strategies/replicas/detail/replica_engine.hpp>

namespace {

using namespace troupe;
using kind = troupe::detail::strategy_kind;
namespace v1 = troupe::compat_v1;

strategy described(kind of, std::uint32_t worker = 0) {
  troupe::detail::sync_options o;
  o.kind = of;
  o.name = "described";
  o.devices = {"cpu:0"};
  o.workers = 3;
  o.worker = worker;
  return strategy{std::make_shared<troupe::detail::replica_engine>(o)};
}

v1::session_config some_config() {
  v1::session_config out;
  out.device_filters = {"/job:ps"};
  return out;
}

TEST_CASE("SYNC-V1-8 update_config gives a changed copy") {
  const auto config = some_config();
  auto isolated = config;
  isolated.isolate_session_state = true;
  CHECK(v1::update_config(described(kind::mirrored), config) == isolated);
  CHECK(v1::update_config(described(kind::central_storage), config) == isolated);
  CHECK(v1::update_config(described(kind::one_device), config) == config);
  CHECK(v1::update_config(strategy{}, config) == config);
  const cluster_spec some{{{"chief", {"a:1"}}, {"worker", {"b:1", "c:1"}}}};
  auto slice = isolated;
  slice.cluster = some;
  CHECK(v1::update_config(described(kind::tpu), config, some) == slice);
  CHECK(config == some_config());
}

TEST_CASE("SYNC-V1-8 update_config of several workers names their leader and this process") {
  const auto s = described(kind::multi_worker_mirrored, 1);
  const auto config = some_config();
  auto out = v1::update_config(s, config);
  CHECK(out.collective_leader == "/job:worker/replica:0/task:0");
  CHECK(out.scoped_allocator_ops == std::vector<std::string>{"all_reduce"});
  CHECK(out.device_filters == std::vector<std::string>{"/job:worker/task:1"});
  CHECK(!out.isolate_session_state);
  CHECK(config == some_config());
  const cluster_spec chief{{{"chief", {"a:1"}}, {"worker", {"b:1", "c:1"}}}};
  out = v1::update_config(s, config, chief, {.type = "chief", .id = 0});
  CHECK(out.collective_leader == "/job:chief/replica:0/task:0");
  CHECK(out.device_filters == std::vector<std::string>{"/job:chief/task:0"});
  const cluster_spec equal{{{"worker", {"b:1", "c:1"}}}};
  CHECK(v1::update_config(s, config, equal).collective_leader == "/job:worker/replica:0/task:0");
  try {
    (void)v1::update_config(s, config, equal, {.type = "worker", .id = 7});
    FAIL("nothing was thrown");
  } catch (const error& e) {
    CHECK(e.code() == errc::invalid_argument);
    CHECK(e.details().text.find("worker") != std::string::npos);
    CHECK(e.details().text.find("7") != std::string::npos);
  }
}

} // namespace
