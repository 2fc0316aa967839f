#pragma once

#include <cstdint>
#include <vector>

#include <troupe/core/ids.hpp>
#include <troupe/messages/message_header.hpp>

/// Coordinator and servers: which closures can never be run again.
namespace troupe {

/// Tells servers what is settled: of `term`, every closure up to `highest` that is not in
/// `unsettled`.
struct settle_closures {
  message_header header{};
  std::uint64_t list_no = 0;
  std::uint64_t highest = 0;
  std::vector<std::uint64_t> unsettled{};
  TROUPE_FIELDS(settle_closures, header, list_no, highest, unsettled)
};

struct closures_settled {
  message_header header{};
  std::uint64_t list_no = 0;
  TROUPE_FIELDS(closures_settled, header, list_no)
};

} // namespace troupe
