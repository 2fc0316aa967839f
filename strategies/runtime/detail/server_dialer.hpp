#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <troupe/actors/data_plane/remote_server_link.hpp>
#include <troupe/actors/data_plane/snapshot_reader.hpp>
#include <troupe/messages/membership.hpp>
#include <troupe/strategies/runtime/runtime_options.hpp>

namespace troupe::detail {

/// Reaches parameter servers in other processes. Any thread; calls wait, a request's time limit at
/// most. `env` outlives it.
class server_dialer {
public:
  server_dialer(const environment& env, const runtime_options& options);

  /// Who to dial. `server`: the membership's entry for ps:`index`, without a data address where it
  /// is no member: `unavailable` then, naming the server and what to do. `self`: who dials.
  result<data_peer> peer_of(const member& server, std::uint32_t index, const origin& self,
                            term_no term) const;
  /// A link for a thread of steps, or of the program.
  result<std::unique_ptr<server_link>> connect(const member& server, std::uint32_t index,
                                               const origin& self, term_no term) const;
  /// The coordinator's client for checkpoints.
  result<std::unique_ptr<snapshot_reader>> open_snapshot_reader(const member& server,
                                                                std::uint32_t index,
                                                                term_no term) const;

private:
  const environment& env_;
  std::string cluster_;
  std::string token_;
  duration request_timeout_;
};

/// The program that runs in the coordinator's process, as a sender on the data plane.
inline origin program_origin() { return {.task = {.job = job_kind::chief, .index = 0}}; }

} // namespace troupe::detail
