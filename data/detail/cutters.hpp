#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <troupe/data/detail/held_rows.hpp>
#include <troupe/data/distributed_input.hpp>

/// The ways in which a worker's pieces come from its stream.
namespace troupe::detail {

/// A cutter's settings.
struct cut_plan {
  pipeline_options options{};
  /// G, or -1.
  std::int64_t global_rows = -1;
  /// Batches of fewer rows may stand in the middle of a pass.
  bool is_ragged = false;
  /// Every worker reads everything and takes its own of each step's pieces.
  bool shared = false;
  std::int64_t replicas_in_sync() const { return options.workers * options.replicas; }
};

/// A piece as it is cut: no data where it is empty. `first_row` counts in the worker's stream.
struct batch_piece {
  element data{};
  std::uint64_t first_row = 0;
  std::int64_t rows = 0;
};

/// Cuts one step after the other. One thread at a time.
class cutter {
public:
  virtual ~cutter() = default;
  /// Fills one piece a replica; false when the stream has ended.
  virtual bool next(held_rows& from, std::vector<batch_piece>& to) = 0;
  virtual void start_pass() {}
  virtual void save(position_out&) const {}
  /// After `from` was restored. Throws `corrupt`.
  virtual void load(position_in&, const held_rows& /*from*/) {}
  /// Steps that `elements` (finite) make, or `unknown_cardinality`.
  virtual std::int64_t steps(std::int64_t elements) const = 0;
  /// Rows of every whole piece of this worker, -1 where they differ or cannot be told.
  virtual std::int64_t piece_rows() const { return -1; }
  /// Rows of the smallest piece of a whole batch, all workers' included, so that all of them say
  /// the same; -1 where that cannot be told.
  virtual std::int64_t least_rows() const { return -1; }
};

/// Throws `invalid_argument` for settings that do not go together.
std::unique_ptr<cutter> make_cutter(const cut_plan& plan);

} // namespace troupe::detail
