#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <troupe/actors/checkpoint/checkpoint_format.hpp>
#include <troupe/strategies/parameter_server/variable.hpp>
#include <troupe/strategies/parameter_server/variable_options.hpp>
#include <troupe/strategies/runtime/detail/coordinator_client.hpp>

namespace troupe::detail {

class coordinator_front;

/// The state that the handles of one strategy share. The program's threads.
class parameter_server_strategy_state {
public:
  parameter_server_strategy_state(std::shared_ptr<coordinator_client> owner,
                                  parameter_server_options options);
  ~parameter_server_strategy_state();

  variable create(variable_options options);
  variable_list variables() const;
  const std::shared_ptr<coordinator_client>& owner() const { return owner_; }
  const parameter_server_options& options() const { return options_; }
  /// The coordinator of this strategy, the same object at every call: `make` is called when there
  /// is none.
  std::shared_ptr<coordinator_front> front(
    const std::function<std::shared_ptr<coordinator_front>()>& make);
  /// Variables made from now on start from this checkpoint if it has them.
  void restore_later(std::shared_ptr<checkpoint_reader> from);
  /// Puts values, slots, step counts and learning rates of `all` from a checkpoint onto their
  /// servers. Whatever can be told from the checkpoint's table and from the servers is checked for
  /// all of them before anything changes.
  void restore_all(const variable_list& all, const checkpoint_reader& from);

private:
  variable_spec plan(const variable_options& options);
  void forget(const variable_spec& spec);
  /// Drops a variable that was planned and not made. Also called by the coordinator actor: never
  /// waits.
  void forget_planned(variable_id id);
  variable keep(std::shared_ptr<const variable_spec> spec);
  /// The specification of a variable that a step asks for. Called by the coordinator actor: never
  /// waits.
  result<variable_spec> plan_for_step(const variable_spec& wanted);
  void fill(const variable& v, const variable_options& options);
  void check_saved(const variable_spec& v, const checkpoint_reader& from,
                   snapshot_readers& servers);
  void restore_variable(const variable_spec& v, const checkpoint_reader& from,
                        snapshot_readers& servers);

  std::shared_ptr<coordinator_client> owner_;
  parameter_server_options options_;
  mutable std::mutex mutex_;
  std::unique_ptr<placement_policy> placement_;
  std::map<std::string, variable> by_name_{};
  variable_list in_order_{};
  std::shared_ptr<checkpoint_reader> later_{};
  std::weak_ptr<coordinator_front> front_{};
};

/// A learning rate that was set by hand, in the checkpoint's extras as "learning_rate/NAME": a
/// decimal number that reads back to the same bits. Without one the optimizer's schedule holds.
void save_rate(checkpoint_writer& to, const std::string& name, std::optional<float> rate);
/// The rate that `save_rate` saved; none without one. Throws `corrupt` naming key and text when it
/// is no such number.
std::optional<float> saved_rate(const checkpoint_reader& from, const std::string& name);

} // namespace troupe::detail
