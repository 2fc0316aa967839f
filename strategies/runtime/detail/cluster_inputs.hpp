#pragma once

#include <string>

#include <troupe/core/result.hpp>
#include <troupe/strategies/cluster/cluster_resolver.hpp>
#include <troupe/strategies/runtime/runtime_options.hpp>

/// What a process reads of itself and its cluster beside its flags: environment variables and the
/// file of `--cluster`. The program's thread, before a runtime starts.
namespace troupe::detail {

inline constexpr const char* tf_config = "TF_CONFIG";

/// Options that the environment sets, for all kinds of programs. Throws `bad_config`.
runtime_options options_of_environment();

/// What TF_CONFIG says; nothing when it is not set. Throws `bad_config` where it says half of it.
cluster_config config_of_environment();

/// The description in a file. Throws `not_found`, `bad_config`, naming the file.
cluster_config config_of_file(const std::string& path);

/// Throws what a verdict refuses; `where`: what described it, put in front; empty: nothing is.
void require(const result<void>& verdict, const std::string& where);

} // namespace troupe::detail
