#pragma once

#include <memory>
#include <string>

#include <troupe/actors/data_plane/blob_client.hpp>
#include <troupe/actors/server/server_lane.hpp>
#include <troupe/strategies/runtime/detail/runtime_impl.hpp>

/// The data plane of a process: its own server lane, and its ways to others. Private to
/// strategies/.
namespace troupe {

/// The lane on which a server, or the coordinator for its blobs, answers channels.
class runtime::impl::data_lane {
public:
  data_lane(const environment& env, const runtime_options& options, const task_id& task,
            std::shared_ptr<shard_store> store, std::shared_ptr<blob_table> blobs);
  ~data_lane();
  /// "host:port", port resolved.
  const std::string& address() const { return address_; }
  void become(const incarnation& inc);
  void fence(const task_id& task, std::uint32_t counter);
  void stop();

private:
  std::shared_ptr<server_lane> server_;
  std::unique_ptr<lane> lane_;
  std::string address_;
};

/// A lane's link over a channel; `unavailable` naming the server when it is not there.
result<std::unique_ptr<server_link>> connect_to_server(const environment& env,
                                                       const runtime_options& options,
                                                       const member& server, std::uint32_t index,
                                                       const origin& self, term_no term);

result<std::unique_ptr<server_vault>> open_remote_vault(const environment& env,
                                                        const runtime_options& options,
                                                        const member& server, std::uint32_t index,
                                                        term_no term);

} // namespace troupe
