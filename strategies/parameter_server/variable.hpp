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
/// same variable. Works in the coordinator's program and inside steps; there a closure reads its
/// own writes and its updates count once. Calls from the program wait for the servers and throw
/// `troupe::error`.
class variable {
public:
  variable() = default;
  /// For the strategy.
  variable(std::shared_ptr<const variable_spec> spec, std::shared_ptr<cluster> owner)
    : spec_{std::move(spec)}, owner_{std::move(owner)} {}
  /// The handle inside a step.
  static variable on_worker(worker_context& ctx, variable_id id);

  explicit operator bool() const noexcept { return spec_ != nullptr; }
  variable_id id() const { return spec().id; }
  const std::string& name() const { return spec().name; }
  troupe::dtype type() const { return spec().type; }
  const shape_t& shape() const { return spec().shape; }
  bool is_sharded() const { return spec().is_sharded(); }
  const variable_spec& spec() const;

  /// The whole value (row PS-G4). Shards may be at different versions.
  tensor read() const;
  /// As stored, without concatenation.
  variable_value read_blocks() const;

  /// Throws `shape_mismatch` for any other shape, too many rows included (row PS-G9).
  const variable& assign(const tensor& value) const;
  const variable& assign_add(const tensor& value) const;
  const variable& assign_sub(const tensor& value) const;

  /// `indices`: i64 [n], global rows; `values`: [n] + row shape. Duplicates are applied in order
  /// (rows PS-Q1 to Q5).
  const variable& scatter_add(const tensor& indices, const tensor& values) const;
  const variable& scatter_sub(const tensor& indices, const tensor& values) const;
  const variable& scatter_mul(const tensor& indices, const tensor& values) const;
  const variable& scatter_div(const tensor& indices, const tensor& values) const;
  const variable& scatter_min(const tensor& indices, const tensor& values) const;
  const variable& scatter_max(const tensor& indices, const tensor& values) const;
  const variable& scatter_update(const tensor& indices, const tensor& values) const;

  /// Rows in the order asked (row PS-Q6): shape(indices) + row shape.
  tensor gather(const tensor& indices) const;
  /// Only the rows asked for travel (section 1.R).
  tensor slice(std::span<const slice_item> items) const;
  tensor slice(std::initializer_list<slice_item> items) const {
    return slice(std::span<const slice_item>{items.begin(), items.size()});
  }

  /// Replaces the learning rate's schedule on the servers by a constant.
  void set_learning_rate(float value) const;

private:
  const variable& change(mutation_kind kind, const tensor& values,
                         const tensor& indices = {}) const;
  std::shared_ptr<const variable_spec> spec_{};
  std::shared_ptr<cluster> owner_{};
};

using variable_list = std::vector<variable>;

/// Rows of a table for ids of any shape: one gather a shard, never a concatenation (rows PS-M1 to
/// M11).
tensor embedding_lookup(const variable& table, const tensor& ids,
                        std::optional<float> max_norm = {});
tensor embedding_lookup_sparse(const variable& table, const sparse_ids& ids, const tensor& weights,
                               const sparse_lookup_options& options = {});
tensor safe_embedding_lookup_sparse(const variable& table, const sparse_ids& ids,
                                    const tensor& weights,
                                    const sparse_lookup_options& options = {},
                                    std::optional<std::int64_t> default_id = {});

/// On the concatenations (row PS-G10).
tensor operator+(const variable& a, const variable& b);
tensor operator-(const variable& a, const variable& b);
tensor operator*(const variable& a, const variable& b);
tensor operator/(const variable& a, const variable& b);
tensor operator+(const variable& a, const tensor& b);
tensor operator-(const variable& a, const tensor& b);
tensor operator*(const variable& a, const tensor& b);
tensor operator/(const variable& a, const tensor& b);
/// Element by element, as u8.
tensor equal(const variable& a, const variable& b);
tensor equal(const variable& a, const tensor& b);

} // namespace troupe
