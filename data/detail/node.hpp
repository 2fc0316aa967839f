#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <troupe/core/environment.hpp>
#include <troupe/data/dataset_types.hpp>
#include <troupe/data/detail/stream.hpp>
#include <troupe/data/element.hpp>

/// The nodes of a dataset: a tree of descriptions that are opened into streams.
namespace troupe::detail {

/// The ports and seeds of opening. One thread at a time.
class open_context {
public:
  /// Draws seeds from `random` and remembers them.
  open_context(storage_port& files, random_port& random) : storage{files}, random_{&random} {}
  /// Gives out `seeds`, in order: opens the same tree as before. Past the end: 0, and
  /// `seeds_used` is above their number.
  open_context(storage_port& files, std::vector<std::uint64_t> seeds)
    : storage{files}, seeds_{std::move(seeds)} {}

  storage_port& storage;

  /// The next seed, for a shuffle without one of its own.
  std::uint64_t take_seed() {
    if (used_ == seeds_.size() && random_)
      seeds_.push_back(random_->draw("dataset.shuffle"));
    auto at = used_++;
    return at < seeds_.size() ? seeds_[at] : 0;
  }
  const std::vector<std::uint64_t>& seeds() const { return seeds_; }
  std::size_t seeds_used() const { return used_; }

private:
  random_port* random_ = nullptr;
  std::vector<std::uint64_t> seeds_{};
  std::size_t used_ = 0;
};

/// An opened node: rows of a store where that is possible, else elements. One of the streams is
/// null.
struct opened {
  std::shared_ptr<const row_store> store{};
  stream_ptr<row_no> rows{};
  stream_ptr<element> elements{};

  opened() = default;
  opened(std::shared_ptr<const row_store> from, stream_ptr<row_no> in_order)
    : store{std::move(from)}, rows{std::move(in_order)} {}
  opened(stream_ptr<element> all) : elements{std::move(all)} {}

  /// The stream of elements, made from rows where it must be.
  stream_ptr<element> take_elements() &&;
};

class dataset_node;
using node_ptr = std::shared_ptr<const dataset_node>;

/// Kinds of nodes that rewriting a description tells apart.
enum class node_kind : std::uint8_t { other, files, reader, shuffle, prefetch, shard_hint, expand };

/// Immutable; any thread. Errors are thrown.
class dataset_node {
public:
  virtual ~dataset_node() = default;
  virtual opened open(open_context& context) const = 0;
  virtual std::vector<tensor_spec> spec(open_context& context) const = 0;
  virtual std::string describe() const = 0;

  virtual node_kind kind() const { return node_kind::other; }
  /// The nodes that this one reads from; empty for a source.
  virtual std::vector<node_ptr> inputs() const { return {}; }
  /// This node's operation on other inputs. @pre as many as `inputs()`.
  virtual node_ptr with_inputs(std::vector<node_ptr> inputs) const;
  /// Elements of a pass, `infinite_cardinality` or `unknown_cardinality`. May open sources.
  virtual std::int64_t count(storage_port&) const { return unknown_cardinality; }
  /// Rows of the batch operation that the elements come from, through operations that change no
  /// element; else -1.
  virtual std::int64_t batch_rows() const { return -1; }
  /// Rows that each part of every element has for certain, else -1. May open sources and call
  /// functions, on their first element.
  virtual std::int64_t known_rows(open_context&) const { return -1; }
  /// How many elements of a pass may have fewer rows than `batch_rows`: 0, 1, or 2 for more.
  virtual int partial_batches() const { return 2; }
};

/// Rows that a function finds when it is opened; `label` describes them.
class source_node : public dataset_node {
public:
  opened open(open_context& context) const override;
  std::vector<tensor_spec> spec(open_context& context) const override;
  std::int64_t count(storage_port& storage) const override;
  std::int64_t known_rows(open_context& context) const override;

protected:
  virtual std::shared_ptr<const row_store> rows(storage_port& storage) const = 0;
};

node_ptr make_tensor_source(std::vector<tensor> columns);
node_ptr make_range_source(std::int64_t begin, std::int64_t end, std::int64_t step);
node_ptr make_idx_source(std::vector<std::string> paths);
node_ptr make_fashion_mnist_source(const std::string& split, std::string directory);

} // namespace troupe::detail
