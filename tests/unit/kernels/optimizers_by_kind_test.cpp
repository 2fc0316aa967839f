// Goal: every row of the table of optimizers has its rule, and the rule of a kind is the function
// of its name, bit for bit, with the parameters of the spec. Method: walk the table; compare with
// the functions where there are some.
#include <troupe/kernels/optimizers.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <stdexcept>
#include <vector>

using namespace troupe;
namespace k = troupe::kernels;

namespace {

constexpr std::size_t height = 4;
constexpr std::size_t cols = 3;
constexpr std::size_t count = height * cols;

/// A parameter and as many slots as any optimizer has.
template <class T>
struct arrays {
  std::vector<T> p = std::vector<T>(count, T(0.75));
  std::array<std::vector<T>, optimizer_slots_max> slots{};

  explicit arrays(std::size_t used, T start = T(0.25)) {
    for (std::size_t i = 0; i < used; ++i)
      slots[i].assign(count, start);
  }
  k::update_arrays<T> in_place() {
    k::update_arrays<T> out{.p_in = p, .p_out = p};
    for (std::size_t i = 0; i < slots.size(); ++i) {
      out.slots_in[i] = slots[i];
      out.slots_out[i] = slots[i];
    }
    return out;
  }
  friend bool operator==(const arrays&, const arrays&) = default;
};

template <class T>
std::vector<T> gradient(std::size_t n) {
  std::vector<T> out(n);
  for (std::size_t i = 0; i < n; ++i)
    out[i] = T(static_cast<int>(i) + 1) / T(8);
  return out;
}

/// All parameters are off their defaults, so that a rule that forgets one differs.
optimizer_spec odd_spec(optimizer_kind kind) {
  return {.kind = kind,
          .momentum = 0.5f,
          .nesterov = true,
          .beta_1 = 0.75f,
          .beta_2 = 0.875f,
          .epsilon = 0.125f,
          .lazy = true};
}

constexpr k::update_step step{.learning_rate = 0.5, .t = 3};

/// Every array changes under the dense rule; the named rows and no others under the sparse one,
/// with the dense rule's bits.
template <class T>
void check_rules(const optimizer_traits& row) {
  const auto spec = odd_spec(row.kind);
  const arrays<T> start{row.slots.size()};
  auto dense = start;
  const auto g = gradient<T>(count);
  k::update<T>(spec, step, dense.in_place(), g);
  CHECK(dense.p != start.p);
  for (std::size_t i = 0; i < row.slots.size(); ++i)
    CHECK(dense.slots[i] != start.slots[i]);

  auto sparse = start;
  const std::vector<std::int64_t> rows{2, 0};
  std::vector<T> values;
  for (auto r : rows)
    values.insert(values.end(), g.begin() + r * std::int64_t{cols},
                  g.begin() + (r + 1) * std::int64_t{cols});
  k::update_rows<T>(spec, step, sparse.in_place(), cols, rows, values);
  const auto as_expected = [&](const std::vector<T>& got, const std::vector<T>& before,
                               const std::vector<T>& after) {
    for (std::size_t i = 0; i < got.size(); ++i)
      CHECK(got[i] == (i / cols == 0 || i / cols == 2 ? after[i] : before[i]));
  };
  as_expected(sparse.p, start.p, dense.p);
  for (std::size_t i = 0; i < row.slots.size(); ++i)
    as_expected(sparse.slots[i], start.slots[i], dense.slots[i]);

  auto all = start;
  const std::vector<std::int64_t> every{0, 1, 2, 3};
  if (row.lazy) {
    k::update_all_rows<T>(spec, step, all.in_place(), cols, every, g);
    CHECK(all == dense);
  } else {
    CHECK_THROWS_AS(k::update_all_rows<T>(spec, step, all.in_place(), cols, every, g),
                    std::invalid_argument);
    CHECK(all == start);
  }
}

template <class T>
void check_named_functions() {
  const auto g = gradient<T>(count);
  const auto by_kind = [&](optimizer_kind kind) {
    arrays<T> out{slot_count(kind)};
    k::update<T>(odd_spec(kind), step, out.in_place(), g);
    return out;
  };
  arrays<T> a{0}, b{1}, c{1}, d{2};
  k::sgd_update<T>(a.p, a.p, g, {.learning_rate = 0.5});
  CHECK(by_kind(optimizer_kind::sgd) == a);
  k::momentum_update<T>(b.p, b.p, b.slots[0], b.slots[0], g,
                        {.learning_rate = 0.5, .momentum = 0.5, .nesterov = true});
  CHECK(by_kind(optimizer_kind::momentum) == b);
  k::adagrad_update<T>(c.p, c.p, c.slots[0], c.slots[0], g,
                       {.learning_rate = 0.5, .epsilon = 0.125});
  CHECK(by_kind(optimizer_kind::adagrad) == c);
  k::adam_update<T>(d.p, d.p, d.slots[0], d.slots[0], d.slots[1], d.slots[1], g, 3,
                    {.learning_rate = 0.5, .beta1 = 0.75, .beta2 = 0.875, .epsilon = 0.125});
  CHECK(by_kind(optimizer_kind::adam) == d);
}

} // namespace

TEST_CASE("optimizers by kind: every kind has a dense and a sparse rule, in both types") {
  for (const auto& row : optimizer_table) {
    if (row.kind == optimizer_kind::none)
      continue;
    CAPTURE(row.name);
    check_rules<float>(row);
    check_rules<double>(row);
  }
}

TEST_CASE("optimizers by kind: the rule of a kind is the function of its name, bit for bit") {
  check_named_functions<float>();
  check_named_functions<double>();
}

TEST_CASE("optimizers by kind: no optimizer and a number that is no kind are refused") {
  for (int number : {0, static_cast<int>(std::size(optimizer_table)), 255}) {
    const auto spec = odd_spec(static_cast<optimizer_kind>(number));
    arrays<float> x{optimizer_slots_max};
    const auto start = x;
    const auto g = gradient<float>(count);
    const std::vector<std::int64_t> rows{0, 1, 2, 3};
    CHECK_THROWS_AS(k::update<float>(spec, step, x.in_place(), g), std::invalid_argument);
    CHECK_THROWS_AS(k::update_rows<float>(spec, step, x.in_place(), cols, rows, g),
                    std::invalid_argument);
    CHECK_THROWS_AS(k::update_all_rows<float>(spec, step, x.in_place(), cols, rows, g),
                    std::invalid_argument);
    CHECK(x == start);
  }
}
