#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <troupe/strategies/parameter_server/detail/parameter_server_strategy_state.hpp>
#include <troupe/strategies/parameter_server/per_worker.hpp>
#include <troupe/strategies/parameter_server/save_options.hpp>

namespace troupe::detail {

/// The state that the handles of one coordinator share. The program's threads.
class coordinator_front : public std::enable_shared_from_this<coordinator_front> {
public:
  /// The coordinator of `strategy`, the same object at every call.
  static std::shared_ptr<coordinator_front> of(
    const std::shared_ptr<parameter_server_strategy_state>& strategy);

  explicit coordinator_front(std::shared_ptr<parameter_server_strategy_state> strategy)
    : strategy_{std::move(strategy)} {}

  coordinator_client& owner() { return *strategy_->owner(); }
  const std::shared_ptr<coordinator_client>& owner_ptr() const { return strategy_->owner(); }
  parameter_server_strategy_state& strategy() { return *strategy_; }
  std::pair<resource_id, std::shared_ptr<resource_lease>> add_resource(
    std::string_view function, payload arguments, std::shared_ptr<resource_lease> needs);
  std::string save(const std::string& directory, const save_options& options);
  std::vector<std::string> restore(const std::string& directory);

private:
  void write_variable(checkpoint_writer& to, const variable_spec& v, snapshot_id snapshot,
                      snapshot_readers& from);
  std::shared_ptr<parameter_server_strategy_state> strategy_;
};

} // namespace troupe::detail
