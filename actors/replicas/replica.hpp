#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <troupe/actors/replicas/replica_executor.hpp>
#include <troupe/messages/interfaces.hpp>

namespace troupe {

struct replica_actor_options {
  std::uint32_t local = 0; ///< its place among the process's replicas
  std::uint32_t id = 0;    ///< in the whole group
  std::string device{};    ///< "gpu:0"
  std::shared_ptr<replica_executor> executor{};
};

/// The owner of one replica: hears when its device fails, and then fences it, so that no run goes
/// on with it; tells how it is. Work does not pass here: runs are put on the replica's thread.
class replica_state {
public:
  using interface = replica_actor;
  static constexpr const char* name = "troupe.replica";

  replica_state(interface::pointer self, const environment& env, replica_actor_options options);
  interface::behavior_type make_behavior();

private:
  void on_device_failed(const device_failed& msg);
  replica_report on_query() const;
  void on_close(const close_replica& msg);

  interface::pointer self_;
  const environment& env_;
  replica_actor_options options_;
  failure why_{};
};

replica_actor spawn_replica(caf::actor_system& system, const environment& env,
                            replica_actor_options options);

} // namespace troupe
