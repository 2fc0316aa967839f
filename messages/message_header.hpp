#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <troupe/core/fields.hpp>
#include <troupe/core/ids.hpp>
#include <troupe/messages/packed.hpp>

/// What messages of several conversations have in common. Commands are imperative, events past
/// tense, answers nouns. What crosses processes carries a `message_header` and stays under
/// `message_bytes_max`; bytes are std::string (CAF 0.17 checks its length before it allocates, and
/// a vector's not).
namespace troupe {

/// Closure arguments and results up to this travel in the message; larger ones are blobs of the
/// data plane.
inline constexpr std::size_t inline_bytes_max = 16 * 1024;
inline constexpr std::size_t message_bytes_max = 64 * 1024;

/// The header of every message between processes. The receiver refuses a fenced sender, another
/// incarnation of itself and an older term; an older epoch is no reason to refuse.
struct message_header {
  term_no term{};
  epoch_no epoch{};
  task_id from{};
  incarnation sender{};
  incarnation receiver{};
  request_no request{};
  TROUPE_FIELDS(message_header, term, epoch, from, sender, receiver, request)
};

/// `why.code` none: done.
struct done_answer {
  failure why{};
  TROUPE_FIELDS(done_answer, why)
};

/// A mark that does not survive the network, for orders that only this process may give.
inline local_only<bool> made_here() { return {std::make_shared<bool>(true)}; }

} // namespace troupe
