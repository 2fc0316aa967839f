#include <troupe/kernels/detail/strict_math.hpp>

#include <troupe/kernels/gather_scatter.hpp>

#include <troupe/kernels/detail/rows.hpp>
#include <troupe/kernels/detail/scalar_ops.hpp>

#include <cstring>

namespace troupe::kernels {

namespace {

template <class T>
void gather(const T* table, std::size_t cols, std::span<const std::int64_t> rows, T* out) {
  if (cols == 0)
    return;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    detail::prefetch_row(table, cols, rows, i);
    std::memcpy(out + i * cols, table + static_cast<std::size_t>(rows[i]) * cols, cols * sizeof(T));
  }
}

template <class T, class F>
void scatter(T* table, std::size_t cols, std::span<const std::int64_t> rows, const T* values, F f) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    detail::prefetch_row(table, cols, rows, i);
    T* row = table + static_cast<std::size_t>(rows[i]) * cols;
    const T* change = values + i * cols;
    TROUPE_INDEPENDENT_LOOP
    for (std::size_t j = 0; j < cols; ++j)
      row[j] = f(row[j], change[j]);
  }
}

} // namespace

template <class T>
void gather_rows(std::span<const std::type_identity_t<T>> table, std::size_t cols,
                 std::span<const std::int64_t> rows, std::span<T> out) {
  detail::expect_rows("gather_rows", table.size(), cols, rows, out.size());
  gather(table.data(), cols, rows, out.data());
}

void gather_row_bytes(std::span<const std::byte> table, std::size_t row_bytes,
                      std::span<const std::int64_t> rows, std::span<std::byte> out) {
  detail::expect_rows("gather_row_bytes", table.size(), row_bytes, rows, out.size());
  gather(table.data(), row_bytes, rows, out.data());
}

template <class T>
void scatter_rows(scatter_op op, std::span<T> table, std::size_t cols,
                  std::span<const std::int64_t> rows,
                  std::span<const std::type_identity_t<T>> values) {
  detail::expect_rows("scatter_rows", table.size(), cols, rows, values.size());
  T* to = table.data();
  const T* from = values.data();
  switch (op) {
    case scatter_op::add:
      return scatter(to, cols, rows, from, [](T o, T v) { return detail::add_one(o, v); });
    case scatter_op::sub:
      return scatter(to, cols, rows, from, [](T o, T v) { return detail::sub_one(o, v); });
    case scatter_op::mul:
      return scatter(to, cols, rows, from, [](T o, T v) { return detail::mul_one(o, v); });
    case scatter_op::div:
      return scatter(to, cols, rows, from, [](T o, T v) { return detail::div_one(o, v); });
    case scatter_op::min:
      return scatter(to, cols, rows, from, [](T o, T v) { return detail::min_one(o, v); });
    case scatter_op::max:
      return scatter(to, cols, rows, from, [](T o, T v) { return detail::max_one(o, v); });
    case scatter_op::update: return scatter(to, cols, rows, from, [](T, T v) { return v; });
  }
  detail::fail_index("scatter_rows", "op", 0, static_cast<long long>(op), 7);
}

std::size_t first_bad_row(std::span<const std::int64_t> rows, std::size_t row_count) {
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (static_cast<std::uint64_t>(rows[i]) >= row_count) // negatives are huge here
      return i;
  return rows.size();
}

#define TROUPE_INSTANTIATE(T)                                                                  \
  template void gather_rows<T>(std::span<const T>, std::size_t, std::span<const std::int64_t>, \
                               std::span<T>);                                                  \
  template void scatter_rows<T>(scatter_op, std::span<T>, std::size_t,                         \
                                std::span<const std::int64_t>, std::span<const T>);

TROUPE_INSTANTIATE(float)
TROUPE_INSTANTIATE(double)
TROUPE_INSTANTIATE(std::int32_t)
TROUPE_INSTANTIATE(std::int64_t)
TROUPE_INSTANTIATE(std::uint8_t)

#undef TROUPE_INSTANTIATE

} // namespace troupe::kernels
