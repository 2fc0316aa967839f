#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <cereal/types/string.hpp>

#include <troupe/core/error.hpp>
#include <troupe/core/fields.hpp>
#include <troupe/core/frame_meta.hpp>
#include <troupe/core/ids.hpp>

/// How a channel between two processes of a cluster begins, whatever it then carries: the one that
/// dialled says who it is, the other lets it in or says why not.
namespace troupe {

/// Of the frames between workers, servers and the coordinator; a hello of another one is refused.
inline constexpr std::uint16_t data_protocol_version = 3;

/// The first frame of a channel.
struct hello_meta {
  std::uint16_t version = data_protocol_version;
  std::string cluster{};
  task_id task{};
  incarnation inc{};
  incarnation receiver{}; ///< whom the sender means; counter 0: whoever is there
  term_no term{};
  std::string token{}; ///< `hello_code`; empty when the cluster has no token
  TROUPE_FIELDS(hello_meta, version, cluster, task, inc, receiver, term, token)
};

/// The outcome of a request, a hello's refusal included.
struct outcome_meta {
  failure why{}; ///< code none: well
  TROUPE_FIELDS(outcome_meta, why)
};

/// What a channel is for: a hello for one opens no other.
namespace hello_purpose {
inline constexpr std::string_view data = "data"; ///< a server's or the blobs' channel
inline constexpr std::string_view link = "link"; ///< a worker's link to its coordinator
} // namespace hello_purpose

/// Shows that the sender knows the cluster's token without sending it: HMAC-SHA256 under the token
/// of (cluster, task, nonce, term, purpose). Empty without a token.
std::string hello_code(const hello_meta& hello, const std::string& token, std::string_view purpose);

/// Whether the hello shows that its sender has the same token, or none as this process.
bool has_token(const hello_meta& hello, const std::string& token, std::string_view purpose);

/// What a refusal says of a hello without the right token. `who`: this process, as in "this
/// server".
std::string token_refusal(const hello_meta& hello, const std::string& token, std::string_view who);

} // namespace troupe
