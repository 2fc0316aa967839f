#include <troupe/strategies/runtime/detail/data_lane.hpp>

#include <troupe/actors/data_plane/remote_server_link.hpp>
#include <troupe/actors/server/server_lane.hpp>
#include <troupe/actors/support/failure_classifier.hpp>

namespace troupe {

runtime::impl::data_lane::data_lane(const environment& env, const runtime_options& options,
                                    const task_id& task, std::shared_ptr<shard_store> store,
                                    std::shared_ptr<blob_table> blobs)
  : server_{
    std::make_shared<server_lane>(env, server_lane_options{.address = options.data_listen_address,
                                                           .cluster = options.cluster_name,
                                                           .token = options.token,
                                                           .store = std::move(store),
                                                           .blobs = std::move(blobs)})} {
  address_ = server_->open().value_or_throw();
  lane_ =
    env.lanes.start("data." + std::to_string(task.index), [server = server_] { server->run(); });
}

runtime::impl::data_lane::~data_lane() { stop(); }

void runtime::impl::data_lane::become(const incarnation& inc) { server_->set_incarnation(inc); }

void runtime::impl::data_lane::fence(const task_id& task, std::uint32_t counter) {
  server_->fence(task, counter);
}

void runtime::impl::data_lane::stop() {
  server_->stop();
  if (lane_)
    lane_->join();
  lane_ = nullptr;
}

namespace {

result<data_peer> peer_of(const runtime_options& options, const member& server, std::uint32_t index,
                          const origin& self, term_no term) {
  if (server.data_address.empty()) {
    auto why = make_failure(errc::unavailable, "ps:" + std::to_string(index) + " is not a member"
                                                 + std::string{server_lost_advice});
    why.where.task = {.job = job_kind::ps, .index = index};
    return why;
  }
  return data_peer{.address = server.data_address,
                   .cluster = options.cluster_name,
                   .token = options.token,
                   .self = self,
                   .receiver = server.inc,
                   .term = term};
}

} // namespace

result<std::unique_ptr<server_link>> connect_to_server(const environment& env,
                                                       const runtime_options& options,
                                                       const member& server, std::uint32_t index,
                                                       const origin& self, term_no term) {
  auto peer = peer_of(options, server, index, self, term);
  if (!peer)
    return peer.error();
  return remote_server_link::connect(env, *peer, after(env.clock.now(), options.request_timeout));
}

result<std::unique_ptr<server_vault>> open_remote_vault(const environment& env,
                                                        const runtime_options& options,
                                                        const member& server, std::uint32_t index,
                                                        term_no term) {
  auto peer = peer_of(options, server, index, {.task = {.job = job_kind::chief, .index = 0}}, term);
  if (!peer)
    return peer.error();
  auto caller = server_caller::connect(env, *peer, after(env.clock.now(), options.request_timeout),
                                       options.request_timeout);
  if (!caller)
    return caller.error();
  return std::unique_ptr<server_vault>{std::move(*caller)};
}

} // namespace troupe
