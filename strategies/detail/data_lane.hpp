#pragma once

#include <memory>
#include <mutex>
#include <string>

#include <troupe/actors/blob_table.hpp>
#include <troupe/actors/server_link.hpp>
#include <troupe/actors/server_vault.hpp>
#include <troupe/strategies/detail/runtime_impl.hpp>

/// The data plane of a process: its own server lane, and its ways to others. Private to strategies/.
namespace troupe {

/// The lane on which a server, or the coordinator for its blobs, answers channels.
class runtime::impl::data_lane {
public:
  data_lane(const environment& env, const runtime_options& options, const task_id& task,
            std::shared_ptr<shard_store> store, blob_table* blobs);
  ~data_lane();
  /// "host:port", port resolved.
  const std::string& address() const { return address_; }
  void become(const incarnation& inc);
  void fence(const task_id& task, std::uint32_t counter);
  void stop();

private:
  struct state;
  std::unique_ptr<state> state_;
  std::string address_;
};

/// A lane's link over a channel; `unavailable` naming the server when it is not there.
result<std::unique_ptr<server_link>> connect_to_server(const environment& env, const runtime_options& options,
                                                       const std::string& address, std::uint32_t server,
                                                       const origin& self, term_no term);

result<std::unique_ptr<server_vault>> open_remote_vault(const environment& env, const runtime_options& options,
                                                        const std::string& address, std::uint32_t server,
                                                        term_no term);

/// A worker's way to the coordinator's blobs: one channel, made when first needed and again after a loss. Any lane.
class blob_client {
public:
  blob_client(const environment& env, const runtime_options& options, std::string address, task_id self);
  ~blob_client();
  result<std::string> get(const blob_key& key, std::uint64_t size_bytes);
  result<void> put(const blob_key& key, std::string bytes);

private:
  struct state;
  std::unique_ptr<state> state_;
};

} // namespace troupe
