// Goal: gather and scatter equal the plain loops, in the order of the row numbers, for every type.
#include <troupe/kernels/gather_scatter.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace k = troupe::kernels;

namespace {

using rows_t = std::vector<std::int64_t>;

const rows_t spread{0, 10, 12, 21, 22}; // 30 rows in shards 10/10/10
const rows_t repeated{22, 0,  22, 22, 5, 0, 29, 1,
                      1,  28, 3,  22, 4, 6, 7,  8}; // unsorted, with repeats

template <class T>
std::vector<T> small_numbers(std::size_t n, unsigned salt) {
  std::vector<T> out(n);
  for (std::size_t i = 0; i < n; ++i)
    out[i] = static_cast<T>((i * 13 + salt) % 11 + 1);
  return out;
}

template <class T>
T plain(k::scatter_op op, T o, T v) {
  switch (op) {
    case k::scatter_op::add: return static_cast<T>(o + v);
    case k::scatter_op::sub: return static_cast<T>(o - v);
    case k::scatter_op::mul: return static_cast<T>(o * v);
    case k::scatter_op::div: return static_cast<T>(o / v);
    case k::scatter_op::min: return o < v ? o : v;
    case k::scatter_op::max: return o > v ? o : v;
    case k::scatter_op::update: return v;
  }
  return o;
}

template <class T>
void check_type() {
  for (std::size_t cols : {1u, 3u, 16u, 65u})
    for (const rows_t& rows : {rows_t{}, spread, repeated}) {
      CAPTURE(cols);
      CAPTURE(rows.size());
      const auto table = small_numbers<T>(30 * cols, 1);
      std::vector<T> gathered(rows.size() * cols);
      k::gather_rows<T>(table, cols, rows, gathered);
      bool equal = true;
      for (std::size_t i = 0; i < gathered.size(); ++i)
        equal = equal && gathered[i] == table[std::size_t(rows[i / cols]) * cols + i % cols];
      CHECK(equal);
      const auto values = small_numbers<T>(rows.size() * cols, 5);
      for (int op = 0; op < 7; ++op) {
        CAPTURE(op);
        auto got = table;
        auto want = table;
        k::scatter_rows<T>(static_cast<k::scatter_op>(op), got, cols, rows, values);
        for (std::size_t i = 0; i < values.size(); ++i) {
          T& cell = want[std::size_t(rows[i / cols]) * cols + i % cols];
          cell = plain(static_cast<k::scatter_op>(op), cell, values[i]);
        }
        CHECK(got == want);
      }
    }
}

} // namespace

TEST_CASE(
  "PS-Q1 scatter: every operation and type equals the element-wise loop, repeats in order") {
  check_type<float>();
  check_type<double>();
  check_type<std::int32_t>();
  check_type<std::int64_t>();
  check_type<std::uint8_t>();
}

TEST_CASE("PS-Q6 gather: rows come in the order asked") {
  std::vector<float> table(30);
  for (std::size_t i = 0; i < 30; ++i)
    table[i] = float(i);
  std::vector<float> out(2);
  k::gather_rows<float>(table, 1, rows_t{12, 0}, out);
  CHECK(out == std::vector<float>{12.0f, 0.0f});
}

TEST_CASE("scatter: division by zero and NaN follow elementwise.hpp") {
  std::vector<std::int32_t> ints{7, std::numeric_limits<std::int32_t>::lowest()};
  k::scatter_rows<std::int32_t>(k::scatter_op::div, ints, 1, rows_t{0, 1},
                                std::vector<std::int32_t>{0, -1});
  CHECK(ints == std::vector<std::int32_t>{0, std::numeric_limits<std::int32_t>::lowest()});
  std::vector<std::uint8_t> bytes{250, 9};
  k::scatter_rows<std::uint8_t>(k::scatter_op::add, bytes, 1, rows_t{0},
                                std::vector<std::uint8_t>{10});
  k::scatter_rows<std::uint8_t>(k::scatter_op::div, bytes, 1, rows_t{1},
                                std::vector<std::uint8_t>{0});
  CHECK(bytes == std::vector<std::uint8_t>{4, 0});
  std::vector<float> floats{1.0f};
  k::scatter_rows<float>(k::scatter_op::max, floats, 1, rows_t{0},
                         std::vector<float>{std::nanf("")});
  CHECK(std::isnan(floats[0]));
}

TEST_CASE("gather: rows of bytes serve types without arithmetic") {
  const std::vector<std::uint16_t> table{1, 2, 3, 4, 5, 6};
  std::vector<std::uint16_t> out(4);
  k::gather_row_bytes(std::as_bytes(std::span(table)), 4, rows_t{2, 0},
                      std::as_writable_bytes(std::span(out)));
  CHECK(out == std::vector<std::uint16_t>{5, 6, 1, 2});
}

TEST_CASE("gather: rows of every size come whole, near and far") {
  for (std::size_t row_bytes : {1u, 15u, 16u, 17u, 32u, 64u, 96u, 128u, 256u, 512u, 1000u, 1024u})
    for (std::size_t height : {5u, 2000u}) {
      CAPTURE(row_bytes);
      CAPTURE(height);
      std::vector<std::uint8_t> table(row_bytes * height);
      for (std::size_t i = 0; i < table.size(); ++i)
        table[i] = static_cast<std::uint8_t>(i * 2654435761u >> 11);
      rows_t rows(150);
      for (std::size_t i = 0; i < rows.size(); ++i)
        rows[i] = static_cast<std::int64_t>(i * 7919 % height);
      std::vector<std::uint8_t> out(row_bytes * rows.size() + 1, 77);
      k::gather_rows<std::uint8_t>(table, row_bytes, rows, std::span(out).first(out.size() - 1));
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < out.size() - 1; ++i)
        wrong +=
          out[i] == table[std::size_t(rows[i / row_bytes]) * row_bytes + i % row_bytes] ? 0 : 1;
      CHECK(wrong == 0);
      CHECK(out.back() == 77);
    }
}

TEST_CASE("gather: the first bad row is found at every position") {
  for (std::size_t n : {1u, 63u, 64u, 65u, 200u})
    for (std::size_t at = 0; at < n; ++at) {
      rows_t rows(n, 6);
      CHECK(k::first_bad_row(rows, 7) == n);
      rows[at] = at % 2 == 0 ? -1 : 7;
      rows.back() = 9;
      CHECK(k::first_bad_row(rows, 7) == at);
    }
}

TEST_CASE("gather and scatter: a bad row or size is refused by name and nothing is written") {
  std::vector<float> table(6, 1.0f), values(4, 9.0f);
  const auto before = table;
  const auto scatter = [&](std::size_t cols, rows_t rows) {
    k::scatter_rows<float>(k::scatter_op::update, table, cols, rows, values);
  };
  try {
    scatter(2, {0, 3});
    FAIL("no exception");
  } catch (const std::invalid_argument& e) {
    CHECK(std::string(e.what()) == "kernels::scatter_rows: rows[1] is 3, outside [0, 3)");
  }
  CHECK_THROWS_AS(scatter(2, {0, -1}), std::invalid_argument);
  CHECK_THROWS_AS(scatter(2, {0}), std::invalid_argument);
  CHECK_THROWS_AS(scatter(4, {0}), std::invalid_argument);
  CHECK_THROWS_AS(scatter(0, {0}), std::invalid_argument);
  CHECK(table == before);
  CHECK_THROWS_AS(k::gather_rows<float>(table, 2, rows_t{0, 3}, values), std::invalid_argument);
  CHECK(k::first_bad_row(rows_t{0, 2, 3, -1}, 3) == 2);
  CHECK(k::first_bad_row(rows_t{0, -1}, 3) == 1);
  CHECK(k::first_bad_row(rows_t{0, 2}, 3) == 2);
}
