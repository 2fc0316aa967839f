#include <cmath>

#include <doctest/doctest.h>

#include "cluster_support.hpp"

// Variables cut over servers, through the public calls, in the program and inside steps. Plans
// without a cluster are in partitioner_test, slicing_test, row_owner_test and embedding_test.
namespace {

using namespace troupe;
using namespace troupe::test;

std::vector<tensor> blocks_of(const variable& v) {
  std::vector<tensor> out;
  for (const auto& b : v.read_blocks().blocks)
    out.push_back(b.values);
  return out;
}

/// The 8 rows [1, 2] ... [15, 16] in shards of 3, 3, 2.
variable eight_rows(small_cluster& c) {
  return c.strategy.create_variable({.name = "rows", .initial = counted(8, 2, 1)});
}

tensor rows_of(std::vector<float> numbers) {
  std::vector<float> out;
  for (float n : numbers) {
    out.push_back(2 * n + 1);
    out.push_back(2 * n + 2);
  }
  return floats({static_cast<std::int64_t>(numbers.size()), 2}, std::move(out));
}

void push_embedding(worker_context& ctx, const variable& table, const tensor& where) {
  auto got = embedding_lookup(table, where);
  tensor upstream{dtype::f32, got.shape()};
  for (float& x : upstream.mutable_as<float>())
    x = 1.0f;
  ctx.apply(table, embedding_lookup_gradient(where, upstream));
}
TROUPE_FUNCTION(push_embedding);

} // namespace

TEST_CASE("PS-H9, PS-H10 a 5 x 2 value in 2 shards: three rows on ps:0, two on ps:1") {
  auto c = cut(2);
  auto v = c.strategy.create_variable({.name = "w", .initial = counted(5, 2)});
  REQUIRE(v.is_sharded());
  auto parts = blocks_of(v);
  REQUIRE(parts.size() == 2);
  CHECK(parts[0] == counted(3, 2));
  CHECK(parts[1] == counted(2, 2, 6));
  CHECK(servers_of(v) == std::vector<std::uint32_t>{0, 1});
  CHECK(v.spec().shard_name(1) == "w/part_1"); // PS-H8
}

TEST_CASE("PS-H6, PS-T-S4 ten ids in 4 shards on 2 servers; the next variable goes to ps:0") {
  auto c = cut(4);
  auto v =
    c.strategy.create_variable({.initial = tensor::vector<float>({0, 1, 2, 3, 4, 5, 6, 7, 8, 9})});
  auto parts = blocks_of(v);
  REQUIRE(parts.size() == 4);
  CHECK(values_of(parts[0]) == std::vector<float>{0, 1, 2});
  CHECK(values_of(parts[3]) == std::vector<float>{8, 9});
  CHECK(servers_of(v) == std::vector<std::uint32_t>{0, 1, 0, 1});
  CHECK(servers_of(c.strategy.create_variable({.shape = {}})) == std::vector<std::uint32_t>{0});
}

TEST_CASE("PS-H7 three shards on two servers; the next variable starts at ps:1") {
  auto c = cut(3);
  CHECK(servers_of(c.strategy.create_variable({.shape = {9}}))
        == std::vector<std::uint32_t>{0, 1, 0});
  CHECK(servers_of(c.strategy.create_variable({.shape = {}})) == std::vector<std::uint32_t>{1});
}

TEST_CASE("PS-H1, PS-H3 what is cut: by rank and rows") {
  auto c = cut(4);
  CHECK_FALSE(c.strategy.create_variable({.shape = {}}).is_sharded());
  CHECK(c.strategy.create_variable({.shape = {3}}).spec().shards.size() == 3);
  CHECK_FALSE(c.strategy.create_variable({.shape = {1, 100}}).is_sharded());
}

TEST_CASE("PS-H2 a partitioner that splits another axis is refused, naming it") {
  small_cluster c{{}, {.partitioner = [](const shape_t&, dtype) {
                    return std::vector<std::int64_t>{2, 2, 1};
                  }}};
  auto why = failure_of([&] { c.strategy.create_variable({.name = "w", .shape = {4, 4, 4}}); });
  CHECK(why.code == errc::invalid_argument);
  CHECK(says(why, "partitioner"));
  CHECK(c.strategy.variables().empty());
}

TEST_CASE(
  "PS-H11 an initializer function is called once a shard, with the shard's shape and first row") {
  auto c = cut(2);
  std::vector<std::pair<shape_t, std::int64_t>> calls;
  auto v = c.strategy.create_variable(
    {.name = "eye", .shape = {4, 4}, .initial = [&](const shape_t& shape, std::int64_t begin) {
       calls.emplace_back(shape, begin);
       auto out = tensor::zeros(dtype::f32, shape);
       for (std::int64_t i = 0; i < shape[0]; ++i)
         out.mutable_as<float>()[static_cast<std::size_t>(i * 4 + begin + i)] = 1;
       return out;
     }});
  CHECK(calls == std::vector<std::pair<shape_t, std::int64_t>>{{{2, 4}, 0}, {{2, 4}, 2}});
  auto rule =
    c.strategy.create_variable({.name = "by rule", .shape = {4, 4}, .initial = identity()});
  CHECK(v.read() == rule.read());
  CHECK(blocks_of(v)[1] == floats({2, 4}, {0, 0, 1, 0, 0, 0, 0, 1}));

  auto why = failure_of([&] {
    c.strategy.create_variable(
      {.name = "odd", .shape = {4, 4}, .initial = [](const shape_t&, std::int64_t) {
         return counted(4, 4);
       }});
  });
  CHECK(why.code == errc::shape_mismatch);
  CHECK(says(why, "[2, 4]"));
  CHECK(says(why, "[4, 4]"));
}

TEST_CASE("PS-H12, PS-H13 a whole value is evaluated once and sliced; shape and type follow it") {
  auto c = cut(2);
  auto v = c.strategy.create_variable({.initial = tensor::vector<std::int64_t>({0, 1, 2, 3})});
  CHECK(v.type() == dtype::i64);
  CHECK(v.shape() == shape_t{4});
  auto parts = blocks_of(v);
  REQUIRE(parts.size() == 2);
  CHECK(parts[0] == ids_of({0, 1}));
  CHECK(parts[1] == ids_of({2, 3}));
}

TEST_CASE("PS-H15 seeded rules differ from shard to shard, and don't depend on the cut") {
  tensor first;
  for (std::int64_t shards : {1, 2, 3}) {
    auto c = cut(shards);
    auto v = c.strategy.create_variable(
      {.name = "w", .shape = {6, 3}, .initial = random_normal(0, 1, 11)});
    auto whole = v.read();
    if (shards == 2)
      CHECK_FALSE(whole.rows(0, 3) == whole.rows(3, 6));
    if (first.defined())
      CHECK(whole == first);
    first = whole;
  }
}

TEST_CASE("PS-H16 variables first made inside a step are cut as well") {
  auto c = cut(2);
  auto shards = c.coordinator.schedule([](worker_context& ctx) {
    auto v = ctx.get_or_create({.name = "inside", .shape = {5, 2}});
    return v.spec().shards.size();
  });
  CHECK(shards.fetch() == 2);
  REQUIRE(c.strategy.variables().size() == 1);
  CHECK(servers_of(c.strategy.variables()[0]) == std::vector<std::uint32_t>{0, 1});
}

TEST_CASE("PS-G3, PS-G4, PS-G14 shape, type and concatenation of the shards") {
  auto c = cut(3, 3);
  auto v =
    c.strategy.create_variable({.name = "w", .initial = floats({4, 2}, {0, 0, 1, 1, 2, 2, 3, 3})});
  CHECK(v.shape() == shape_t{4, 2});
  CHECK(v.type() == dtype::f32);
  CHECK(v.read() == floats({4, 2}, {0, 0, 1, 1, 2, 2, 3, 3}));
  auto blocks = v.read_blocks().blocks;
  REQUIRE(blocks.size() == 3);
  CHECK(blocks[0].row_end == 2);
  CHECK(blocks[1].row_begin == 2);
  CHECK(blocks[2].values == floats({1, 2}, {3, 3}));
}

TEST_CASE("PS-G5, PS-G6, PS-G7 assign, assign_add and assign_sub reach every shard and chain") {
  auto c = cut(3);
  auto v =
    c.strategy.create_variable({.name = "w", .initial = floats({4, 2}, {0, 0, 1, 1, 2, 2, 3, 3})});
  v.assign(floats({4, 2}, {4, 4, 5, 5, 6, 6, 7, 7}));
  CHECK(v.read() == floats({4, 2}, {4, 4, 5, 5, 6, 6, 7, 7}));
  v.assign(floats({4, 2}, {0, 0, 1, 1, 2, 2, 3, 3}))
    .assign_add(floats({4, 2}, {1, 1, 1, 1, 2, 2, 2, 2}));
  CHECK(v.read() == floats({4, 2}, {1, 1, 2, 2, 4, 4, 5, 5}));
  v.assign_sub(floats({4, 2}, {1, 1, 1, 1, 3, 3, 5, 5}));
  CHECK(v.read() == floats({4, 2}, {0, 0, 1, 1, 1, 1, 0, 0}));
}

TEST_CASE("PS-G9 a value of another number of rows is refused, too many as well as too few") {
  auto c = cut(2);
  auto v = c.strategy.create_variable({.name = "w", .initial = counted(4, 2)});
  CHECK(failure_of([&] { v.assign(counted(5, 2)); }).code == errc::shape_mismatch);
  CHECK(failure_of([&] { v.assign(counted(3, 2)); }).code == errc::shape_mismatch);
  CHECK(v.read() == counted(4, 2));
}

TEST_CASE("PS-G10 operators act on the whole") {
  auto c = cut(2);
  auto a = c.strategy.create_variable({.initial = tensor::vector<float>({1, 2})});
  auto b = c.strategy.create_variable({.initial = tensor::vector<float>({1, 2})});
  CHECK(values_of(a + b) == std::vector<float>{2, 4});
  CHECK(values_of(a - b) == std::vector<float>{0, 0});
  CHECK(values_of(a * b) == std::vector<float>{1, 4});
  CHECK(values_of(a / tensor::vector<float>({2, 4})) == std::vector<float>{0.5f, 0.5f});
  CHECK(equal(a, b) == tensor::vector<std::uint8_t>({1, 1}));
}

TEST_CASE("PS-G13, PS-H17 a dense gradient is split by shard and each shard runs its optimizer") {
  auto c = cut(3);
  auto v =
    c.strategy.create_variable({.name = "w", .initial = counted(4, 2), .optimizer = sgd{1.0f}});
  auto step = [](worker_context& ctx, const variable& x) { ctx.apply(x, counted(4, 2)); };
  c.coordinator.schedule(step, v).fetch();
  CHECK(v.read() == tensor::zeros(dtype::f32, {4, 2}));
  for (auto& b : v.read_blocks().blocks)
    CHECK(b.version == v.read_blocks().blocks[0].version);
}

TEST_CASE("PS-SLICE-ROWS, PS-SLICE-BACKWARD, PS-SLICE-EMPTY rows of a variable in shards 3, 3, 2") {
  auto c = cut(3);
  auto v = eight_rows(c);
  using s = troupe::slice;
  CHECK(v.slice({s{}}) == rows_of({0, 1, 2, 3, 4, 5, 6, 7}));
  CHECK(v.slice({s{5, -1}}) == rows_of({5, 6}));
  CHECK(v.slice({s{1, {}, 6}}) == rows_of({1, 7}));
  CHECK(v.slice({s{2, 7, 3}}) == rows_of({2, 5}));
  CHECK(v.slice({s{{}, {}, -1}}) == rows_of({7, 6, 5, 4, 3, 2, 1, 0}));
  CHECK(v.slice({s{2, -10, -1}}) == rows_of({2, 1, 0}));
  CHECK(v.slice({s{7, 1, -4}}) == rows_of({7, 3}));
  CHECK(v.slice({s{5, 3}}).shape() == shape_t{0, 2});
  CHECK(v.slice({s{-10, {}, 3}}) == rows_of({0, 3, 6})); // PS-X4: clamped
  CHECK(v.slice({s{8, {}, -2}}) == rows_of({7, 5, 3, 1}));
}

TEST_CASE(
  "PS-SLICE-AXES, PS-SLICE-ELLIPSIS, PS-SLICE-NEWAXIS, PS-SLICE-MASK, PS-X1 the other axes") {
  auto c = cut(3);
  auto v = eight_rows(c);
  using s = troupe::slice;
  CHECK(values_of(v.slice({s{}, 0})) == std::vector<float>{1, 3, 5, 7, 9, 11, 13, 15});
  CHECK(values_of(v.slice({2})) == std::vector<float>{5, 6});
  CHECK(v.slice({2, 1}).item<float>() == 6.0f);
  CHECK(values_of(v.slice({-2})) == std::vector<float>{13, 14});
  CHECK(v.slice({ellipsis}) == v.read());
  CHECK(v.slice({new_axis}).shape() == shape_t{1, 8, 2});
  tensor mask{dtype::u8, {8, 2}};
  for (std::size_t i = 0; i < 16; ++i)
    mask.mutable_as<std::uint8_t>()[i] = i >= 10;
  CHECK(values_of(v.slice({boolean_mask{mask}})) == std::vector<float>{11, 12, 13, 14, 15, 16});
  CHECK(failure_of([&] { v.slice({100}); }).code == errc::out_of_range);
  CHECK(failure_of([&] { v.slice({-100}); }).code == errc::out_of_range);
  CHECK(failure_of([&] { v.slice({s{{}, {}, 0}}); }).code == errc::invalid_argument); // PS-X2
}

TEST_CASE("PS-X3 a slice is a value: nothing is assigned through it") {
  auto c = cut(3);
  auto v = eight_rows(c);
  auto part = v.slice({troupe::slice{0, 2}});
  v.assign_add(floats({8, 2}, std::vector<float>(16, 1.0f)));
  CHECK(part == rows_of({0, 1}));
  auto assigns_slice = []<class V>(std::type_identity<V>) {
    return requires(V x, tensor t) { x.slice_assign({0}, t); }
    || requires(V x, tensor t) { x[0] = t; };
  };
  static_assert(!assigns_slice(std::type_identity<variable>{}));
}

TEST_CASE("PS-Q1 scatters by global rows equal those on an uncut variable, in program and step") {
  auto whole = cut(1);
  auto parts = cut(3);
  const auto start = counted(30, 1, 1);
  const auto rows = ids_of({0, 10, 12, 21, 22, 10});
  const auto values = floats({6, 1}, {2, 3, 4, 5, 6, 7});
  auto each = [&](auto change) {
    auto a = whole.strategy.create_variable({.initial = start});
    auto b = parts.strategy.create_variable({.initial = start});
    change(a);
    change(b);
    CHECK(b.spec().shards.size() == 3);
    CHECK(a.read() == b.read());
    CHECK_FALSE(a.read() == start);
  };
  each([&](const variable& v) { v.scatter_add(rows, values); });
  each([&](const variable& v) { v.scatter_sub(rows, values); });
  each([&](const variable& v) { v.scatter_mul(rows, values); });
  each([&](const variable& v) { v.scatter_div(rows, values); });
  each([&](const variable& v) { v.scatter_min(rows, values); });
  each([&](const variable& v) { v.scatter_max(rows, values); });
  each([&](const variable& v) { v.scatter_update(rows, values); });

  auto v = parts.strategy.create_variable({.initial = start});
  parts.coordinator
    .schedule([](worker_context&, const variable& x, const tensor& i,
                 const tensor& y) { x.scatter_add(i, y); },
              v, rows, values)
    .fetch();
  auto expected = whole.strategy.create_variable({.initial = start});
  expected.scatter_add(rows, values);
  CHECK(v.read() == expected.read());
}

TEST_CASE("PS-Q3, PS-Q5 indices of another rank or out of range are refused and change nothing") {
  auto c = cut(5);
  auto v = c.strategy.create_variable({.name = "w", .initial = counted(13, 1)});
  auto bad = [&](const tensor& rows, const tensor& values) {
    auto why = failure_of([&] { v.scatter_add(rows, values); });
    CHECK(v.read() == counted(13, 1));
    return why;
  };
  CHECK(bad(ids_of({0, 1}).reshaped({1, 2}), floats({1, 2, 1}, {1, 1})).code != errc::none);
  auto high = bad(ids_of({0, 13}), floats({2, 1}, {1, 1}));
  CHECK(high.code == errc::out_of_range);
  CHECK(says(high, "13"));
  CHECK(bad(ids_of({-1}), floats({1, 1}, {1})).code == errc::out_of_range);
  CHECK(bad(ids_of({0}), floats({1, 2}, {1, 1})).code == errc::shape_mismatch);
}

TEST_CASE("PS-Q6 gathered rows come in the order asked, in the shape of the indices") {
  auto c = cut(3);
  auto v = c.strategy.create_variable({.initial = counted(30, 1)});
  CHECK(values_of(v.gather(ids_of({12, 0, 29, 12}))) == std::vector<float>{12, 0, 29, 12});
  CHECK(v.gather(ids_of({12, 0, 29, 12}).reshaped({2, 2})).shape() == shape_t{2, 2, 1});
  auto inside = c.coordinator.schedule(
    [](worker_context&, const variable& x, const tensor& i) { return x.gather(i); }, v,
    ids_of({25, 3}));
  CHECK(values_of(inside.fetch()) == std::vector<float>{25, 3});
}

TEST_CASE("PS-M3, PS-M4 a look-up: order and shape of the ids, duplicates allowed") {
  auto c = cut(3);
  auto table = c.strategy.create_variable({.initial = counted(5, 2, 1)});
  CHECK(embedding_lookup(table, ids_of({0, 3, 4})) == floats({3, 2}, {1, 2, 7, 8, 9, 10}));
  CHECK(embedding_lookup(table, ids_of({4, 0, 4, 4}).reshaped({2, 2}))
        == floats({2, 2, 2}, {9, 10, 1, 2, 9, 10, 9, 10}));
  CHECK(failure_of([&] { embedding_lookup(table, ids_of({5})); }).code == errc::out_of_range);
}

TEST_CASE("PS-M6, PS-M7, PS-M8 sparse look-ups on a variable") {
  auto c = cut(3);
  auto table = c.strategy.create_variable({.initial = counted(5, 2, 1)});
  auto at = [](std::initializer_list<std::int64_t> where, std::initializer_list<std::int64_t> what,
               shape_t dense) {
    auto n = static_cast<std::int64_t>(what.size());
    return sparse_ids{tensor::vector<std::int64_t>(where).reshaped({n, 2}),
                      tensor::vector<std::int64_t>(what), std::move(dense)};
  };
  auto mean = embedding_lookup_sparse(table, at({0, 0, 0, 1}, {1, 3}, {1, 2}),
                                      tensor::vector<float>({2, 0.5f}));
  CHECK(mean.as<float>()[0] == doctest::Approx((2 * 3 + 0.5 * 7) / 2.5));
  auto safe = safe_embedding_lookup_sparse(
    table, at({0, 0, 0, 1, 1, 0, 1, 1, 2, 0}, {0, -1, -1, -1, 1}, {3, 2}), tensor{});
  CHECK(safe == floats({3, 2}, {1, 2, 0, 0, 3, 4}));
  auto clipped = embedding_lookup(table, ids_of({1}), 1.0f);
  CHECK(std::hypot(clipped.as<float>()[0], clipped.as<float>()[1]) == doctest::Approx(1.0));
}

TEST_CASE("PS-M12 the gradient of a look-up is sparse and applied by shard; other rows stay") {
  auto c = cut(3);
  auto table =
    c.strategy.create_variable({.name = "table", .initial = counted(5, 2), .optimizer = sgd{1.0f}});
  c.coordinator.schedule(push_embedding, table, ids_of({4, 0, 4})).fetch();
  CHECK(table.read() == floats({5, 2}, {-1, 0, 2, 3, 4, 5, 6, 7, 6, 7}));
}
