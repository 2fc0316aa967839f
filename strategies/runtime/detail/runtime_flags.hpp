#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <troupe/strategies/runtime/runtime_options.hpp>

/// Troupe's flags on a command line. Texts and options only: no files, no environment. The
/// program's thread, before a runtime starts. Errors are `bad_config` naming the flag and the
/// value.
namespace troupe::detail {

/// Throws "<flag> is '<value>', expected <expected>".
[[noreturn]] void bad_flag(const std::string& flag, const std::string& value,
                           const std::string& expected);

/// A number from 0 to 100,000, digits only.
std::uint32_t flag_number(const std::string& flag, const std::string& value);

/// "chief", "worker:N" or "ps:N".
task_id flag_task(const std::string& flag, const std::string& value);

/// "auto": shared memory within a host; "tcp": never.
bool flag_shares_memory(const std::string& flag, const std::string& value);

/// The kinds of programs that read flags: those with parameter servers, and those of peer workers,
/// which all run the same program. Each has flags that the other refuses or leaves alone.
enum class program_kind : std::uint8_t { parameter_server, peers };

/// What the flags say about the cluster as a whole; empty: not given.
struct cluster_flags {
  std::string file{}; ///< with the description
  std::string task{}; ///< of this process, as it was typed
};

/// The flags of a command line that are Troupe's, in order.
class runtime_flags {
public:
  /// Reads names and values, and leaves every flag to the program that is not Troupe's. Throws
  /// for an unknown flag that begins with `--troupe-`, one without a value, and one that a program
  /// of this kind does not support. `--troupe-help` prints `help()` and ends the program with 0.
  runtime_flags(int argc, char** argv, program_kind by);

  /// Sets what the flags say, over what stands there. Also again, after a description has been
  /// applied: what is said by hand wins. Throws for a value that cannot be used.
  void apply(runtime_options& options, cluster_flags& cluster) const;
  bool has(std::string_view name) const;
  /// Name and value of each.
  const std::vector<std::pair<std::string, std::string>>& given() const { return given_; }
  /// Every flag, a line each.
  static std::string help();

private:
  std::vector<std::pair<std::string, std::string>> given_{};
};

} // namespace troupe::detail
