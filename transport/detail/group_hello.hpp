#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/transport/collective_types.hpp>
#include <troupe/transport/frame.hpp>

/// Messages of a group's members beside the data: frames with a meta and no bulk.
namespace troupe::detail {

/// Between each two members run two channels, both dialed by the one with the higher rank: *data*
/// carries blocks, *control* the frames below and the news that the peer is gone. A dialer says
/// `hello` on both and sends nothing more until it was welcomed on control, so that no block is
/// read together with a frame.
enum class group_frame : std::uint8_t {
  hello = 1,     ///< who calls, for which epoch
  welcome = 2,   ///< both channels are there; who answers
  refuse = 3,    ///< a failure: no place for the caller
  abort = 4,     ///< a notice: the epoch is over
  wake = 5,      ///< look again: shared memory has changed
  ping = 6,      ///< is anybody driving an operation there?
  pong = 7,      ///< yes
  challenge = 8, ///< in answer to a hello where a token is needed: fresh bits
  proof = 9      ///< in answer to those: that the caller knows the token
};

/// Version of these messages: a member of another version is refused, naming both.
inline constexpr std::uint32_t group_protocol_version = 2;

inline constexpr frame_limits group_frame_limits{.kind_max = 9,
                                                 .meta_bytes_max = 16384,
                                                 .bulk_bytes_max = 0};

/// Grammar: group u64, epoch u32, from u32, to u32, size u32, members u64, host u64, process u64,
/// attempt u32, purpose u32 (0 control, 1 data, 2 compares), session u64, version u32, then if
/// there is a list list_bytes u32, list; all little-endian.
struct group_hello {
  std::uint64_t group = 0; ///< hash of its name
  group_epoch epoch{};
  std::uint32_t from = 0; ///< ranks
  std::uint32_t to = 0;
  std::uint32_t size = 0;
  std::uint64_t members = 0; ///< hash of the list
  group_locality locality{};
  std::uint32_t attempt = 0; ///< pairs a control channel with its data channel
  bool is_data = false;
  /// Fresh bits of who forms: attempts of two processes, one after the other, have the same
  /// numbers.
  std::uint64_t session = 0;
  std::uint32_t version = group_protocol_version; ///< of all that is told here and in blocks
  bool compares = false;                          ///< asks only whether both have the same list
  std::string list{}; ///< `list_text` of its members, where people wrote it and it is not too long
};

/// A line for each member: its name, a space, its address. Empty when that is too long for a hello.
std::string list_text(const std::vector<collective_member>& members);
/// A list and whose it is.
struct named_list {
  std::string whose{};
  std::string text{};
};
/// The first difference of two lists, for both sides: "worker:0 at a:1 has 2 members, worker:1 at
/// b:1 has 3", "in place 1 worker:0 at a:1 has worker:1 b:1, worker:1 at b:1 has worker:1 c:1".
std::string difference(const named_list& ours, const named_list& theirs);
/// A line of such a list as (name, address); empty strings where there is none.
std::pair<std::string, std::string> list_line(const std::string& text, std::uint32_t rank);

/// The list as `group_hello::members` tells it.
std::uint64_t hash_of(const std::vector<collective_member>& members);
std::string encode(const group_hello& hello);
std::optional<group_hello> decode_hello(std::string_view meta);

/// Fresh bits, so that no answer to them can be an old one. Grammar: u64, u64.
struct group_challenge {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  friend bool operator==(const group_challenge&, const group_challenge&) = default;
};

std::string encode(const group_challenge& challenge);
std::optional<group_challenge> decode_challenge(std::string_view meta);

/// Proof that its sender knows the group's token: `code` is `dialer_code` of its hello and the
/// challenge that it got. Grammar: challenge, code (64 hexadecimal digits).
struct group_proof {
  group_challenge mine{}; ///< for who is called, who proves itself with the welcome
  std::string code{};
};

std::string encode(const group_proof& proof);
std::optional<group_proof> decode_proof(std::string_view meta);

/// HMAC-SHA256 under the token, of the hello, its sender and the challenge that it answers.
std::string dialer_code(std::string_view token, const group_hello& hello,
                        const group_challenge& to);
std::string answer_code(std::string_view token, const group_hello& welcome,
                        const group_challenge& to);

/// The meta of a welcome is a hello, with a token followed by its `answer_code`.
struct group_welcome {
  group_hello hello{};
  std::string code{};
};

std::optional<group_welcome> decode_welcome(std::string_view meta);

/// The failure that ended an epoch, as one member tells the others; or the reason why a caller is
/// refused. Grammar: count u32, epoch u32, doing_bytes u32, count * (rank u32), doing, failure
/// (core/failure_codec.hpp).
struct group_notice {
  failure why = make_failure(errc::revoked, {}); ///< with its retry class and who it comes from
  std::vector<std::uint32_t> missing{};          ///< ranks of those that are gone or silent
  group_epoch epoch{};                           ///< of who refuses
  std::string doing{};                           ///< of a mismatch: what the sender does
};

std::string encode(const group_notice& notice);
std::optional<group_notice> decode_notice(std::string_view meta);

} // namespace troupe::detail
