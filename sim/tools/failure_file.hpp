#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <troupe/core/result.hpp>
#include <troupe/sim/scenario.hpp>

namespace troupe::sim {

/// A run that failed, whole: to replay it nothing else is needed. Kept as a small JSON file:
///
///   {"format": 1, "scenario": text, "seed": n, "invariant": rule id, "text": what was wrong,
///    "hash": "0x...", "events": n, "bug": planted or absent, "build": text, "commit": text,
///    "shape": {"workers", "servers", "closures"},
///    "order": {"kind": "fifo" | "random" | "pct" | "replay", "changes": pct's, "picks": text},
///    "conditions": {"latency_min_ns", "latency_jitter_ns", "latency_tail_per_mille",
///                   "segment_bytes", "channel_bytes"},
///    "steps": {"throws", "hangs", "kills", "slows"},           (of 1,000 attempts)
///    "core": {"at_ns", "members": [node], "others": "dead" | "cut"},
///    "faults": [{"at_ns" or ("mark", "nth"), "kind", "target", "other", "length_ns", "amount",
///                "flags"}]}
///
/// "picks" are those of the failed run, whatever drew them. Nodes are "chief", "worker1", "ps0" and
/// within the shape; fault kinds are those of `action_kind`, marks those of `known_marks`; members
/// that are 0 or empty may be left out. Reading refuses everything else, by name.
struct failure_file {
  run_spec spec{};
  std::string invariant{}; ///< the rule that was broken; empty: none is expected to be
  std::string text{};
  std::uint64_t hash = 0; ///< 0: not known
  std::uint64_t events = 0;
  std::string bug{};    ///< the planted bug that was awake
  std::string build{};  ///< of the program that wrote it
  std::string commit{}; ///< that this program was built from
  friend bool operator==(const failure_file&, const failure_file&) = default;
};

inline constexpr int failure_format = 1;

std::string to_json(const failure_file& file);
/// The failure in a JSON text. `corrupt`, naming the member and its value.
result<failure_file> failure_from_json(std::string_view text);

/// The failure in a file. `not_found`, `io_failed`, `too_large`, `corrupt`, naming the file.
result<failure_file> read_failure(const std::string& path);
/// The reason why this program has no such run, naming the member; empty: it has. Scenarios change
/// and go.
std::string unusable(const failure_file& file);
/// Writes a failure to a file. `io_failed`.
result<void> write_failure(const std::string& path, const failure_file& file);

/// "worker1" to its name.
result<node_name> node_from_text(std::string_view text);

/// Compiler, CAF's version, kind of build: what may make another hash of the same run.
std::string build_text();
/// The commit of the tree that this program was built from, with "-dirty" behind it when files had
/// been changed; "unknown" where that could not be told.
std::string commit_text();

} // namespace troupe::sim
