#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <troupe/core/environment.hpp>
#include <troupe/transport/collective_group.hpp>

namespace troupe {

/// An epoch of a replica group and where its members are, of one process or of all.
struct replica_addresses {
  std::uint32_t epoch = 0;
  std::vector<collective_member> members{};
};

/// An operation of all workers, one member a process.
using worker_operation =
  std::function<result<void>(collective_group& group, const collective_options& options)>;

/// The meeting of the members of several processes, anew for each epoch, and operations of the
/// processes. Null within one process. Any thread.
class worker_rendezvous {
public:
  virtual ~worker_rendezvous() = default;
  /// The address at which members of this process listen: "host:port", any port.
  virtual std::string listen_address() const = 0;
  /// The secret that members have to know.
  virtual const std::string& token() const = 0;
  /// Tells the other workers where this one's members are and which epoch they would begin, and
  /// returns all of them in order of replicas and the highest epoch, which suits everybody. Called
  /// once an epoch, on one thread; waits until the deadline.
  virtual result<replica_addresses> exchange(const replica_addresses& mine,
                                             time_point deadline) = 0;
  /// Runs an operation of all workers, called in the same order by all; `what` tells it from
  /// others. Errors name it and the workers that are missing; the next call starts afresh.
  virtual result<void> run(const std::string& what, time_point deadline,
                           const worker_operation& body) = 0;
  /// Lets go of its connections. Later calls are `unavailable`.
  virtual void close(time_point deadline) = 0;
};

struct replica_group_options {
  std::string name = "replicas"; ///< the same in all processes of the group
  std::uint32_t first_id = 0;    ///< of the first local replica
  std::uint32_t local = 1;
  std::uint32_t total = 1;
  duration timeout = std::chrono::seconds{60}; ///< to form, and of each operation
  std::shared_ptr<worker_rendezvous> links{};
  /// `group_options::on_wait` of the first replica here: the others wait for the same.
  std::function<void(const std::string& text)> on_wait{};
};

/// The places of a process's replicas in one collective group, through its epochs: each replica is
/// a member, and its id is the member's. An epoch that broke is followed by another at the next
/// run. `join` and `member` on the replicas' threads, each its own; the rest on any thread.
class replica_group {
public:
  replica_group(const environment& env, replica_group_options options);
  ~replica_group();
  replica_group(const replica_group&) = delete;
  replica_group& operator=(const replica_group&) = delete;

  /// Sees to it that the run that begins has an epoch that is whole. True: all members here are in
  /// it already.
  bool prepare();
  /// Brings the member into the current epoch. Waits for all others.
  result<void> join(std::uint32_t local);
  /// The member of replica `local`. @pre joined
  std::shared_ptr<collective_group> member(std::uint32_t local);
  /// The epoch that the member is in, or was last in; 0: none yet.
  group_epoch epoch(std::uint32_t local);
  /// Replaces a member whose thread was left behind, perhaps in the middle of a call: another
  /// member takes its place, in the next epoch.
  void renew(std::uint32_t local);
  /// Notes that the epoch has ended: the next `join` makes another.
  void broke(std::uint32_t local, const std::shared_ptr<collective_group>& member);
  /// Ends the operation that the member waits in, on all members, which are told `why`.
  void interrupt(std::uint32_t local, const failure& why);
  /// Lets go of all connections. @pre no thread of the replicas is in the group any more, nor comes
  /// back
  void close(time_point deadline);
  const replica_group_options& options() const { return options_; }

private:
  std::shared_ptr<collective_group> make_member(std::uint32_t local);
  result<std::uint32_t> find_all(std::unique_lock<std::mutex>& lock, time_point deadline);

  const replica_group_options options_;
  const std::string name_;
  const group_locality locality_;            ///< within one process
  std::unique_ptr<data_transport> within_{}; ///< between members of one process
  environment env_;
  std::mutex mutex_{};
  const std::unique_ptr<wait_point> changed_;
  std::vector<std::shared_ptr<collective_group>> members_{};
  std::vector<std::uint32_t> joined_{}; ///< epoch of each member
  std::vector<collective_member> all_{};
  std::uint32_t wanted_ = 1; ///< epoch
  std::uint32_t broken_ = 0; ///< the last epoch that ended
  std::uint32_t found_ = 0;  ///< the epoch that `all_` is for
  bool finding_ = false;
  std::optional<failure> not_found_{};
};

} // namespace troupe
