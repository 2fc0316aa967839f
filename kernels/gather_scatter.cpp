#include <troupe/kernels/detail/strict_math.hpp>

#include <troupe/kernels/gather_scatter.hpp>

#include <troupe/kernels/detail/rows.hpp>
#include <troupe/kernels/detail/scalar_ops.hpp>

#include <cstring>

namespace troupe::kernels {

namespace {

/// Copies rows of `row_bytes`, prefetching where the table is larger than a second-level cache.
template <class Copy>
void gather_with(const std::byte* table, std::size_t table_bytes, std::size_t row_bytes,
                 std::span<const std::int64_t> rows, std::byte* out, Copy copy) {
  const bool far = table_bytes > detail::near_bytes;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (far)
      detail::prefetch_row(table, row_bytes, rows, i);
    copy(out + i * row_bytes, table + static_cast<std::size_t>(rows[i]) * row_bytes);
  }
}

/// Rows of usual sizes in a few wide moves instead of a call each.
template <std::size_t RowBytes>
void gather_fixed(std::span<const std::byte> table, std::span<const std::int64_t> rows,
                  std::byte* out) {
  gather_with(table.data(), table.size(), RowBytes, rows, out,
              [](std::byte* to, const std::byte* from) {
                constexpr std::size_t step = RowBytes < 64 ? RowBytes : 64;
                for (std::size_t at = 0; at < RowBytes; at += step)
                  std::memcpy(to + at, from + at, step);
              });
}

void gather(std::span<const std::byte> table, std::size_t row_bytes,
            std::span<const std::int64_t> rows, std::byte* out) {
  switch (row_bytes) {
    case 0: return;
    case 16: return gather_fixed<16>(table, rows, out);
    case 32: return gather_fixed<32>(table, rows, out);
    case 64: return gather_fixed<64>(table, rows, out);
    case 128: return gather_fixed<128>(table, rows, out);
    case 256: return gather_fixed<256>(table, rows, out);
    case 512: return gather_fixed<512>(table, rows, out);
    case 1024: return gather_fixed<1024>(table, rows, out);
  }
  gather_with(
    table.data(), table.size(), row_bytes, rows, out,
    [row_bytes](std::byte* to, const std::byte* from) { std::memcpy(to, from, row_bytes); });
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
  gather(std::as_bytes(table), cols * sizeof(T), rows, std::as_writable_bytes(out).data());
}

void gather_row_bytes(std::span<const std::byte> table, std::size_t row_bytes,
                      std::span<const std::int64_t> rows, std::span<std::byte> out) {
  detail::expect_rows("gather_row_bytes", table.size(), row_bytes, rows, out.size());
  gather(table, row_bytes, rows, out.data());
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
  return detail::first_bad(rows, row_count);
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
