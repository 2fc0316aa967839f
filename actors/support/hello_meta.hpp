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

/// What a channel is for that opens with a `hello_meta`. A code for one use opens no other.
enum class hello_use : std::uint8_t {
  data, ///< of a worker to a server's shards, or to blobs
  link, ///< of the control plane
};

/// Shows that the sender knows the cluster's token without sending it: the `token_proof` of
/// (cluster, task, nonce, term, use). Empty without a token.
std::string hello_code(const hello_meta& hello, const std::string& token,
                       hello_use use = hello_use::data);

/// Whether the hello shows that its sender has the same token, or none as this process.
bool has_token(const hello_meta& hello, const std::string& token, hello_use use = hello_use::data);

/// What a refusal says of a hello without the right token. `who`: this process, as in "this
/// server".
std::string token_refusal(const hello_meta& hello, const std::string& token, std::string_view who);

} // namespace troupe
