#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <troupe/core/device_port.hpp>
#include <troupe/data/dataset.hpp>
#include <troupe/data/distributed_input.hpp>
#include <troupe/strategies/replicas/distributed_values.hpp>
#include <troupe/strategies/replicas/input_context.hpp>
#include <troupe/strategies/replicas/strategy.hpp>

namespace troupe {

/// What becomes of a replica that a step has no data for.
enum class empty_pieces : std::uint8_t {
  /// Its function is not called: it adds nothing to sums and counts, and a mean is that of the
  /// others. It takes part in the others' collective calls all the same, with nothing; in a merge
  /// call it can't. Where none of a worker's replicas has data while another worker's has, its
  /// functions are called with zero rows.
  skip = 0,
  /// It is called with tensors of zero rows.
  call = 1
};

struct distribute_options {
  autoshard_policy policy = autoshard_policy::automatic;
  split rule = split::stream;
  /// One a replica of the whole group, in rank order; empty: all alike (part 2, row 7).
  std::vector<std::uint32_t> weights{};
  /// False: elements are not divided; each replica takes one in turn.
  bool rebatch = true;
  empty_pieces empties = empty_pieces::skip;
  /// What shuffles without a seed draw from, the same on all workers; 0: drawn by the first.
  std::uint64_t shared_seed = 0;
  input_options input{};
};

namespace detail {
class placed_input;
} // namespace detail

/// One step's input: a piece for each local replica. As an argument of `strategy::run` each replica
/// gets its `element`. A plain value that shares its tensors.
class distributed_batch {
public:
  distributed_batch() = default;
  distributed_batch(input_step step, std::uint32_t live, empty_pieces empties,
                    std::shared_ptr<const detail::placed_input> placed = {});

  std::size_t size() const { return pieces_.size(); }
  /// Of a temporary batch by value.
  const element& piece(std::size_t replica) const&;
  element piece(std::size_t replica) && { return std::as_const(*this).piece(replica); }
  /// For every row of the piece its place in the pass.
  const std::vector<std::uint64_t>& global_rows(std::size_t replica) const&;
  std::vector<std::uint64_t> global_rows(std::size_t replica) && {
    return std::as_const(*this).global_rows(replica);
  }
  bool is_empty(std::size_t replica) const;
  /// Where a copy of the piece was put before the replica asks for it: the replica's GPU; none: it
  /// is in host memory alone (rows SYNC-INP-7, I27). `replica_context::on_device` has the copy.
  std::optional<device_id> device(std::size_t replica) const;
  /// Part `i` of all pieces.
  per_replica<tensor> part(std::size_t i) const;
  /// The only part.
  per_replica<tensor> only() const;
  /// Replicas of the whole group that have data.
  std::uint32_t live_replicas() const { return live_; }
  empty_pieces empties() const { return empties_; }
  /// For the strategy.
  const std::shared_ptr<const detail::placed_input>& placed() const { return placed_; }

private:
  std::vector<input_piece> pieces_{};
  std::uint32_t live_ = 0;
  empty_pieces empties_ = empty_pieces::skip;
  std::shared_ptr<const detail::placed_input> placed_{};
};

namespace detail {

template <>
struct nest<distributed_batch> {
  static const element& select(const distributed_batch& x, std::size_t i) { return x.piece(i); }
  static bool is_silent(const distributed_batch& x, std::size_t i) {
    return x.empties() == empty_pieces::skip && x.is_empty(i);
  }
  static std::uint32_t live(const distributed_batch& x) { return x.live_replicas(); }
  static std::shared_ptr<const placed_input> placed(const distributed_batch& x) {
    return x.placed();
  }
};

class distributed_source;
class input_ahead;
struct made_step;

} // namespace detail

/// Where a strategy's input stands. The program's threads, one at a time; outside replicas (row
/// SYNC-ITR-4). With several workers each `next` may ask the others whether they have data: all
/// call it alike.
///
/// Where a replica is on a GPU, or `input_options::prefetch_to_device` is true, a lane of its own
/// makes the next steps from the first `next` on, as many as `per_replica_buffer_size` says, and
/// puts them on the replicas' devices (rows SYNC-INP-7, INP-8): datasets' functions are called
/// there. It ends with the iterator, the end of the data or the runtime. Nothing else shows of it.
class distributed_iterator {
public:
  explicit distributed_iterator(std::shared_ptr<detail::distributed_source> source);
  ~distributed_iterator();
  distributed_iterator(distributed_iterator&&) noexcept;
  distributed_iterator& operator=(distributed_iterator&&) noexcept;

  /// The next step; throws `end_of_data` once no replica of any worker has data (row SYNC-ITR-2),
  /// again at each further call. Several workers agree on each step first; where that fails, the
  /// step is given by the next call that succeeds. `mismatch` when one of them has missed a step
  /// that others have: restore a position.
  distributed_batch next();
  /// The same, or nothing at the end (row SYNC-ITR-5).
  std::optional<distributed_batch> try_next();
  /// Begins another pass over the data.
  void start_pass(std::uint64_t pass);
  std::uint64_t pass() const;
  /// The exact position, behind what `next` has given. `wrong_state` after an error of the data,
  /// and while the workers have not agreed on a step.
  std::string save_position() const;
  /// Throws `corrupt`, `mismatch`, and then stays as it was. Mends an iterator that an error broke.
  void restore_position(std::string_view bytes);
  std::vector<tensor_spec> element_spec() const;

private:
  std::shared_ptr<detail::distributed_source> source_;
  std::unique_ptr<detail::input_ahead> at_;
  struct agreement {
    std::uint32_t live = 0; ///< replicas that have data
    bool going = false;     ///< some worker's input has not ended
  };
  agreement agree(const input_step& step);
  void begin_anew();
  std::optional<bool> asks_{}; ///< whether workers ask each other, once that was agreed
  std::unique_ptr<detail::made_step> pending_{}; ///< made here, not agreed on yet
  std::uint64_t agreed_ = 0;                     ///< steps since the pass began, or the position
  bool ended_ = false;
};

/// A dataset as a strategy's replicas take it (rows SYNC-INP): iterated and described, not changed
/// any more. A handle. `for (auto& batch : ds)` is one pass.
class distributed_dataset {
public:
  explicit distributed_dataset(std::shared_ptr<detail::distributed_source> source)
    : source_{std::move(source)} {}

  /// From the begin of pass 0.
  distributed_iterator iterate() const { return distributed_iterator{source_}; }

  class pass_iterator {
  public:
    using iterator_category = std::input_iterator_tag;
    using value_type = distributed_batch;
    using difference_type = std::ptrdiff_t;
    using pointer = distributed_batch*;
    using reference = distributed_batch&;
    pass_iterator() = default;
    explicit pass_iterator(std::shared_ptr<distributed_iterator> at) : at_{std::move(at)} {
      ++*this;
    }
    distributed_batch& operator*() const { return *batch_; }
    distributed_batch* operator->() const { return batch_.get(); }
    pass_iterator& operator++() {
      auto next = at_->try_next();
      batch_ = next ? std::make_shared<distributed_batch>(std::move(*next)) : nullptr;
      return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const pass_iterator& a, const pass_iterator& b) {
      return a.batch_ == b.batch_;
    }

  private:
    std::shared_ptr<distributed_iterator> at_{};
    std::shared_ptr<distributed_batch> batch_{};
  };
  pass_iterator begin() const {
    return pass_iterator{std::make_shared<distributed_iterator>(iterate())};
  }
  pass_iterator end() const { return {}; }

  /// Of one replica's piece.
  std::vector<tensor_spec> element_spec() const;
  /// Steps of a pass, `infinite_cardinality` or `unknown_cardinality` (row SYNC-INP-13).
  std::int64_t cardinality() const;
  /// Why `automatic` came to `data`; else empty.
  std::string note() const;

private:
  std::shared_ptr<detail::distributed_source> source_;
};

/// Each step gives every replica its piece of one global batch (rows SYNC-INP-1, SPL, MWI, ASH).
/// The default strategy gives its replica the dataset's elements as they are, read with ports of
/// this machine (row SYNC-DEF-5): `wrong_state` in a simulated process.
distributed_dataset distribute_dataset(const strategy& s, const dataset& global_batches,
                                       distribute_options options = {});
/// `function` makes the dataset of per-replica batches of each pipeline: one a worker, or with
/// `input_replication::per_replica` one a replica (rows SYNC-INP-2, OPT-3).
distributed_dataset distribute_datasets_from_function(
  const strategy& s, std::function<dataset(const input_context&)> function,
  distribute_options options = {});

/// The replicas' rows in dataset order, each once: `value` has a row for each row of the pieces
/// (part 2, row 7). With several workers all call it.
tensor gather_ordered(const strategy& s, const per_replica<tensor>& value,
                      const distributed_batch& of);

} // namespace troupe
