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
#include <troupe/strategies/input/distribute_options.hpp>
#include <troupe/strategies/replicas/distributed_values.hpp>
#include <troupe/strategies/replicas/input_context.hpp>
#include <troupe/strategies/replicas/strategy.hpp>

namespace troupe {

namespace detail {
class placed_input;
} // namespace detail

/// The input of one step: a piece for each local replica. As an argument of `strategy::run` each
/// replica gets its `element`. A plain value that shares its tensors.
class distributed_batch {
public:
  distributed_batch() = default;
  distributed_batch(input_step step, std::uint32_t live, empty_pieces empties,
                    std::shared_ptr<const detail::placed_input> placed = {});

  /// Number of local replicas.
  std::size_t size() const { return pieces_.size(); }
  /// The piece of local replica `replica`; throws `out_of_range`. A temporary batch gives it by
  /// value.
  const element& piece(std::size_t replica) const&;
  element piece(std::size_t replica) && { return std::as_const(*this).piece(replica); }
  /// The place of every row of the piece in the pass, from 0. Throws `out_of_range`.
  const std::vector<std::uint64_t>& global_rows(std::size_t replica) const&;
  std::vector<std::uint64_t> global_rows(std::size_t replica) && {
    return std::as_const(*this).global_rows(replica);
  }
  /// Whether the piece has no rows. Throws `out_of_range`.
  bool is_empty(std::size_t replica) const;
  /// The device that holds a copy of the piece before the replica asks for it: the replica's GPU;
  /// none: the piece is in host memory alone. `replica_context::on_device` has the copy.
  std::optional<device_id> device(std::size_t replica) const;
  /// Part `i` of each piece, as a distributed value: [rows of the piece] + row shape. Throws
  /// `out_of_range`.
  per_replica<tensor> part(std::size_t i) const;
  /// The only part of each piece, as a distributed value.
  per_replica<tensor> only() const;
  /// Number of replicas of the whole group that have data.
  std::uint32_t live_replicas() const { return live_; }
  empty_pieces empties() const { return empties_; }
  /// The pieces' copies on devices, for the strategy.
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
  static bool is_empty_replica(const distributed_batch& x, std::size_t i) {
    return x.empties() == empty_pieces::skip && x.is_empty(i);
  }
  static std::uint32_t live(const distributed_batch& x) { return x.live_replicas(); }
  static std::shared_ptr<const placed_input> placed(const distributed_batch& x) {
    return x.placed();
  }
};

class distributed_source;
class prefetcher;
struct prefetched_batch;

} // namespace detail

/// A place in a strategy's input. Used on the program's threads, one at a time, outside replicas
/// (else `wrong_state`). With several workers each `next` may ask the others whether they have
/// data: all workers make the same calls.
///
/// Where a replica is on a GPU, or `input_options::prefetch_to_device` is true, a thread of its own
/// makes the next steps from the first `next` on, as many as `per_replica_buffer_size` says, and
/// puts them on the replicas' devices: datasets' functions are called there. The thread ends with
/// the iterator, the end of the data or the runtime. Nothing else shows of it.
class distributed_iterator {
public:
  explicit distributed_iterator(std::shared_ptr<detail::distributed_source> source);
  ~distributed_iterator();
  distributed_iterator(distributed_iterator&&) noexcept;
  distributed_iterator& operator=(distributed_iterator&&) noexcept;

  /// The input of the next step, whose dtypes and shapes `element_spec` tells; throws `end_of_data`
  /// once no replica of any worker has data, again at each further call. Several workers agree on
  /// each step first; where that fails, the step is given by the next call that succeeds.
  /// `mismatch` when one of them has missed a step that others have: restore a position.
  distributed_batch next();
  /// `next` that returns nothing at the end of the data.
  std::optional<distributed_batch> try_next();
  /// Begins pass number `pass` over the data, at its first step.
  void start_pass(std::uint64_t pass);
  /// The number of the current pass, from 0.
  std::uint64_t pass() const;
  /// The exact position, behind the last step that `next` gave, as opaque bytes. `wrong_state`
  /// after an error of the data, and while the workers have not agreed on a step.
  std::string save_position() const;
  /// Goes to a saved position. Throws `corrupt` for bytes that are no position, `mismatch` for a
  /// position that does not fit this input; the iterator then stays as it was. An iterator that an
  /// error broke can be used again afterwards.
  void restore_position(std::string_view bytes);
  /// Dtypes and shapes of the parts of one replica's piece; -1 for an extent that may differ.
  std::vector<tensor_spec> element_spec() const;

private:
  std::shared_ptr<detail::distributed_source> source_;
  std::unique_ptr<detail::prefetcher> at_;
  struct agreement {
    std::uint32_t live = 0; ///< replicas that have data
    bool going = false;     ///< some worker's input has not ended
  };
  agreement agree(const input_step& step);
  void begin_anew();
  std::optional<bool> asks_{}; ///< whether workers ask each other, once that was agreed
  std::unique_ptr<detail::prefetched_batch> pending_{}; ///< made here, not agreed on yet
  std::uint64_t agreed_ = 0; ///< steps since the pass began, or the position
  bool ended_ = false;
};

/// A dataset divided over a strategy's replicas: can be iterated and described, not changed any
/// more. A handle. `for (auto& batch : ds)` is one pass.
class distributed_dataset {
public:
  explicit distributed_dataset(std::shared_ptr<detail::distributed_source> source)
    : source_{std::move(source)} {}

  /// A new iterator at the begin of pass 0.
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

  /// Dtypes and shapes of the parts of one replica's piece; -1 for an extent that may differ.
  std::vector<tensor_spec> element_spec() const;
  /// Steps of a pass, `infinite_cardinality` or `unknown_cardinality`. May open the sources.
  std::int64_t cardinality() const;
  /// Why `automatic` came to `data`; else empty.
  std::string note() const;

private:
  std::shared_ptr<detail::distributed_source> source_;
};

/// Divides a dataset of global batches: each step gives every replica its piece of one of them. The
/// program's threads, in cross-replica or default context. `invalid_argument` for options that do
/// not go together or with `s`, and elements that cannot be divided. The default strategy gives its
/// replica the dataset's elements as they are, read with ports of this machine: `wrong_state` in a
/// simulated process.
distributed_dataset distribute_dataset(const strategy& s, const dataset& global_batches,
                                       distribute_options options = {});
/// A distributed dataset of pipelines that the program divides itself: `function` makes the dataset
/// of per-replica batches of each pipeline, one a worker, or with `input_replication::per_replica`
/// one a replica. Nothing is divided or shared out: each replica takes an element a step, in turn.
/// `invalid_argument` for options that do not go together or with `s`.
distributed_dataset distribute_datasets_from_function(
  const strategy& s, std::function<dataset(const input_context&)> function,
  distribute_options options = {});

/// The replicas' rows in dataset order, each once: [rows of the global batch] + row shape. `value`:
/// a component for each piece of `of`, with as many rows, else `shape_mismatch`. With several
/// workers all call it.
tensor gather_ordered(const strategy& s, const per_replica<tensor>& value,
                      const distributed_batch& of);

} // namespace troupe
