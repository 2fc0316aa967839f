#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <troupe/core/fields.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/strategies/parameter_server/variable.hpp>
#include <troupe/strategies/parameter_server/worker_context.hpp>

/// The audit of effect once: a variable with a cell per closure on every shard, to which the
/// closure adds 1, and a second one into which each attempt writes its number. Lost: cells of
/// finished closures below 1; doubled: cells above 1, over all shards.
namespace troupe::sim {

/// The layout of both variables, i64 [shards x cells, width]; a closure's row of each shard has one
/// value in all columns: a row whose columns differ is half a push.
struct audit_layout {
  std::int64_t shards = 1;
  std::int64_t cells = 1;
  std::int64_t width = 1;
  TROUPE_FIELDS(audit_layout, shards, cells, width)
  shape_t shape() const { return {shards * cells, width}; }
};

/// Adds 1 to the closure's cell on every shard. Steps only.
void audit_add(const variable& counts, const audit_layout& layout, std::int64_t cell);
/// Writes the attempt into the closure's cell on every shard.
void audit_try(const variable& tries, const audit_layout& layout, std::int64_t cell,
               attempt_no attempt);

/// The program's knowledge of its closures, and the values that the shards must therefore hold.
class audit_board {
public:
  explicit audit_board(const audit_layout& layout)
    : layout_{layout}, cells_(static_cast<std::size_t>(layout.cells)) {}

  const audit_layout& layout() const { return layout_; }
  /// The next closure's cell; -1 when none is left.
  std::int64_t take();
  bool is_full() const { return next_ == layout_.cells; }
  /// The closure of a cell was never accepted: no effect at all.
  void refused(std::int64_t cell) { at(cell) = fate::unused; }
  void finished(std::int64_t cell) { at(cell) = fate::finished; }
  /// The closure of a cell failed or was cancelled: of each operation an effect or none, whole, on
  /// each shard.
  void unfinished(std::int64_t cell) { at(cell) = fate::unfinished; }
  std::int64_t finished_count() const { return count(fate::finished); }
  std::int64_t taken_count() const { return next_; }
  /// Counts the cells that are `rest` modulo `every`: those that finished, and those ever taken.
  void count_every(std::int64_t every, std::int64_t rest, std::int64_t& finished,
                   std::int64_t& taken) const;

  /// Differences from the expected values, at most 8 lines; empty: none. Closures that are still
  /// open may have any effect that is whole and single.
  std::vector<std::string> compare(const tensor& counts, const tensor& tries) const;
  /// Updates a copy that was made when a checkpoint was taken: what was open then and is finished
  /// `now` is in the checkpoint as a whole or not at all.
  void learn(const audit_board& now);
  /// Updates that copy once the checkpoint is restored: nobody waits for what was open.
  void reopened();

private:
  enum class fate : std::uint8_t { unused, open, finished, unfinished, whole };
  fate& at(std::int64_t cell) { return cells_.at(static_cast<std::size_t>(cell)); }
  std::int64_t count(fate which) const;
  audit_layout layout_;
  std::vector<fate> cells_;
  std::int64_t next_ = 0;
};

} // namespace troupe::sim
