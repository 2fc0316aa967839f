#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <troupe/core/environment.hpp>
#include <troupe/transport/collective_group.hpp>

namespace troupe {

/// A function that hears how a wait for other workers goes.
using wait_listener = std::function<void(const std::string& text)>;

/// A group of workers, one member a process, the same ones for as long as it lives. Goes from one
/// epoch to the next by itself: after a failure the next call forms another, and members that are
/// behind catch up. Any thread; calls take turns, and every wait ends at its deadline.
class worker_group {
public:
  /// Listens as worker `self`. Errors as of `collective_group::make`.
  static result<std::unique_ptr<worker_group>> make(const environment& env, std::uint32_t self,
                                                    group_options options);
  explicit worker_group(const environment& env);
  worker_group(const worker_group&) = delete;
  worker_group& operator=(const worker_group&) = delete;

  std::string address() const { return group_->address(); }
  /// Ends its connections; later calls are `unavailable`.
  void close(time_point deadline);
  /// Sets the addresses of all workers, in order, and their names, "worker:1". Before the first
  /// call.
  void set_addresses(const std::vector<std::string>& addresses,
                     const std::vector<std::string>& names);
  using operation =
    std::function<result<void>(collective_group& group, const collective_options& options)>;
  /// Runs an operation of all workers. `what` names it: workers that do something else are told
  /// `mismatch`. A failed operation is not tried again: the caller knows whether the others would.
  /// `told` hears on this thread, every few seconds, whom it waits for.
  result<void> run(const std::string& what, time_point deadline, const operation& body,
                   const wait_listener& told = {});
  /// `run` in an epoch of its own, tried again in the next one while members come and go: for
  /// operations that may be repeated. `told` hears what came of the tries so far too, and so does
  /// who is told that the deadline passed.
  result<void> meet(const std::string& what, time_point deadline, const operation& body,
                    const wait_listener& told = {});
  /// `meet` in any epoch.
  result<void> persist(const std::string& what, time_point deadline, const operation& body,
                       const wait_listener& told = {});

private:
  class turn;
  class telling;
  result<void> ready(time_point deadline);
  result<void> once(const std::string& what, time_point deadline, const operation& body);

  environment env_; ///< outlives the group
  std::unique_ptr<collective_group> group_{};
  std::vector<collective_member> members_{};
  std::mutex mutex_{};
  const std::unique_ptr<wait_point> freed_;
  bool taken_ = false;
  bool whole_ = false;    ///< the epoch lasts
  wait_listener tells_{}; ///< of the call whose turn it is
};

/// The workers' texts, in their order: an operation's body.
result<std::vector<std::string>> gather_texts(collective_group& group, const std::string& mine,
                                              const collective_options& options);

} // namespace troupe
