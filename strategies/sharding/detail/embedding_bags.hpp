#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/strategies/sharding/sparse_ids.hpp>

/// Parts that look-ups and their gradients share. Everything throws `troupe::error`.
namespace troupe::detail {

using id_list = std::vector<std::int64_t>;

/// `head` followed by `tail`.
shape_t joined(shape_t head, std::span<const std::int64_t> tail);

/// Throws `shape_mismatch` naming `what` and both shapes.
void expect_shape(const char* what, const shape_t& given, const shape_t& expected);
/// Throws `dtype_mismatch` naming `what` and both types.
void expect_type(const char* what, dtype given, dtype expected);

/// Elements of an i64 or i32 tensor of any rank.
id_list ids_of(const tensor& ids);

/// Ids without repeats, ascending, and each original id's place among them.
struct unique_ids {
  id_list ids{};
  id_list slots{};
};
unique_ids unique_of(std::span<const std::int64_t> ids);

/// Entries of a sparse look-up in plain lists.
struct bag_entries {
  std::int64_t bags = 0;
  shape_t bag_shape{};
  id_list bag{};
  id_list ids{};
  std::vector<double> weights{};
};

/// Checks the parts against each other; the ids themselves are not checked.
bag_entries entries_of(const sparse_ids& ids, const tensor& weights);

/// Leaves out what `safe_embedding_lookup_sparse` doesn't look at, and fills bags that are empty
/// then.
bag_entries safe_entries(const bag_entries& all, combiner how,
                         std::optional<std::int64_t> default_id);

/// The divisor of each bag's sum of w * e: 1 for a sum, else 0 for an empty bag.
std::vector<double> divisors_of(const bag_entries& entries, combiner how);

/// Calls `f` with a float or a double to show the element type.
template <class F>
auto with_float(const char* what, dtype type, F f) {
  if (type == dtype::f32)
    return f(float{});
  if (type == dtype::f64)
    return f(double{});
  throw_failure(errc::dtype_mismatch,
                std::string{what} + " is " + to_string(type) + ", not a float type");
}

} // namespace troupe::detail
