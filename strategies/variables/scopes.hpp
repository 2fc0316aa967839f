#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <troupe/strategies/cluster/device_name.hpp>
#include <troupe/strategies/variables/variable_options.hpp>

/// Settings of a block of code: its default device, the prefix of its variables' names, the creator
/// of its variables. A scope holds from its construction to its end, on the thread that made it,
/// and nests in strategies' scopes. Scopes are destroyed in the reverse order of making; leaving a
/// strategy's scope while one of them is open inside is an error (`strategy_scope::exit`).
namespace troupe {

class distributed_variable;

namespace detail {
struct context_frame;
} // namespace detail

/// Pushes a frame and takes it away again.
class context_scope {
public:
  context_scope(const context_scope&) = delete;
  context_scope& operator=(const context_scope&) = delete;

protected:
  explicit context_scope(detail::context_frame frame);
  ~context_scope();

private:
  std::unique_ptr<detail::context_frame> frame_;
};

/// A default device for names that leave parts open; inner scopes' parts win. It does not move the
/// variables of a strategy, nor its replicas.
class device_scope : public context_scope {
public:
  /// "/job:worker", "cpu:0". Throws `invalid_argument` quoting the text and the part that is wrong.
  explicit device_scope(std::string_view name);
};

/// Puts "name/" before the names of variables made inside.
class name_scope : public context_scope {
public:
  /// Throws `invalid_argument` for an empty name and one that begins or ends with '/'.
  explicit name_scope(const std::string& name);
};

/// Makes the variable in the creator's stead: the scope around, and at last the strategy.
using next_creator = std::function<distributed_variable(distributed_variable_options)>;
/// Sees what was asked for, may change it, and calls `next` or makes something else.
using variable_creator =
  std::function<distributed_variable(const next_creator& next, distributed_variable_options)>;

namespace detail {
/// A creator on the stack of contexts.
struct scoped_creator {
  variable_creator make{};
};
} // namespace detail

/// Has `creator` make all variables inside; the innermost scope's is asked first. Inside a
/// replica's function it is asked once a replica; scopes around `run` are asked once.
class variable_creator_scope : public context_scope {
public:
  explicit variable_creator_scope(variable_creator creator);
};

/// `name` in full: parts that it leaves open come from the device scopes around, innermost first,
/// then from the replica or component that runs here, then from the process. Throws
/// `invalid_argument` quoting the text.
device_name resolve_device(std::string_view name);

/// "main/foo/": what the names of variables made here begin with; empty outside any name scope.
std::string current_name_scope();
/// A name for something of one replica: "main/foo/a", for replica 1 "main/replica_1/foo/a" where
/// "main" stands around `run`. In cross-replica context there is no replica part.
std::string scoped_name(const std::string& name);

} // namespace troupe
