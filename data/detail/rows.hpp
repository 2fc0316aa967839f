#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include <troupe/core/tensor.hpp>
#include <troupe/data/element.hpp>

/// Sources that give any row at once. Streams over them carry row numbers; a batch gathers the rows
/// when it is made, so that a shuffle moves eight bytes a row whatever its size.
namespace troupe::detail {

using row_no = std::uint64_t;

/// A part of every element. Immutable; any thread.
class column {
public:
  virtual ~column() = default;
  /// Dtype and shape of one row.
  virtual tensor_spec spec() const = 0;
  /// Row `at` as a tensor of its own. @pre `at` is below the store's count.
  virtual tensor row(row_no at) const = 0;
  /// Writes the rows one after the other. @pre `to` holds them.
  virtual void gather(std::span<const row_no> rows, std::span<std::byte> to) const = 0;
};

/// Columns with as many rows. Immutable; any thread.
struct row_store {
  std::vector<std::unique_ptr<const column>> columns{};
  row_no count = 0;
};

element row_of(const row_store& store, row_no at);
std::vector<tensor_spec> specs_of(const row_store& store);

/// Rows of a tensor along axis 0, shared. @pre rank >= 1.
std::unique_ptr<const column> make_tensor_column(tensor rows);
/// Rows of a u8 tensor as f32 vectors, each value times `scale`. Kept as bytes: a batch reads a
/// quarter of the memory.
/// @pre rank >= 1, u8.
std::unique_ptr<const column> make_scaled_column(tensor rows, float scale);
/// i64 scalars begin + row * step.
std::unique_ptr<const column> make_range_column(std::int64_t begin, std::int64_t step);

/// Stores by what they hold. Any thread; the lock is never held while a file is read, because a
/// thread may be a fiber that gives way there.
class row_cache {
public:
  /// Null when there is none.
  std::shared_ptr<const row_store> find(const std::string& key) const;
  /// Keeps the first store of a key and returns it.
  std::shared_ptr<const row_store> keep(const std::string& key,
                                        std::shared_ptr<const row_store> store);

private:
  mutable std::mutex lock_;
  std::map<std::string, std::shared_ptr<const row_store>> by_key_{};
};

} // namespace troupe::detail
