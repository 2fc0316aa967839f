#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <troupe/core/tensor.hpp>
#include <troupe/strategies/replicas/detail/replica_engine.hpp>
#include <troupe/transport/collective_types.hpp>

/// Calls that the workers of a strategy make together, beside their replicas. All call the same, in
/// the same order; within one process they cost nothing. Throws what ended them, naming `what` and
/// who is missing.
namespace troupe::detail {

void worker_barrier(const replica_engine& of, const std::string& what);
/// Everybody's text, in order of workers.
std::vector<std::string> exchange_texts(const replica_engine& of, const std::string& mine,
                                        const std::string& what);
/// `x` becomes worker 0's.
void take_from_chief(const replica_engine& of, tensor& x, const std::string& what);
/// The largest number of all workers'.
std::int64_t largest_of(const replica_engine& of, std::int64_t mine, const std::string& what);

/// Reduces host tensors, one of each worker, to one. All workers call it.
tensor reduce_over_workers(const replica_engine& of, const reduction& op, const tensor& value,
                           std::optional<std::vector<std::int64_t>> axis);

/// How something ended on this worker, for the others: a failure whole, with this worker as its
/// origin unless another is known; or what it made.
std::string encode_outcome(const replica_engine& of, const std::optional<failure>& why,
                           const std::string& made = {});
/// The text that a worker made, or its failure; `bad_frame` for a text that is no outcome.
result<std::string> decode_outcome(const std::string& text);
/// The failure with the worker's name in front, unless the text has it.
failure of_worker(std::size_t worker, failure why);
/// The text that worker 0 made; its failure is thrown on all. The other workers give none.
std::string chiefs_outcome(const replica_engine& of, const std::optional<failure>& why,
                           const std::string& made, const std::string& what);
/// Makes a failure of one worker that of all: the first failure is thrown on all, whole.
void agree(const replica_engine& of, const std::optional<failure>& why, const std::string& what);

} // namespace troupe::detail
