#include <troupe/actors/replicas/replica.hpp>

#include <utility>

#include <troupe/messages/devices.hpp>
#include <troupe/messages/replicas.hpp>

namespace troupe {

replica_state::replica_state(interface::pointer self, const environment& env,
                             replica_actor_options options)
  : self_{self}, env_{env}, options_{std::move(options)} {}

auto replica_state::make_behavior() -> interface::behavior_type {
  return {
    [this](device_failed& msg) { on_device_failed(msg); },
    [this](query_replica&) { return on_query(); },
    [this](close_replica& msg) { on_close(msg); },
  };
}

/// What the replica has there is gone, and so is its place in the group.
void replica_state::on_device_failed(const device_failed& msg) {
  if (!msg.here.value || why_.code != errc::none)
    return;
  why_ = msg.why;
  trace(env_, "replica.device_failed",
        {{"replica", options_.id}, {"device", msg.device}, {"why", msg.why.text}});
  mark(env_, "replica.device_failed");
  options_.executor->fail(options_.local, msg.why);
}

replica_report replica_state::on_query() const {
  return {.id = options_.id,
          .device = options_.device,
          .waits = options_.executor->status(),
          .why = why_};
}

void replica_state::on_close(const close_replica& msg) {
  if (msg.here.value)
    self_->quit();
}

replica_actor spawn_replica(caf::actor_system& system, const environment& env,
                            replica_actor_options options) {
  return spawn_state<replica_state>(system, std::cref(env), std::move(options));
}

} // namespace troupe
