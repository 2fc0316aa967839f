#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include <troupe/actors/shards/shard_store.hpp>
#include <troupe/actors/support/hello_meta.hpp>
#include <troupe/core/error.hpp>
#include <troupe/core/ids.hpp>

namespace troupe {

/// Whom a server lets in: who speaks its protocol, knows its cluster and token, means its
/// incarnation, follows no older term than its store, and is not fenced. Thread-safe. Bounded by
/// the number of tasks.
class server_admission {
public:
  /// `store`: whose terms and fences count as well; null: none.
  server_admission(std::string cluster, std::string token, std::shared_ptr<shard_store> store);

  /// Sets whom a hello may mean. Fences of the earlier incarnation are forgotten: the view that
  /// comes with the new one names those that hold.
  void set_incarnation(const incarnation& self);
  /// Fences incarnations of `task` up to `counter`.
  void fence(const task_id& task, std::uint32_t counter);

  incarnation self() const;

  /// Why that hello is refused: `wrong_peer` (version, cluster, token, a job that isn't there),
  /// `try_again` (means an incarnation, and there is none yet), `unavailable` (means another
  /// incarnation), `superseded` (an old term), `fenced`. Nothing: it is welcome.
  std::optional<failure> refuse(const hello_meta& hello) const;
  /// As `refuse`, by fences alone: also for one that was welcomed before.
  std::optional<failure> refuse_fenced(const task_id& task, const incarnation& inc) const;

private:
  std::optional<failure> refuse_stranger(const hello_meta& hello) const;
  std::optional<failure> refuse_misled(const hello_meta& hello) const;

  const std::string cluster_;
  const std::string token_;
  const std::shared_ptr<shard_store> store_;
  mutable std::mutex mutex_{}; // guards the next two
  incarnation self_{};         ///< counter 0: none yet
  std::map<task_id, std::uint32_t> fences_{};
};

} // namespace troupe
