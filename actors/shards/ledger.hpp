#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <troupe/core/ids.hpp>

namespace troupe {

/// A ledger's answer on an operation before it is applied.
enum class ledger_verdict : std::uint8_t {
  fresh = 0,     ///< not applied here: apply it, then `record` it
  duplicate = 1, ///< applied here before: answer `applied`, change nothing
  settled = 2,   ///< its closure or call has ended: answer `applied`, drop it
};

/// A call of the coordinator's own program, as a closure id: the calling thread and the number of
/// the call on it.
/// @pre `thread` < 2^23 and `call` < 2^40.
constexpr closure_id program_call(term_no term, std::uint32_t thread, std::uint64_t call) {
  return {term, std::uint64_t{1} << 63 | std::uint64_t{thread} << 40 | call};
}

/// True for ids made by `program_call`.
constexpr bool is_program_call(const closure_id& id) { return (id.seq >> 63) != 0; }

/// The operations that a shard has applied: the memory behind "effect once". Not thread-safe: its
/// shard locks.
///
/// Invariants: an operation that `check` called fresh and that was recorded is never fresh again;
/// what was settled once stays settled, whatever lists arrive later and in whatever order; entries
/// are kept only for closures that are not settled, and for the newest call of each program thread.
/// Source: docs/protocol.md, effects on parameters.
class ledger {
public:
  /// Whether the operation is new. Changes nothing and cannot fail. O(log entries).
  ledger_verdict check(const op_key& key) const;

  /// Takes all memory that `record` of this operation needs, so that nothing can fail once it is
  /// applied. Changes no answer of `check`.
  /// @pre `check(key)` is fresh.
  void prepare(const op_key& key);

  /// Remembers that the operation was applied. A program call forgets the older call of its thread.
  /// @pre `check(key)` is fresh.
  void record(const op_key& key);

  /// Forgets what has ended: ids of `term` that are neither above `highest` nor in `unsettled`, and
  /// everything of an older term. A list that is older than one seen before changes nothing.
  /// `unsettled` must hold *every* id up to `highest` that can still run, those that were not
  /// dispatched yet included. Any order.
  void settle(term_no term, std::uint64_t highest, std::span<const std::uint64_t> unsettled);

  /// Closures and program threads remembered.
  std::size_t size() const { return closures_.size() + calls_.size(); }

private:
  /// The operations of one closure: the first 64 numbers as bits, later ones in order.
  struct op_set {
    std::uint64_t low = 0;
    std::vector<op_no> high{};
    bool contains(op_no op) const;
    void make_room(op_no op);
    void insert(op_no op);
  };
  struct entry {
    closure_id id{};
    op_set ops{};
  };

  bool is_settled(const closure_id& id) const;
  ledger_verdict check_call(const op_key& key) const;
  entry& entry_of(const op_key& key);

  term_no term_{};            // of the settled list
  std::uint64_t highest_ = 0; // valid when `any_list_`
  bool any_list_ = false;
  std::vector<std::uint64_t> unsettled_{}; // ascending, none above highest_
  std::vector<entry> closures_{};          // ascending by id; ids arrive nearly in order
  std::vector<entry> calls_{};             // ascending by (term, thread)
};

} // namespace troupe
