#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include <troupe/core/environment.hpp>
#include <troupe/core/promise.hpp>

namespace troupe::detail {

/// The ends of the actors that a process started. It waits for them, since a host's system goes on
/// without us and nothing else does. One thread, that of the program.
class actor_ends {
public:
  explicit actor_ends(const environment& env) : env_{env} {}

  /// From now on `wait` waits for this actor too; does not keep it alive.
  template <class Actor>
  void follow(const Actor& actor) {
    auto gone = std::make_shared<promise_slot<bool>>(env_);
    actor->attach_functor([gone] { gone->set(true); }); // called once its state has gone
    gone_.push_back(std::move(gone));
  }
  /// Waits for all of them until `deadline`; false when one has not ended by then.
  bool wait(time_point deadline, std::string_view what) {
    bool all = true;
    for (auto& each : gone_)
      all = static_cast<bool>(each->poll_until(deadline, what)) && all;
    return all;
  }

private:
  const environment& env_;
  std::vector<std::shared_ptr<promise_slot<bool>>> gone_{};
};

} // namespace troupe::detail
