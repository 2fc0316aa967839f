#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <troupe/strategies/cluster/device_name.hpp>
#include <troupe/strategies/variables/distributed_variable.hpp>

/// What a block of code has in common: its default device, the prefix of its variables' names, who
/// makes its variables. Each holds from its making until its end, on the lane that made it, and
/// nests in strategies' scopes. Such an object is destroyed in the reverse order of making; a
/// strategy's scope that is left while one of them is open inside says so (rows SYNC-CTX-10 to 12).
namespace troupe {

/// Pushes a frame and takes it away again.
class lane_scope {
public:
  lane_scope(const lane_scope&) = delete;
  lane_scope& operator=(const lane_scope&) = delete;

protected:
  explicit lane_scope(detail::mode_frame frame);
  ~lane_scope();

private:
  std::unique_ptr<detail::mode_frame> frame_;
};

/// A default device for names that leave parts open; inner scopes' parts win (row SYNC-DEV-7). It
/// does not move the variables of a strategy, nor its replicas.
class device_scope : public lane_scope {
public:
  /// "/job:worker", "cpu:0". Throws `invalid_argument` quoting the text and the part that is wrong.
  explicit device_scope(std::string_view name);
};

/// Puts "name/" before the names of variables made inside.
class name_scope : public lane_scope {
public:
  /// Throws `invalid_argument` for an empty name and one that begins or ends with '/'.
  explicit name_scope(const std::string& name);
};

/// Makes the variable in the creator's stead: the scope around, and at last the strategy.
using next_creator = std::function<distributed_variable(distributed_variable_options)>;
/// Sees what was asked for, may change it, and calls `next` or makes something else.
using variable_creator =
  std::function<distributed_variable(const next_creator& next, distributed_variable_options)>;

/// Has `creator` make all variables inside; the innermost scope's is asked first (row SYNC-CTX-13).
/// Inside a replica's function it is asked once a replica; scopes around `run` are asked once.
class variable_creator_scope : public lane_scope {
public:
  explicit variable_creator_scope(variable_creator creator);
};

/// `name` in full: parts that it leaves open come from the device scopes around, innermost first,
/// then from the replica or component that runs here, then from the process (row SYNC-DEV-6).
/// Throws `invalid_argument` quoting the text.
device_name resolve_device(std::string_view name);

/// "main/foo/": what the names of variables made here begin with; empty outside any name scope.
std::string current_name_scope();
/// A name for something of one replica: "main/foo/a", for replica 1 "main/replica_1/foo/a" where
/// "main" stands around `run` (row SYNC-N2). The same on every replica in cross-replica context.
std::string scoped_name(const std::string& name);

} // namespace troupe
