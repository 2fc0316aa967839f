#include <troupe/strategies/runtime/detail/server_dialer.hpp>

#include <troupe/actors/data_plane/server_rpc.hpp>
#include <troupe/actors/support/failure_classifier.hpp>

namespace troupe::detail {

server_dialer::server_dialer(const environment& env, const runtime_options& options)
  : env_{env},
    cluster_{options.cluster_name},
    token_{options.token},
    request_timeout_{options.request_timeout} {}

result<data_peer> server_dialer::peer_of(const member& server, std::uint32_t index,
                                         const origin& self, term_no term) const {
  if (server.data_address.empty()) {
    auto why = make_failure(errc::unavailable, "ps:" + std::to_string(index) + " is not a member"
                                                 + std::string{server_lost_advice});
    why.where.task = {.job = job_kind::ps, .index = index};
    return why;
  }
  return data_peer{.address = server.data_address,
                   .cluster = cluster_,
                   .token = token_,
                   .self = self,
                   .receiver = server.inc,
                   .term = term};
}

result<std::unique_ptr<server_link>> server_dialer::connect(const member& server,
                                                            std::uint32_t index, const origin& self,
                                                            term_no term) const {
  auto peer = peer_of(server, index, self, term);
  if (!peer)
    return peer.error();
  return remote_server_link::connect(env_, *peer, after(env_.clock.now(), request_timeout_));
}

result<std::unique_ptr<snapshot_reader>> server_dialer::open_snapshot_reader(const member& server,
                                                                             std::uint32_t index,
                                                                             term_no term) const {
  auto peer = peer_of(server, index, program_origin(), term);
  if (!peer)
    return peer.error();
  auto client =
    server_rpc::connect(env_, *peer, after(env_.clock.now(), request_timeout_), request_timeout_);
  if (!client)
    return client.error();
  return std::unique_ptr<snapshot_reader>{std::move(*client)};
}

} // namespace troupe::detail
