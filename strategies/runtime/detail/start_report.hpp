#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <troupe/actors/coordinator/coordinator.hpp>
#include <troupe/strategies/runtime/runtime_options.hpp>

/// The tasks that a cluster is described to have, and what a start that waits for them says. Plain
/// functions; any thread.
namespace troupe::detail {

/// Indices of the server tasks, ascending.
std::vector<std::uint32_t> server_tasks_of(const runtime_options& options);

/// Indices of the worker tasks, ascending; where none are described, 0 to `options.workers` - 1,
/// and up to `at_least` of them.
std::vector<std::uint32_t> worker_tasks_of(const runtime_options& options,
                                           std::uint32_t at_least = 0);

/// "servers 1 of 2, workers 0 (1 required); missing: ps:1 (10.0.0.7:4704), worker:0": every server,
/// and workers only while fewer than required have come. Names sixteen tasks at most.
std::string start_report(const runtime_options& options, const start_state& seen);

} // namespace troupe::detail
