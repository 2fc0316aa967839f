#include <doctest/doctest.h>

#include <troupe/kernels/casts.hpp>
#include <troupe/strategies/sharding/embedding.hpp>
#include <troupe/strategies/sharding/partitioner.hpp>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#include "../../../support/failures.hpp"
#include "../../../support/tensors.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

using ints = std::vector<std::int64_t>;

// A table in this process that counts what is asked of it.
struct fake_backend {
  tensor values{};
  std::vector<shard_spec> shards{};
  std::vector<ints> asked_unique{};
  int shard_gathers = 0;

  embedding_table form() const { return {values.type(), values.shape(), shards}; }

  tensor rows(std::span<const std::int64_t> ids) const {
    std::vector<tensor> parts{values.rows(0, 0)};
    for (auto id : ids)
      parts.push_back(values.rows(id, id + 1));
    return concatenate(parts);
  }

  gather_unique_rows gather() {
    return [this](std::span<const std::int64_t> ids) {
      asked_unique.emplace_back(ids.begin(), ids.end());
      return rows(ids);
    };
  }

  gather_unique_rows gather_by_shard() {
    return by_shard(form(), [this](auto shard, auto local_rows) {
      ++shard_gathers;
      ints ids;
      for (auto row : local_rows)
        ids.push_back(shards[shard].row_begin + row);
      return rows(ids);
    });
  }
};

// Rows [1,2], [3,4], [5,6], [7,8], [9,10] in shards of 2, 2 and 1 rows.
fake_backend five_rows() {
  return {tensor::of<float>({5, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}),
          {{0, 2, 0}, {2, 4, 1}, {4, 5, 2}},
          {}};
}

// One bag after the other.
sparse_ids bags(const ints& splits, const ints& values) {
  return sparse_ids::from_row_splits(splits, values);
}

void check_near(const tensor& x, const tensor& expected) {
  REQUIRE(x.shape() == expected.shape());
  for (std::size_t i = 0; i < x.as<float>().size(); ++i)
    CHECK(x.as<float>()[i] == doctest::Approx(expected.as<float>()[i]));
}

} // namespace

TEST_CASE("PS-M1 three shards answer with exactly three gathers") {
  auto table = five_rows();
  auto x = embedding_lookup(ids_of({4, 0, 3, 1, 0}), table.form(), table.gather_by_shard());
  CHECK(x == floats({5, 2}, {9, 10, 1, 2, 7, 8, 3, 4, 1, 2}));
  CHECK(table.shard_gathers == 3);
  (void)embedding_lookup(ids_of({2, 3}), table.form(), table.gather_by_shard());
  CHECK(table.shard_gathers == 4);
}

TEST_CASE("PS-M2 ids are owned by the div split, 13 ids in 5 shards") {
  fake_backend table{tensor{dtype::i64, {13}}, {}, {}};
  for (std::int64_t i = 0; i < 13; ++i)
    table.values.mutable_as<std::int64_t>()[static_cast<std::size_t>(i)] = i * 10;
  for (auto range : shard_rows(13, 5))
    table.shards.push_back({range.begin, range.end, 0});
  tensor all{dtype::i64, {13}};
  for (std::int64_t i = 0; i < 13; ++i)
    all.mutable_as<std::int64_t>()[static_cast<std::size_t>(i)] = 12 - i;
  auto x = embedding_lookup(all, table.form(), table.gather_by_shard());
  for (std::int64_t i = 0; i < 13; ++i)
    CHECK(x.as<std::int64_t>()[static_cast<std::size_t>(i)] == (12 - i) * 10);
  CHECK(table.shard_gathers == 5);
}

TEST_CASE("PS-M3 the shape is the ids' and the row's, in the ids' order, with duplicates") {
  auto table = five_rows();
  auto ids = tensor::of<std::int64_t>({2, 1, 2}, {4, 0, 0, 4});
  auto x = embedding_lookup(ids, table.form(), table.gather());
  CHECK(x == floats({2, 1, 2, 2}, {9, 10, 1, 2, 1, 2, 9, 10}));
  auto one = embedding_lookup(tensor::scalar<std::int64_t>(2), table.form(), table.gather());
  CHECK(one == floats({2}, {5, 6}));
  auto narrow = tensor::vector<std::int32_t>({1});
  CHECK(embedding_lookup(narrow, table.form(), table.gather()) == floats({1, 2}, {3, 4}));
  auto calls = table.asked_unique.size();
  CHECK(embedding_lookup(ids_of({}), table.form(), table.gather()).shape() == shape_t{0, 2});
  CHECK(table.asked_unique.size() == calls);
}

TEST_CASE("PS-M4 ids 0, 3, 4 of the reference table") {
  auto table = five_rows();
  CHECK(embedding_lookup(ids_of({0, 3, 4}), table.form(), table.gather_by_shard())
        == floats({3, 2}, {1, 2, 7, 8, 9, 10}));
}

TEST_CASE("PS-M6 combiners sum, mean and sqrtn, with and without weights") {
  auto table = five_rows();
  auto ids = bags({0, 2}, {1, 3});
  auto weights = floats({2}, {2, 0.5f});
  auto combine = [&](combiner how, const tensor& w) {
    return embedding_lookup_sparse(ids, w, table.form(), table.gather(), {.how = how});
  };
  // Rows 1 and 3 are [3,4] and [7,8].
  check_near(combine(combiner::sum, weights), floats({1, 2}, {9.5f, 12}));
  check_near(combine(combiner::mean, weights), floats({1, 2}, {9.5f / 2.5f, 12 / 2.5f}));
  const auto root = std::sqrt(4.25f);
  check_near(combine(combiner::sqrtn, weights), floats({1, 2}, {9.5f / root, 12 / root}));
  check_near(combine(combiner::sum, {}), floats({1, 2}, {10, 12}));
  check_near(combine(combiner::mean, {}), floats({1, 2}, {5, 6}));
  const auto root2 = std::sqrt(2.0f);
  check_near(combine(combiner::sqrtn, {}), floats({1, 2}, {10 / root2, 12 / root2}));
  auto by_default = embedding_lookup_sparse(ids, weights, table.form(), table.gather());
  CHECK(by_default == combine(combiner::mean, weights));
}

TEST_CASE("PS-M6 another combiner name is refused; dense ids and weights of another form too") {
  CHECK(*combiner_from_name("sum") == combiner::sum);
  CHECK(*combiner_from_name("mean") == combiner::mean);
  CHECK(*combiner_from_name("sqrtn") == combiner::sqrtn);
  auto other = combiner_from_name("max");
  REQUIRE_FALSE(other);
  CHECK(says(other.error(), "\"max\""));
  static_assert(!std::is_convertible_v<tensor, sparse_ids>);
  auto table = five_rows();
  auto ids = bags({0, 2}, {1, 3});
  auto look = [&](const sparse_ids& x, const tensor& weights) {
    return failure_of(
             [&] { (void)embedding_lookup_sparse(x, weights, table.form(), table.gather()); })
      .code;
  };
  CHECK(look(ids, floats({1}, {1})) == errc::shape_mismatch);
  CHECK(look(ids, ids_of({1, 1})) == errc::dtype_mismatch);
  auto wrong = ids;
  wrong.dense_shape = {2};
  CHECK(look(wrong, {}) == errc::shape_mismatch);
  wrong = ids;
  wrong.dense_shape = {1, 1};
  CHECK(look(wrong, {}) == errc::out_of_range);
  wrong = ids;
  wrong.values = ids_of({1, 2, 3});
  CHECK(look(wrong, {}) == errc::shape_mismatch);
  wrong.values = floats({2}, {1, 2});
  CHECK(look(wrong, {}) == errc::dtype_mismatch);
  CHECK(says(failure_of([] { (void)bags({0, 3}, {1, 2}); }), "[0, 3]"));
  CHECK(says(failure_of([] { (void)bags({0, 2, 1}, {1}); }), "must ascend"));
  CHECK(says(failure_of([] { (void)bags({}, {}); }), "[]"));
}

TEST_CASE("PS-M6 an empty bag is zeros, and weights that cancel give zeros instead of NaN") {
  auto table = five_rows();
  auto x = embedding_lookup_sparse(bags({0, 0, 1, 1}, {4}), {}, table.form(), table.gather());
  CHECK(x == floats({3, 2}, {0, 0, 9, 10, 0, 0}));
  auto cancelled = embedding_lookup_sparse(bags({0, 2}, {0, 1}), floats({2}, {1, -1}), table.form(),
                                           table.gather());
  CHECK(cancelled == floats({1, 2}, {0, 0}));
}

TEST_CASE("PS-M7 negative ids and entries without positive weight are dropped") {
  auto table = five_rows();
  auto ids = bags({0, 2, 3, 4}, {0, -1, 4, 1});
  auto weights = floats({4}, {1, 1, -1, 1});
  auto x = safe_embedding_lookup_sparse(ids, weights, table.form(), table.gather());
  CHECK(x == floats({3, 2}, {1, 2, 0, 0, 3, 4}));
  auto zero = safe_embedding_lookup_sparse(ids, floats({4}, {1, 1, 0, 1}), table.form(),
                                           table.gather(), {.how = combiner::sqrtn});
  CHECK(zero == x);
  CHECK(table.asked_unique.front() == ints{0, 1});
}

TEST_CASE("PS-M7 a bag left empty gives the default id's row") {
  auto table = five_rows();
  auto ids = bags({0, 2, 3, 4, 4}, {0, -1, 4, 1});
  auto weights = floats({4}, {1, 1, -1, 3});
  for (auto how : {combiner::mean, combiner::sqrtn}) {
    auto x =
      safe_embedding_lookup_sparse(ids, weights, table.form(), table.gather(), {.how = how}, 3);
    check_near(x, floats({4, 2}, {1, 2, 7, 8, 3, 4, 7, 8}));
  }
  auto bad = failure_of(
    [&] { (void)safe_embedding_lookup_sparse(ids, weights, table.form(), table.gather(), {}, 5); });
  CHECK(says(bad, "id 5 of 5 rows"));
}

TEST_CASE("PS-M7 a sum keeps entries without positive weight") {
  auto table = five_rows();
  auto ids = bags({0, 2}, {4, -1});
  auto x = safe_embedding_lookup_sparse(ids, floats({2}, {-1, 1}), table.form(), table.gather(),
                                        {.how = combiner::sum});
  CHECK(x == floats({1, 2}, {-9, -10}));
}

TEST_CASE("PS-M8 rows longer than max_norm are scaled to it before they are combined") {
  fake_backend table{floats({3, 2}, {3, 4, 0.3f, 0.4f, 0, 0}), {}, {}};
  auto ids = bags({0, 2}, {0, 1});
  auto x = embedding_lookup_sparse(ids, {}, table.form(), table.gather(),
                                   {.how = combiner::sum, .max_norm = 1.0f});
  check_near(x, floats({1, 2}, {0.9f, 1.2f}));
  auto dense = embedding_lookup(ids_of({0, 1, 2}), table.form(), table.gather(), 1.0f);
  check_near(dense, floats({3, 2}, {0.6f, 0.8f, 0.3f, 0.4f, 0, 0}));
  CHECK(table.values == floats({3, 2}, {3, 4, 0.3f, 0.4f, 0, 0}));
  for (float bad : {-1.0f, std::numeric_limits<float>::quiet_NaN()})
    CHECK(failure_of([&] {
            (void)embedding_lookup(ids_of({0}), table.form(), table.gather(), bad);
          }).code
          == errc::invalid_argument);
}

TEST_CASE("PS-M9 a table without rows is refused, and so is one of integers to combine") {
  fake_backend none{tensor::scalar(1.0f), {}, {}};
  auto why = failure_of([&] { (void)embedding_lookup(ids_of({0}), none.form(), none.gather()); });
  CHECK(why.code == errc::invalid_argument);
  fake_backend whole{tensor::of<std::int64_t>({2, 1}, {1, 2}), {}, {}};
  auto combined = failure_of([&] {
    (void)embedding_lookup_sparse(bags({0, 1}, {0}), {}, whole.form(), whole.gather());
  });
  CHECK(combined.code == errc::dtype_mismatch);
  auto plain = embedding_lookup(ids_of({1}), whole.form(), whole.gather());
  CHECK(plain == tensor::of<std::int64_t>({1, 1}, {2}));
}

TEST_CASE("PS-M9 half-precision tables are combined in f32 and rounded once") {
  // 1 and 2^-9 and 2^-9: in bf16 each sum would fall back to 1; in f32 the total 1 + 2^-8 + ...
  // survives.
  for (auto type : {dtype::bf16, dtype::f16}) {
    const float small = type == dtype::bf16 ? 1.0f / 256 : 1.0f / 2048;
    fake_backend table{tensor{type, {2, 1}}, {}, {}};
    auto* bits = reinterpret_cast<std::uint16_t*>(table.values.mutable_bytes().data());
    auto narrow = type == dtype::bf16 ? kernels::bf16_from_f32 : kernels::f16_from_f32;
    auto wide = type == dtype::bf16 ? kernels::f32_from_bf16 : kernels::f32_from_f16;
    bits[0] = narrow(1.0f);
    bits[1] = narrow(small);
    CHECK(wide(narrow(1.0f + small)) == 1.0f);
    auto x = embedding_lookup_sparse(bags({0, 3}, {0, 1, 1}), {}, table.form(), table.gather(),
                                     {.how = combiner::sum});
    REQUIRE(x.type() == type);
    std::uint16_t got = 0;
    std::memcpy(&got, x.bytes().data(), 2);
    CHECK(wide(got) == 1.0f + 2 * small);
    auto clipped = embedding_lookup(ids_of({0}), table.form(), table.gather(), 0.5f);
    REQUIRE(clipped.type() == type);
    std::memcpy(&got, clipped.bytes().data(), 2);
    CHECK(wide(got) == 0.5f);
  }
}

TEST_CASE("PS-M10 a table whose shards are not a div split is refused, not read wrongly") {
  auto table = five_rows();
  table.shards = {{0, 1, 0}, {1, 4, 1}, {4, 5, 2}};
  auto why = failure_of([&] { (void)embedding_lookup(ids_of({1}), table.form(), table.gather()); });
  CHECK(why.code == errc::mismatch);
  CHECK(says(why, "shard 0 has rows [0, 1)"));
  CHECK(failure_of([&] { (void)table.gather_by_shard(); }).code == errc::mismatch);
  table = five_rows();
  for (std::int64_t id : {-1, 5}) {
    why = failure_of([&] {
      (void)embedding_lookup(ids_of({0, id}), table.form(), table.gather());
    });
    CHECK(why.code == errc::out_of_range);
    CHECK(says(why, "position 1: id " + std::to_string(id) + " of 5 rows"));
  }
  auto sparse = failure_of([&] {
    (void)embedding_lookup_sparse(bags({0, 1}, {-1}), {}, table.form(), table.gather());
  });
  CHECK(sparse.code == errc::out_of_range);
}

TEST_CASE("PS-M11 each id is asked for once") {
  auto table = five_rows();
  auto ids = bags({0, 3, 5}, {4, 0, 4, 0, 4});
  auto x = embedding_lookup_sparse(ids, {}, table.form(), table.gather(), {.how = combiner::sum});
  CHECK(x == floats({2, 2}, {19, 22, 10, 12}));
  CHECK(table.asked_unique == std::vector<ints>{{0, 4}});
  (void)embedding_lookup(ids_of({3, 1, 3}), table.form(), table.gather());
  CHECK(table.asked_unique.back() == ints{1, 3});
}

TEST_CASE("PS-M12 the gradient of a look-up is sparse, and rows asked for twice get the sum") {
  auto ids = tensor::of<std::int64_t>({2, 2}, {4, 0, 4, 2});
  auto upstream = floats({2, 2, 2}, {1, 2, 10, 20, 3, 4, 5, 6});
  auto gradient = embedding_lookup_gradient(ids, upstream);
  CHECK(gradient.indices == ids_of({0, 2, 4}));
  CHECK(gradient.values == floats({3, 2}, {10, 20, 5, 6, 4, 6}));
  auto why = failure_of([&] { (void)embedding_lookup_gradient(ids, floats({2, 1}, {1, 2})); });
  CHECK(why.code == errc::shape_mismatch);
  auto typed = failure_of([&] { (void)embedding_lookup_gradient(ids_of({0}), ids_of({1})); });
  CHECK(typed.code == errc::dtype_mismatch);
}

TEST_CASE("PS-M12 the gradient of a sparse look-up is the one that finite differences show") {
  auto table = five_rows();
  auto ids = bags({0, 3, 3, 5}, {1, 4, 1, 0, 4});
  auto weights = floats({5}, {2, 0.5f, 1, 3, 1.5f});
  auto upstream = floats({3, 2}, {1, -2, 100, 100, 0.5f, 4});
  for (auto how : {combiner::sum, combiner::mean, combiner::sqrtn}) {
    auto gradient = embedding_lookup_sparse_gradient(ids, weights, upstream, how);
    REQUIRE(gradient.indices == ids_of({0, 1, 4}));
    // Loss: sum of upstream * output; the look-up is linear, so a step of 1 is exact up to
    // rounding.
    auto loss = [&] {
      auto x = embedding_lookup_sparse(ids, weights, table.form(), table.gather(), {.how = how});
      double out = 0;
      for (std::size_t i = 0; i < 6; ++i)
        out += static_cast<double>(x.as<float>()[i]) * upstream.as<float>()[i];
      return out;
    };
    const auto before = loss();
    for (std::size_t row = 0; row < 3; ++row)
      for (std::size_t col = 0; col < 2; ++col) {
        auto id = static_cast<std::size_t>(gradient.indices.as<std::int64_t>()[row]);
        auto& element = table.values.mutable_as<float>()[id * 2 + col];
        element += 1;
        CHECK(gradient.values.as<float>()[row * 2 + col]
              == doctest::Approx(loss() - before).epsilon(1e-4));
        element -= 1;
      }
  }
}

TEST_CASE("sparse look-ups take bags of more axes and entries in any order") {
  auto table = five_rows();
  sparse_ids ids{
    tensor::of<std::int64_t>({3, 3}, {1, 1, 0, 0, 0, 5, 1, 1, 2}), ids_of({4, 0, 2}), {2, 2, 6}};
  auto x = embedding_lookup_sparse(ids, {}, table.form(), table.gather(), {.how = combiner::sum});
  CHECK(x == floats({2, 2, 2}, {1, 2, 0, 0, 0, 0, 14, 16}));
}

TEST_CASE("look-ups take f64 tables and tables of numbers, and check what the gather returns") {
  fake_backend table{tensor::vector<double>({1.5, 2.5}), {}, {}};
  auto x = embedding_lookup_sparse(bags({0, 2}, {0, 1}), {}, table.form(), table.gather());
  CHECK(x == tensor::vector<double>({2.0}));
  auto form = table.form();
  auto short_answer = [](auto) { return tensor::vector<double>({1.0}); };
  CHECK(failure_of([&] {
          (void)embedding_lookup(ids_of({0, 1}), form, short_answer);
        }).code
        == errc::shape_mismatch);
  auto other_type = [](auto) { return tensor::vector<float>({1, 2}); };
  CHECK(failure_of([&] {
          (void)embedding_lookup(ids_of({0, 1}), form, other_type);
        }).code
        == errc::dtype_mismatch);
  variable_spec spec;
  spec.shape = {4, 2};
  spec.shards = {{0, 2, 0}, {2, 4, 1}};
  CHECK(table_of(spec).shards == spec.shards);
  CHECK(table_of(spec).shape == spec.shape);
}
