#pragma once

#include <troupe/core/error.hpp>
#include <troupe/core/ids.hpp>
#include <troupe/messages/message_header.hpp>

/// Coordinator and servers: which coordinator a server obeys.
namespace troupe {

/// First message of a coordinator to a server that joined.
struct grant_term {
  message_header header{};
  TROUPE_FIELDS(grant_term, header)
};

struct term_answer {
  failure why{};
  term_no highest{};
  TROUPE_FIELDS(term_answer, why, highest)
};

} // namespace troupe
