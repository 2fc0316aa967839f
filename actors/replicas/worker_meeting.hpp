#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <troupe/actors/replicas/replica_group.hpp>
#include <troupe/actors/replicas/worker_group.hpp>
#include <troupe/core/environment.hpp>

/// The meeting of a synchronous program's processes, and their operations beside their replicas'
/// work.
namespace troupe {

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
struct worker_info {
  std::string what{};        ///< "multi_worker_mirrored_strategy"
  std::uint32_t devices = 0; ///< replicas here
};

/// The links of one strategy's workers: a group of its own, so that a worker that was started anew
/// never finds its way into the strategy of those before it.
class process_links final : public worker_rendezvous {
public:
  /// A call of all workers. `mismatch` names the first two that brought different infos. `told`
  /// hears of this wait and of later ones for the replicas' addresses.
  static result<std::shared_ptr<process_links>> make(const std::shared_ptr<worker_meeting>& meeting,
                                                     const worker_info& info, time_point deadline,
                                                     wait_listener told = {});
  process_links(std::shared_ptr<worker_meeting> meeting, std::unique_ptr<worker_group> group,
                wait_listener told)
    : meeting_{std::move(meeting)}, group_{std::move(group)}, told_{std::move(told)} {}

  std::string listen_address() const override { return meeting_->any_port(); }
  const std::string& token() const override { return meeting_->token(); }
  result<replica_addresses> exchange(const replica_addresses& mine, time_point deadline) override;
  result<void> run(const std::string& what, time_point deadline,
                   const worker_operation& body) override;
  void close(time_point deadline) override { group_->close(deadline); }

private:
  const std::shared_ptr<worker_meeting> meeting_;
  const std::unique_ptr<worker_group> group_;
  const wait_listener told_;
};

} // namespace troupe
