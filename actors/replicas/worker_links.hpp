#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <troupe/actors/replicas/replica_group.hpp>
#include <troupe/core/environment.hpp>
#include <troupe/transport/collective_group.hpp>

/// The meeting of a synchronous program's processes, and their operations beside their replicas'
/// work.
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

/// The meeting point of all workers of a program: each listens at its fixed address from the start
/// of its runtime on, so that those who come first, or again after a crash, wait for the others.
class worker_meeting {
public:
  /// `peers`: "host:port" of all workers in order; `names`: their tasks, "chief", "worker:0";
  /// empty: "worker:" and the place. `address_in_use`; `invalid_argument` for an address that other
  /// machines reach, without a token.
  static result<std::shared_ptr<worker_meeting>> make(const environment& env,
                                                      std::vector<std::string> peers,
                                                      std::uint32_t self, std::string token,
                                                      std::vector<std::string> names = {});
  worker_meeting(const environment& env, std::unique_ptr<worker_group> group,
                 std::vector<std::string> peers, std::uint32_t self, std::string token,
                 std::vector<std::string> names);

  std::uint32_t workers() const { return static_cast<std::uint32_t>(peers_.size()); }
  std::uint32_t self() const { return self_; }
  const std::string& token() const { return token_; }
  const std::vector<std::string>& names() const { return names_; }
  const environment& env() const { return env_; }
  /// "host:0" of this worker.
  std::string any_port() const;
  /// Waits for all workers to call it; what each brought. Workers that were started anew, and those
  /// that failed half way, find each other all the same. `deadline` names who did not come. `told`
  /// as in `worker_group::meet`.
  result<std::vector<std::string>> meet(const std::string& mine, time_point deadline,
                                        const wait_listener& told = {});
  void close(time_point deadline) { group_->close(deadline); }

private:
  environment env_;
  const std::vector<std::string> peers_;
  const std::uint32_t self_;
  const std::string token_;
  const std::vector<std::string> names_;
  const std::unique_ptr<worker_group> group_;
};

/// The contribution of a strategy to a meeting.
struct worker_card {
  std::string what{};        ///< "multi_worker_mirrored_strategy"
  std::uint32_t devices = 0; ///< replicas here
};

/// The links of one strategy's workers: a group of its own, so that a worker that was started anew
/// never finds its way into the strategy of those before it.
class process_links final : public worker_links {
public:
  /// A call of all workers. `mismatch` names the first two that brought different cards. `told`
  /// hears of this wait and of later ones for the replicas' places.
  static result<std::shared_ptr<process_links>> make(const std::shared_ptr<worker_meeting>& meeting,
                                                     const worker_card& card, time_point deadline,
                                                     wait_listener told = {});
  process_links(std::shared_ptr<worker_meeting> meeting, std::unique_ptr<worker_group> group,
                wait_listener told)
    : meeting_{std::move(meeting)}, group_{std::move(group)}, told_{std::move(told)} {}

  std::string listen_address() const override { return meeting_->any_port(); }
  const std::string& token() const override { return meeting_->token(); }
  result<replica_places> exchange(const replica_places& mine, time_point deadline) override;
  result<void> run(const std::string& what, time_point deadline,
                   const worker_operation& body) override;
  void close(time_point deadline) override { group_->close(deadline); }

private:
  const std::shared_ptr<worker_meeting> meeting_;
  const std::unique_ptr<worker_group> group_;
  const wait_listener told_;
};

} // namespace troupe
