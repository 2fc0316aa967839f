#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/data/autoshard.hpp>
#include <troupe/data/dataset.hpp>
#include <troupe/data/split.hpp>

/// The input of a synchronous strategy for one worker: in every step one piece of data for each of
/// its replicas. No worker speaks to another here; what they must agree on follows from equal
/// settings.
namespace troupe {

namespace detail {
class piece_source;
}

/// A worker's place among all, and how the data is divided. All workers have the same values except
/// for `worker`.
struct pipeline_options {
  std::int64_t workers = 1;
  std::int64_t worker = 0;
  /// Replicas of every worker.
  std::int64_t replicas = 1;
  autoshard_policy policy = autoshard_policy::automatic;
  /// The rule for a batch that is smaller than the others. Where the global batch's size cannot be
  /// told from the description the rule is always `even`.
  split rule = split::stream;
  /// A weight for each replica, in the order of ranks (worker * replicas + replica); empty: all
  /// alike. Pieces are in proportion (`weighted_split_sizes`).
  std::vector<std::uint32_t> weights{};
  /// False: elements are not divided, each replica takes one in turn.
  bool rebatch = true;
  /// Seed of shuffles that have none, where all workers must see the same order, that is under
  /// `data`. A strategy gives its workers a fresh one.
  std::uint64_t shared_seed = 0;
};

/// The worker that a function makes a dataset for.
struct pipeline_place {
  std::int64_t workers = 1;
  std::int64_t worker = 0;
  std::int64_t replicas_in_sync = 1;
  /// Throws `invalid_argument` when `global_rows` is no multiple of `replicas_in_sync`.
  std::int64_t per_replica_batch_size(std::int64_t global_rows) const;
};

/// A replica's data in one step.
struct input_piece {
  /// Without data: zero rows of the right types and shapes, where dimensions of unknown extent are
  /// 0 and a part without a batch dimension is a zero.
  element data{};
  /// The place of every row in the pass: in dataset order where every worker reads everything, so
  /// that a gather can restore it. Where workers read different files or datasets, row i of worker
  /// w's own stream has the number i * workers + w: none is there twice, and each worker's are in
  /// order.
  std::vector<std::uint64_t> global_rows{};
  bool empty() const { return global_rows.empty(); }
};

/// A step of one worker.
struct input_step {
  /// A piece for each of the worker's replicas.
  std::vector<input_piece> pieces{};
  /// False once this worker's input has ended; the pass ends when it is false on all. A worker that
  /// has data may have only empty pieces in a step.
  bool has_data = false;
};

/// A worker's input pipeline. One thread at a time, except for the calls that describe it:
/// `element_spec`, `cardinality` and the like may be asked while another thread takes steps.
/// Movable. The context's ports outlive it.
class pipeline_pieces {
public:
  /// A pipeline of a dataset of global batches. Throws `invalid_argument` for options that cannot
  /// be used, what `autoshard` throws, and what opening the dataset throws.
  pipeline_pieces(const dataset& data, const pipeline_options& options, data_context context);
  /// A pipeline of per-replica batches, from a dataset that `function` makes for each worker:
  /// nothing is divided and nothing is shared out, each replica takes an element in turn. Of the
  /// options, only workers, worker and replicas count.
  static pipeline_pieces from_function(
    const std::function<dataset(const pipeline_place&)>& function, const pipeline_options& options,
    data_context context);
  ~pipeline_pieces();
  pipeline_pieces(pipeline_pieces&&) noexcept;
  pipeline_pieces& operator=(pipeline_pieces&&) noexcept;

  /// The next step. After the end: empty pieces, as often as it is called. Throws as the dataset's
  /// iterator does; `invalid_argument` for elements without a batch dimension that would have to be
  /// divided, `shape_mismatch` for elements whose parts differ in rows. After an error it throws
  /// the same until a position is restored or a pass begun.
  input_step next();

  /// Begins pass `pass` (an epoch); a new pipeline stands at the begin of pass 0. All workers begin
  /// the same. Shuffles follow `dataset::shuffle`.
  void start_pass(std::uint64_t pass);
  std::uint64_t pass() const;

  /// The exact position between two steps: pass, place, seeds, what is left of divided batches.
  std::string save() const;
  /// Goes to a position saved with the same dataset and settings; what follows is what followed
  /// there. A position saved under `data` holds under `data` for any number of workers, replicas
  /// and weights: the new group continues with the first rows that the old one did not take. Throws
  /// `corrupt` or `mismatch` and then stays as it was.
  void restore(std::string_view bytes);
  /// Another pipeline of the same dataset and settings that stands where `restore` would go. This
  /// one is not used: any thread, also while another one takes steps.
  pipeline_pieces restored(std::string_view bytes) const;

  /// Steps of a pass, `infinite_cardinality` or `unknown_cardinality`. May open sources.
  std::int64_t cardinality() const;
  /// Whether a step may have less data than others, or none for a replica: the dataset ends, and
  /// its shapes are not all known or there are several workers; or the dataset does not end, and
  /// some of several workers' replicas get no rows of its batches. Without such steps no worker
  /// need ask the others whether they have data. May open sources.
  bool has_partial_steps() const;
  /// Dtypes and shapes of one replica's piece; the batch dimension is -1 where pieces may differ.
  std::vector<tensor_spec> element_spec() const;

  /// The policy by which the data is shared out; never `automatic`.
  autoshard_policy policy() const;
  /// Why `automatic` fell back to `data`, for the strategy to report once; else empty.
  const std::string& note() const;
  /// Rows of a global batch, -1 where it cannot be told.
  std::int64_t global_batch_size() const;

private:
  explicit pipeline_pieces(std::unique_ptr<detail::piece_source> source);
  std::unique_ptr<detail::piece_source> source_;
};

} // namespace troupe
