#pragma once

#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <troupe/core/specs.hpp>
#include <troupe/core/step_host.hpp>
#include <troupe/strategies/runtime/fwd.hpp>
#include <troupe/strategies/sharding/embedding.hpp>
#include <troupe/strategies/sharding/slicing.hpp>
#include <troupe/strategies/sharding/variable_ops.hpp>

namespace troupe {

/// A variable on the parameter servers, whole or in shards along axis 0. A handle: copies are the
/// same variable. Works in the coordinator's program, on any thread, and inside steps; there a
/// closure reads its own writes and its updates count once.
///
/// Calls from the program wait for the servers. All calls throw `wrong_state` for an empty handle
/// and `unavailable` naming a server that does not answer or is lost; inside a step, `cancelled`
/// once its closure is cancelled.
class variable {
public:
  variable() = default;
  /// The constructor for the strategy.
  variable(std::shared_ptr<const variable_spec> spec, std::shared_ptr<coordinator_client> owner)
    : spec_{std::move(spec)}, owner_{std::move(owner)} {}

  explicit operator bool() const noexcept { return spec_ != nullptr; }
  variable_id id() const { return spec().id; }
  const std::string& name() const { return spec().name; }
  troupe::dtype type() const { return spec().type; }
  const shape_t& shape() const { return spec().shape; }
  bool is_sharded() const { return spec().is_sharded(); }
  const variable_spec& spec() const;

  /// The whole value: `type()`, `shape()`. The shards are concatenated along axis 0; they may be at
  /// different versions.
  tensor read() const;
  /// The value as blocks of rows, one a shard, without concatenation.
  variable_value read_blocks() const;

  /// Replaces, adds to or subtracts from the whole value, shard by shard: a concurrent reader may
  /// see some shards before and some after. `value`: `type()`, exactly `shape()`. Throws
  /// `shape_mismatch`, `dtype_mismatch`, `invalid_argument` for a tensor without a value.
  const variable& assign(const tensor& value) const;
  const variable& assign_add(const tensor& value) const;
  const variable& assign_sub(const tensor& value) const;

  /// Changes the rows `indices` alone, element by element. `indices`: i64 [n], global rows, in any
  /// order; `values`: `type()`, [n] + row shape. Duplicates are applied in order. Throws
  /// `dtype_mismatch`, `shape_mismatch`; `out_of_range` naming the index; `invalid_argument` for an
  /// undefined tensor and for an integer divided by 0.
  const variable& scatter_add(const tensor& indices, const tensor& values) const;
  const variable& scatter_sub(const tensor& indices, const tensor& values) const;
  const variable& scatter_mul(const tensor& indices, const tensor& values) const;
  const variable& scatter_div(const tensor& indices, const tensor& values) const;
  const variable& scatter_min(const tensor& indices, const tensor& values) const;
  const variable& scatter_max(const tensor& indices, const tensor& values) const;
  const variable& scatter_update(const tensor& indices, const tensor& values) const;

  /// The rows `indices` in the order asked: shape(indices) + row shape. `indices`: i64, any rank,
  /// global rows. Throws `dtype_mismatch`; `out_of_range` naming the index.
  tensor gather(const tensor& indices) const;
  /// The part of the value that `items` index, as numpy does (slicing.hpp). Only the rows asked for
  /// travel. Throws as `plan_slice` fails: `out_of_range`, `invalid_argument`, `dtype_mismatch`,
  /// `shape_mismatch`.
  tensor slice(std::span<const slice_item> items) const;
  tensor slice(std::initializer_list<slice_item> items) const {
    return slice(std::span<const slice_item>{items.begin(), items.size()});
  }

  /// Replaces the learning rate's schedule on the servers by a constant. Throws `wrong_state` for a
  /// variable without an optimizer, `invalid_argument` for a rate that is negative or not finite.
  void set_learning_rate(float value) const;

private:
  const variable& change(mutation_kind kind, const tensor& values,
                         const tensor& indices = {}) const;
  std::shared_ptr<const variable_spec> spec_{};
  std::shared_ptr<coordinator_client> owner_{};
};

using variable_list = std::vector<variable>;

/// Rows of `table` for `ids` (i64 or i32, any shape): shape(ids) + row shape. The table is never
/// concatenated: each shard that owns a row is asked once. `max_norm`: longer rows are scaled to
/// that L2 norm. In the coordinator's program or inside a step. Throws as `embedding_lookup` of
/// embedding.hpp, and as `variable::gather`.
tensor embedding_lookup(const variable& table, const tensor& ids,
                        std::optional<float> max_norm = {});
/// Looks up bags of ids: one row for each bag of `ids`, combined as `options.how` says; see
/// embedding.hpp.
tensor embedding_lookup_sparse(const variable& table, const sparse_ids& ids, const tensor& weights,
                               const sparse_lookup_options& options = {});
/// `embedding_lookup_sparse` that leaves out negative ids and entries without a positive weight,
/// and fills empty bags; see embedding.hpp.
tensor safe_embedding_lookup_sparse(const variable& table, const sparse_ids& ids,
                                    const tensor& weights,
                                    const sparse_lookup_options& options = {},
                                    std::optional<std::int64_t> default_id = {});

/// Arithmetic on whole values, which are read first: element by element, operands of one dtype
/// (f32, f64, i32, i64), shapes equal or one side a scalar. Throws as `apply_binary`:
/// `dtype_mismatch`, `shape_mismatch`, `invalid_argument`.
tensor operator+(const variable& a, const variable& b);
tensor operator-(const variable& a, const variable& b);
tensor operator*(const variable& a, const variable& b);
tensor operator/(const variable& a, const variable& b);
tensor operator+(const variable& a, const tensor& b);
tensor operator-(const variable& a, const tensor& b);
tensor operator*(const variable& a, const tensor& b);
tensor operator/(const variable& a, const tensor& b);
/// Comparison of whole values, element by element: u8, 1 where equal. Throws as `apply_binary`.
tensor equal(const variable& a, const variable& b);
tensor equal(const variable& a, const tensor& b);

} // namespace troupe
