#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>

#include <troupe/core/fields.hpp>

/// Strong ids of everything that Troupe numbers. An id is an enum class with a fixed underlying
/// type: it costs nothing, orders and hashes like its number, and two kinds of id never mix.
namespace troupe {

/// Number of a start of a coordinator (`docs/protocol.md`, terms). Only grows.
enum class term_no : std::uint32_t {};
/// How often a closure was handed to a worker, from 1.
enum class attempt_no : std::uint32_t {};
/// Number of a membership view. Only grows within a term.
enum class epoch_no : std::uint64_t {};
/// A variable, numbered by the coordinator.
enum class variable_id : std::uint32_t {};
/// A shard of a variable, from 0, in row order.
enum class shard_index : std::uint32_t {};
/// The n-th mutating call of one closure on one variable, from 0, restarting with every attempt.
enum class op_no : std::uint32_t {};
/// A per-worker resource (a dataset iterator, a per-worker value).
enum class resource_id : std::uint64_t {};
/// A request of one sender.
enum class request_no : std::uint64_t {};
/// Position of a registered function in the table that all processes share.
enum class function_index : std::uint32_t {};
/// Number of a consistent snapshot over all shards.
enum class snapshot_id : std::uint64_t {};

/// The number behind a strong id.
template <class Id>
requires std::is_enum_v<Id>
constexpr auto value_of(Id id) { return static_cast<std::underlying_type_t<Id>>(id); }

/// The id after `id`.
template <class Id>
requires std::is_enum_v<Id>
constexpr Id next(Id id) { return static_cast<Id>(value_of(id) + 1); }

/// Identity of a scheduled closure. `term` keeps a restarted coordinator's closures apart from its
/// predecessor's: counting from 0 again would make a restored ledger drop every new update,
/// silently.
struct closure_id {
  term_no term{};
  std::uint64_t seq = 0;
  friend auto operator<=>(const closure_id&, const closure_id&) = default;
  TROUPE_FIELDS(closure_id, term, seq)
};

/// The job of a task, as in a cluster specification. `chief` is the coordinator.
enum class job_kind : std::uint8_t { chief = 0, worker = 1, ps = 2, evaluator = 3 };

/// "chief", "worker", "ps" or "evaluator"; "job(7)" for a value outside the enum.
std::string to_string(job_kind job);

/// A place in the cluster, independent of the process that fills it: `worker:1`.
struct task_id {
  job_kind job = job_kind::chief;
  std::uint32_t index = 0;
  friend auto operator<=>(const task_id&, const task_id&) = default;
  TROUPE_FIELDS(task_id, job, index)
};

/// "worker:1".
std::string to_string(const task_id& task);

/// The process that fills a task: one run of one process. `nonce` is random, drawn by the process;
/// `counter` is given by the view's author at registration, one higher for each new nonce of the
/// task. 0 = not registered yet.
struct incarnation {
  std::uint32_t counter = 0;
  std::uint64_t nonce = 0;
  friend auto operator<=>(const incarnation&, const incarnation&) = default;
  TROUPE_FIELDS(incarnation, counter, nonce)
};

/// Key of one effect on one shard (the variable and the shard are the ledger's own): the attempt is
/// not part of it, else a re-run would double.
struct op_key {
  closure_id closure{};
  op_no op{};
  friend auto operator<=>(const op_key&, const op_key&) = default;
  TROUPE_FIELDS(op_key, closure, op)
};

} // namespace troupe

template <>
struct std::hash<troupe::closure_id> {
  std::size_t operator()(const troupe::closure_id& x) const noexcept {
    return std::hash<std::uint64_t>{}(x.seq * 0x9e3779b97f4a7c15ULL ^ troupe::value_of(x.term));
  }
};
