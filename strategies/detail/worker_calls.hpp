#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <troupe/strategies/detail/sync_state.hpp>

/// What the workers of a strategy do together, beside their replicas. All call the same, in the
/// same order; within one process they cost nothing. Throws what ended them, naming `what` and who
/// is missing.
namespace troupe::detail {

void worker_barrier(const sync_state& of, const std::string& what);
/// Everybody's text, in order of workers.
std::vector<std::string> exchange_texts(const sync_state& of, const std::string& mine,
                                        const std::string& what);
/// `x` becomes worker 0's.
void take_from_chief(const sync_state& of, tensor& x, const std::string& what);
/// The largest number of all workers'.
std::int64_t largest_of(const sync_state& of, std::int64_t mine, const std::string& what);

/// "50\nmore text" and back; nothing is "0\n".
std::string encode_outcome(const std::optional<failure>& why);
std::optional<failure> decode_outcome(const std::string& text);

} // namespace troupe::detail
