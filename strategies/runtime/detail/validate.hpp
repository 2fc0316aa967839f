#pragma once

#include <troupe/core/result.hpp>
#include <troupe/strategies/runtime/runtime_options.hpp>

/// What a runtime refuses before anything of it starts. Plain functions; any thread.
namespace troupe::detail {

/// The options that contradict each other or cannot be used on any network: a time limit of
/// nothing, a cluster without workers or servers, peers beside a task, peers that cannot call each
/// other. `bad_config` naming the field and the value, the first of them.
result<void> validate_on_host(const runtime_options& options);

/// `validate_on_host`, and for a process of a cluster the rules for addresses: for a runtime with a
/// network of its own. Over a host's network addresses are the host's to judge.
result<void> validate(const runtime_options& options);

} // namespace troupe::detail
