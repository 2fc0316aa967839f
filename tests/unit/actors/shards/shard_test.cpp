// Goal: a shard applies each operation once, whole or not at all, and hands out versions that never
// change.
#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include <troupe/actors/shards/detail/kernel_specs.hpp>
#include <troupe/actors/shards/shard.hpp>

using namespace troupe;

namespace {

variable_spec make_spec(shape_t shape, std::vector<std::int64_t> rows, dtype type = dtype::f32) {
  variable_spec out;
  out.id = static_cast<variable_id>(7);
  out.name = "w";
  out.type = type;
  out.shape = std::move(shape);
  std::int64_t at = 0;
  for (auto n : rows) {
    out.shards.push_back({at, at + n, 0});
    at += n;
  }
  return out;
}

std::shared_ptr<shard> make_shard(variable_spec spec, std::uint32_t index = 0) {
  return shard::create(std::make_shared<const variable_spec>(std::move(spec)),
                       static_cast<shard_index>(index))
    .value_or_throw();
}

variable_spec with_optimizer(variable_spec spec, optimizer_kind kind, float rate) {
  spec.optimizer.kind = kind;
  spec.optimizer.learning_rate.initial = rate;
  return spec;
}

mutation_piece piece(std::uint64_t seq, mutation_kind kind, tensor values, tensor indices = {},
                     std::uint32_t op = 0) {
  mutation_piece out;
  out.variable = static_cast<variable_id>(7);
  out.key = {{static_cast<term_no>(1), seq}, static_cast<op_no>(op)};
  out.kind = kind;
  out.values = std::move(values);
  out.indices = std::move(indices);
  return out;
}

mutation_answer must(shard& x, const mutation_piece& p) { return x.mutate(p).value_or_throw(); }

std::string refusal(shard& x, const mutation_piece& p, errc code) {
  auto answer = x.mutate(p);
  REQUIRE(!answer);
  CHECK(answer.error().code == code);
  CHECK(answer.error().text.find("'w'") != std::string::npos);
  return answer.error().text;
}

bool near(const tensor& x, std::vector<float> expected) {
  auto got = x.as<float>();
  if (got.size() != expected.size())
    return false;
  for (std::size_t i = 0; i < got.size(); ++i)
    if (std::abs(got[i] - expected[i]) > 1e-6f)
      return false;
  return true;
}

} // namespace

TEST_CASE("PS-H11 shard: an identity of 4x4 in two shards starts as rows 0-1 and 2-3") {
  auto spec = make_spec({4, 4}, {2, 2});
  spec.initializer.kind = initializer_kind::identity;
  CHECK(make_shard(spec, 0)->read().values == tensor::of<float>({2, 4}, {1, 0, 0, 0, 0, 1, 0, 0}));
  CHECK(make_shard(spec, 1)->read().values == tensor::of<float>({2, 4}, {0, 0, 1, 0, 0, 0, 0, 1}));
}

TEST_CASE("shard: any split of a random variable starts with the same rows") {
  for (auto kind :
       {initializer_kind::uniform, initializer_kind::normal, initializer_kind::truncated_normal,
        initializer_kind::glorot_uniform, initializer_kind::he_normal}) {
    auto whole = make_spec({7, 3}, {7});
    whole.initializer = {kind, 0.0f, 1.0f, 42};
    auto split = make_spec({7, 3}, {3, 2, 2});
    split.initializer = whole.initializer;
    auto all = make_shard(whole)->read().values;
    std::vector<tensor> parts;
    for (std::uint32_t i = 0; i < 3; ++i)
      parts.push_back(make_shard(split, i)->read().values);
    CHECK(concatenate(parts) == all);
    CHECK(all.as<float>()[0] != all.as<float>()[1]);
  }
}

TEST_CASE("shard: each type starts as its initializer says") {
  for (auto type : {dtype::u8, dtype::i8, dtype::i32, dtype::i64, dtype::f16, dtype::bf16,
                    dtype::f32, dtype::f64}) {
    auto values = make_shard(make_spec({2, 2}, {2}, type))->read().values;
    CHECK(values == tensor::zeros(type, {2, 2}));
  }
  auto spec = make_spec({2}, {2}, dtype::i64);
  spec.initializer = {initializer_kind::constant, 5.0f, 0.0f, 0};
  CHECK(make_shard(spec)->read().values == tensor::vector<std::int64_t>({5, 5}));
  CHECK(make_shard(make_spec({}, {1}))->read().values == tensor::scalar(0.0f));
}

TEST_CASE("shard: a specification that cannot be is refused and named") {
  auto text = [](variable_spec spec, std::uint32_t index = 0) {
    auto made = shard::create(std::make_shared<const variable_spec>(std::move(spec)),
                              static_cast<shard_index>(index));
    REQUIRE(!made);
    CHECK(made.error().code == errc::invalid_argument);
    return made.error().text;
  };
  CHECK(text(make_spec({4}, {3})).find("row 3 of 4") != std::string::npos);
  CHECK(text(make_spec({4}, {4}), 1).find("shard 1 of 1") != std::string::npos);
  CHECK(text(make_spec({4, -1}, {4})).find("[4, -1]") != std::string::npos);
  CHECK(text(with_optimizer(make_spec({4}, {4}, dtype::i32), optimizer_kind::sgd, 1)).find("i32")
        != std::string::npos);
  auto gap = make_spec({4}, {2, 2});
  gap.shards[1].row_begin = 3;
  CHECK(text(gap).find("begin at 2") != std::string::npos);
  auto bad = make_spec({4}, {4});
  bad.initializer.kind = static_cast<initializer_kind>(77);
  CHECK(text(bad).find("77") != std::string::npos);
  auto pieces = with_optimizer(make_spec({4}, {4}), optimizer_kind::sgd, 1);
  pieces.optimizer.learning_rate.kind = schedule_kind::piecewise_constant;
  pieces.optimizer.learning_rate.boundaries = {1, 2};
  pieces.optimizer.learning_rate.values = {1};
  CHECK(text(pieces).find("1 values for 2 boundaries") != std::string::npos);
}

TEST_CASE("shard: sgd subtracts rate times gradient, once for each operation") {
  auto x = make_shard(with_optimizer(make_spec({2}, {2}), optimizer_kind::sgd, 0.5f));
  auto p = piece(1, mutation_kind::apply, tensor::vector<float>({2, -4}));
  auto first = must(*x, p);
  CHECK(!first.duplicate);
  CHECK(first.version == 1);
  p.attempt = static_cast<attempt_no>(2);
  auto again = must(*x, p);
  CHECK(again.duplicate);
  CHECK(again.version == 1);
  CHECK(x->read().values == tensor::vector<float>({-1, 2}));
  p.at_least_once = true;
  CHECK(!must(*x, p).duplicate);
  CHECK(x->read().values == tensor::vector<float>({-2, 4}));
}

TEST_CASE("shard: momentum keeps a velocity, Nesterov looks ahead") {
  auto spec = with_optimizer(make_spec({1}, {1}), optimizer_kind::momentum, 0.1f);
  auto x = make_shard(spec);
  must(*x, piece(1, mutation_kind::apply, tensor::vector<float>({1})));
  must(*x, piece(2, mutation_kind::apply, tensor::vector<float>({1})));
  CHECK(near(x->state().slots.at(0), {-0.19f}));
  CHECK(near(x->read().values, {-0.29f}));
  spec.optimizer.nesterov = true;
  auto y = make_shard(spec);
  must(*y, piece(1, mutation_kind::apply, tensor::vector<float>({1})));
  CHECK(near(y->read().values, {-0.19f}));
}

TEST_CASE("shard: adagrad starts its accumulator as told") {
  auto spec = with_optimizer(make_spec({1}, {1}), optimizer_kind::adagrad, 0.1f);
  spec.optimizer.initial_accumulator = 0.5f;
  auto x = make_shard(spec);
  CHECK(x->state().slots.at(0) == tensor::vector<float>({0.5f}));
  must(*x, piece(1, mutation_kind::apply, tensor::vector<float>({2})));
  CHECK(near(x->state().slots.at(0), {4.5f}));
  CHECK(near(x->read().values, {-0.1f * 2 / (std::sqrt(4.5f) + 1e-7f)}));
}

TEST_CASE("shard: adam's t is the number of applied gradients, and no assignment moves it") {
  auto x = make_shard(with_optimizer(make_spec({2}, {2}), optimizer_kind::adam, 0.01f));
  float m = 0, v = 0, w = 0;
  for (std::uint64_t t = 1; t <= 5; ++t) {
    float g = static_cast<float>(t);
    must(*x, piece(t, mutation_kind::apply, tensor::vector<float>({g, -g})));
    must(*x, piece(t, mutation_kind::assign_add, tensor::vector<float>({0, 0}), {}, 1));
    m = 0.9f * m + 0.1f * g;
    v = 0.999f * v + 0.001f * g * g;
    auto rate = 0.01 * std::sqrt(1 - std::pow(0.999, t)) / (1 - std::pow(0.9, t));
    w -= static_cast<float>(rate) * m / (std::sqrt(v) + 1e-7f);
  }
  auto state = x->state();
  CHECK(state.applies == 5);
  CHECK(state.version == 10);
  CHECK(near(state.values, {w, -w}));
  CHECK(near(state.slots.at(0), {m, -m}));
  CHECK(near(state.slots.at(1), {v, v}));
}

TEST_CASE("shard: an f64 variable trains with each optimizer") {
  for (auto kind : {optimizer_kind::sgd, optimizer_kind::momentum, optimizer_kind::adagrad,
                    optimizer_kind::adam}) {
    auto x = make_shard(with_optimizer(make_spec({2}, {2}, dtype::f64), kind, 0.1f));
    must(*x, piece(1, mutation_kind::apply, tensor::vector<double>({1, -1})));
    CHECK(x->read().values.at<double>(0) < 0);
    CHECK(x->read().values.at<double>(1) > 0);
    CHECK(x->state().slots.size() == slot_count(kind));
  }
}

TEST_CASE(
  "shard: a sparse gradient gives its rows what a dense one would, rows that come twice are summed "
  "first") {
  for (auto kind : {optimizer_kind::sgd, optimizer_kind::momentum, optimizer_kind::adagrad,
                    optimizer_kind::adam}) {
    auto spec = with_optimizer(make_spec({4, 2}, {4}), kind, 0.1f);
    spec.initializer.kind = initializer_kind::ones;
    auto sparse = make_shard(spec);
    auto dense = make_shard(spec);
    auto indices = tensor::vector<std::int64_t>({3, 1, 3});
    must(*sparse,
         piece(1, mutation_kind::apply, tensor::of<float>({3, 2}, {1, 2, 5, 6, 10, 20}), indices));
    must(*dense,
         piece(1, mutation_kind::apply, tensor::of<float>({4, 2}, {0, 0, 5, 6, 0, 0, 11, 22})));
    auto got = sparse->state();
    auto want = dense->state();
    CHECK(got.applies == 1);
    CHECK(got.values.rows(1, 2) == want.values.rows(1, 2));
    CHECK(got.values.rows(3, 4) == want.values.rows(3, 4));
    CHECK(got.values.rows(0, 1) == tensor::of<float>({1, 2}, {1, 1}));
    for (std::size_t i = 0; i < got.slots.size(); ++i) {
      CHECK(got.slots[i].rows(3, 4) == want.slots[i].rows(3, 4));
      CHECK(got.slots[i].rows(1, 2) == want.slots[i].rows(1, 2));
    }
  }
}

TEST_CASE(
  "Adam's sparse rule was lazy: by default rows without a gradient decay too, as in Keras") {
  auto spec = with_optimizer(make_spec({4, 2}, {4}), optimizer_kind::adam, 0.1f);
  spec.initializer.kind = initializer_kind::ones;
  auto sparse = make_shard(spec);
  auto dense = make_shard(spec);
  const auto rows = [](std::initializer_list<std::int64_t> at) {
    return tensor::vector<std::int64_t>(at);
  };
  must(*sparse, piece(1, mutation_kind::apply, tensor::of<float>({3, 2}, {1, 2, 5, 6, 10, 20}),
                      rows({3, 1, 3})));
  must(*sparse, piece(2, mutation_kind::apply, tensor::of<float>({1, 2}, {4, 4}), rows({0})));
  must(*sparse, piece(3, mutation_kind::apply, {}, tensor::zeros(dtype::i64, {0})));
  must(*dense,
       piece(1, mutation_kind::apply, tensor::of<float>({4, 2}, {0, 0, 5, 6, 0, 0, 11, 22})));
  const auto before = dense->read().values.rows(3, 4).clone();
  must(*dense, piece(2, mutation_kind::apply, tensor::of<float>({4, 2}, {4, 4, 0, 0, 0, 0, 0, 0})));
  must(*dense, piece(3, mutation_kind::apply, tensor::zeros(dtype::f32, {4, 2})));
  CHECK(sparse->state().values == dense->state().values);
  CHECK(sparse->state().slots == dense->state().slots);
  CHECK(sparse->read().values.rows(3, 4) != before); // what m had left moved it
}

TEST_CASE("adam{.lazy = true} leaves rows without a gradient as they are, slots included") {
  auto spec = with_optimizer(make_spec({4}, {4}), optimizer_kind::adam, 0.1f);
  spec.optimizer.lazy = true;
  auto x = make_shard(spec);
  const auto at = [](std::int64_t row) { return tensor::vector<std::int64_t>({row}); };
  must(*x, piece(1, mutation_kind::apply, tensor::vector<float>({1}), at(2)));
  const auto first = x->state();
  const auto p = first.values.clone(), m = first.slots[0].clone(), v = first.slots[1].clone();
  must(*x, piece(2, mutation_kind::apply, tensor::vector<float>({1}), at(0)));
  must(*x, piece(3, mutation_kind::apply, {}, tensor::zeros(dtype::i64, {0})));
  const auto state = x->state();
  CHECK(state.applies == 3);
  CHECK(state.values.rows(2, 3) == p.rows(2, 3));
  CHECK(state.slots[0].rows(2, 3) == m.rows(2, 3));
  CHECK(state.slots[1].rows(2, 3) == v.rows(2, 3));
  CHECK(state.values.rows(0, 1) != p.rows(0, 1));
}

TEST_CASE("PS-Q7 shard: an empty piece changes no row but keeps version and t in step") {
  auto x = make_shard(with_optimizer(make_spec({3, 2}, {3}), optimizer_kind::adam, 0.1f));
  auto before = x->read().values;
  auto none = tensor::zeros(dtype::i64, {0});
  CHECK(must(*x, piece(1, mutation_kind::apply, {}, none)).version == 1);
  CHECK(must(*x, piece(2, mutation_kind::apply, tensor{dtype::f32, {0, 2}}, none)).version == 2);
  CHECK(must(*x, piece(2, mutation_kind::apply, {}, none)).duplicate);
  CHECK(must(*x, piece(3, mutation_kind::scatter_add, {}, none)).version == 3);
  auto state = x->state();
  CHECK(state.applies == 2);
  CHECK(state.values == before);
}

TEST_CASE("shard: assignments and scatters of f32, f64, i32 and i64") {
  auto run = [](auto zero) {
    using T = decltype(zero);
    auto x = make_shard(make_spec({3}, {3}, dtype_of<T>::value));
    std::uint64_t seq = 0;
    auto dense = [&](mutation_kind kind, std::initializer_list<T> values) {
      must(*x, piece(++seq, kind, tensor::vector<T>(values)));
      return x->read().values;
    };
    auto rows = [&](mutation_kind kind, std::initializer_list<std::int64_t> at,
                    std::initializer_list<T> values) {
      must(*x, piece(++seq, kind, tensor::vector<T>(values), tensor::vector<std::int64_t>(at)));
      return x->read().values;
    };
    CHECK(dense(mutation_kind::assign, {1, 2, 3}) == tensor::vector<T>({1, 2, 3}));
    CHECK(dense(mutation_kind::assign_add, {10, 0, 1}) == tensor::vector<T>({11, 2, 4}));
    CHECK(dense(mutation_kind::assign_sub, {1, 1, 1}) == tensor::vector<T>({10, 1, 3}));
    CHECK(rows(mutation_kind::scatter_add, {2, 0, 2}, {1, 2, 3}) == tensor::vector<T>({12, 1, 7}));
    CHECK(rows(mutation_kind::scatter_sub, {0}, {2}) == tensor::vector<T>({10, 1, 7}));
    CHECK(rows(mutation_kind::scatter_mul, {1, 1}, {3, 4}) == tensor::vector<T>({10, 12, 7}));
    CHECK(rows(mutation_kind::scatter_div, {0}, {5}) == tensor::vector<T>({2, 12, 7}));
    CHECK(rows(mutation_kind::scatter_min, {1, 2}, {5, 9}) == tensor::vector<T>({2, 5, 7}));
    CHECK(rows(mutation_kind::scatter_max, {1, 2}, {4, 9}) == tensor::vector<T>({2, 5, 9}));
    CHECK(rows(mutation_kind::scatter_update, {0, 0}, {7, 8}) == tensor::vector<T>({8, 5, 9}));
    CHECK(x->read().version == seq);
    CHECK(x->state().applies == 0);
  };
  run(float{});
  run(double{});
  run(std::int32_t{});
  run(std::int64_t{});
}

TEST_CASE("shard: other element types are assigned and nothing else") {
  auto x = make_shard(make_spec({3}, {3}, dtype::u8));
  must(*x, piece(1, mutation_kind::assign, tensor::vector<std::uint8_t>({1, 2, 3})));
  CHECK(x->read().values == tensor::vector<std::uint8_t>({1, 2, 3}));
  refusal(*x, piece(2, mutation_kind::assign_add, tensor::vector<std::uint8_t>({1, 2, 3})),
          errc::dtype_mismatch);
}

TEST_CASE("PS-G9 PS-Q3 PS-Q5 shard: what does not fit is refused, named, and changes nothing") {
  auto x = make_shard(with_optimizer(make_spec({3, 2}, {3}), optimizer_kind::sgd, 1));
  auto ok = tensor::zeros(dtype::f32, {3, 2});
  auto one = tensor::zeros(dtype::f32, {1, 2});
  auto at = [](std::int64_t i) { return tensor::vector<std::int64_t>({i}); };
  auto text = refusal(*x, piece(1, mutation_kind::assign, tensor::zeros(dtype::f32, {4, 2})),
                      errc::shape_mismatch);
  CHECK(text.find("[4, 2]") != std::string::npos);
  CHECK(text.find("[3, 2]") != std::string::npos);
  refusal(*x, piece(1, mutation_kind::assign, tensor::zeros(dtype::f32, {6})),
          errc::shape_mismatch);
  refusal(*x, piece(1, mutation_kind::apply, tensor::zeros(dtype::f64, {3, 2})),
          errc::dtype_mismatch);
  CHECK(refusal(*x, piece(1, mutation_kind::apply, {}), errc::invalid_argument)
          .find("no values given, expected f32[3, 2]")
        != std::string::npos);
  refusal(*x, piece(1, mutation_kind::apply, one, at(3)), errc::out_of_range);
  CHECK(
    refusal(*x, piece(1, mutation_kind::scatter_add, one, at(-1)), errc::out_of_range).find("-1")
    != std::string::npos);
  refusal(*x, piece(1, mutation_kind::scatter_add, ok, at(0)), errc::shape_mismatch);
  refusal(*x, piece(1, mutation_kind::scatter_add, one), errc::invalid_argument);
  refusal(*x, piece(1, mutation_kind::assign, one, at(0)), errc::invalid_argument);
  refusal(*x, piece(1, mutation_kind::scatter_add, one, tensor::zeros(dtype::i64, {1, 1})),
          errc::shape_mismatch);
  refusal(*x, piece(1, mutation_kind::scatter_add, one, tensor::zeros(dtype::i32, {1})),
          errc::dtype_mismatch);
  refusal(*x, piece(1, static_cast<mutation_kind>(99), ok), errc::invalid_argument);
  CHECK(x->read().version == 0);
  CHECK(x->ledger_size() == 0);
  CHECK(x->read().values == ok);
  auto plain = make_shard(make_spec({3}, {3}, dtype::i32));
  CHECK(refusal(*plain, piece(1, mutation_kind::apply, tensor::zeros(dtype::i32, {3})),
                errc::wrong_state)
          .find("no optimizer")
        != std::string::npos);
  refusal(*plain, piece(1, mutation_kind::scatter_div, tensor::vector<std::int32_t>({0}), at(0)),
          errc::invalid_argument);
}

TEST_CASE("shard: set_learning_rate is ledgered and replaces the schedule") {
  auto spec = with_optimizer(make_spec({1}, {1}), optimizer_kind::sgd, 1);
  spec.optimizer.learning_rate = {
    .kind = schedule_kind::piecewise_constant, .boundaries = {0}, .values = {1.0f, 0.5f}};
  auto x = make_shard(spec);
  CHECK(x->learning_rate() == 1.0f);
  must(*x, piece(1, mutation_kind::apply, tensor::vector<float>({1})));
  CHECK(x->learning_rate() == 0.5f);
  must(*x, piece(2, mutation_kind::set_learning_rate, tensor::scalar(0.25f)));
  CHECK(must(*x, piece(2, mutation_kind::set_learning_rate, tensor::scalar(9.0f))).duplicate);
  CHECK(x->learning_rate() == 0.25f);
  must(*x, piece(3, mutation_kind::apply, tensor::vector<float>({4})));
  CHECK(x->read().values == tensor::vector<float>({-2}));
  refusal(*x, piece(4, mutation_kind::set_learning_rate, tensor::vector<float>({1, 2})),
          errc::shape_mismatch);
}

TEST_CASE("piecewise_constant keeps a value through the step of its boundary, as Keras does") {
  // Keras' PiecewiseConstantDecay([1000, 2000], [1, 0.5, 0.1]): steps 0 to 1000 have 1, 1001 to
  // 2000 have 0.5, later ones 0.1.
  const schedule_spec spec{.kind = schedule_kind::piecewise_constant,
                           .boundaries = {1000, 2000},
                           .values = {1.0f, 0.5f, 0.1f}};
  const std::pair<std::uint64_t, float> steps[] = {{0, 1.0f},    {999, 1.0f},  {1000, 1.0f},
                                                   {1001, 0.5f}, {2000, 0.5f}, {2001, 0.1f}};
  for (const auto& each : steps) {
    CAPTURE(each.first);
    CHECK(detail::learning_rate_at(spec, each.first) == each.second);
  }
}

TEST_CASE("shard: schedules follow the descriptions in core/specs") {
  auto at = [](const schedule_spec& s, std::uint64_t t) { return detail::learning_rate_at(s, t); };
  schedule_spec linear{
    .kind = schedule_kind::linear_decay, .initial = 1, .end = 0, .begin_step = 10, .end_step = 20};
  CHECK(at(linear, 10) == doctest::Approx(1.0));
  CHECK(at(linear, 15) == doctest::Approx(0.5));
  CHECK(at(linear, 99) == doctest::Approx(0.0));
  schedule_spec expo{
    .kind = schedule_kind::exponential_decay, .initial = 1, .rate = 0.5f, .end_step = 10};
  CHECK(at(expo, 5) == doctest::Approx(std::sqrt(0.5)));
  expo.staircase = true;
  CHECK(at(expo, 19) == doctest::Approx(0.5));
  schedule_spec cosine{
    .kind = schedule_kind::cosine_decay, .initial = 2, .end = 1, .begin_step = 10, .end_step = 30};
  CHECK(at(cosine, 3) == doctest::Approx(2.0));
  CHECK(at(cosine, 20) == doctest::Approx(1.5));
  CHECK(at(cosine, 50) == doctest::Approx(1.0));
  schedule_spec pieces{
    .kind = schedule_kind::piecewise_constant, .boundaries = {0, 2, 4}, .values = {9, 3, 2, 1}};
  CHECK(at(pieces, 0) == 9);
  CHECK(at(pieces, 1) == 3);
  CHECK(at(pieces, 2) == 3);
  CHECK(at(pieces, 4) == 2);
  CHECK(at(pieces, 5) == 1);
  schedule_spec inverse{
    .kind = schedule_kind::inverse_time, .initial = 1, .rate = 1, .end_step = 10};
  CHECK(at(inverse, 10) == doctest::Approx(0.5));
}

TEST_CASE("shard: a gather copies rows in the order asked, repeats included") {
  auto x = make_shard(make_spec({3, 2}, {3}));
  must(*x, piece(1, mutation_kind::assign, tensor::of<float>({3, 2}, {0, 1, 10, 11, 20, 21})));
  std::vector<std::int64_t> rows{2, 0, 2};
  tensor out{dtype::f32, {3, 2}};
  CHECK(x->gather(rows, out.mutable_bytes()).value_or_throw() == 1);
  CHECK(out == tensor::of<float>({3, 2}, {20, 21, 0, 1, 20, 21}));
  rows[1] = 3;
  auto bad = x->gather(rows, out.mutable_bytes());
  REQUIRE(!bad);
  CHECK(bad.error().code == errc::out_of_range);
  CHECK(bad.error().text.find("row 3 of 3") != std::string::npos);
  rows.pop_back();
  CHECK(x->gather(rows, out.mutable_bytes()).error().code == errc::invalid_argument);
}

/// Where a reader finds the shard's values.
const std::byte* place_of(shard& x) {
  const auto held = x.read();
  return held.values.bytes().data();
}

TEST_CASE("shard: a read costs no copy, and an update goes in place once nobody holds it") {
  auto x = make_shard(with_optimizer(make_spec({4}, {4}), optimizer_kind::adam, 0.1f));
  auto g = tensor::vector<float>({1, 1, 1, 1});
  auto where = place_of(*x);
  must(*x, piece(1, mutation_kind::apply, g));
  CHECK(place_of(*x) == where);
  auto held = x->read();
  auto copy = held.values.clone();
  CHECK(place_of(*x) == where); // readers share
  must(*x, piece(2, mutation_kind::apply, g));
  CHECK(held.values == copy);
  auto moved = place_of(*x);
  CHECK(moved != where);
  held = {};
  must(*x, piece(3, mutation_kind::apply, g));
  CHECK(place_of(*x) == moved);
  held = x->read();
  must(*x, piece(4, mutation_kind::scatter_add, tensor::vector<float>({5}),
                 tensor::vector<std::int64_t>({1})));
  CHECK(place_of(*x) == where); // the spare came back
}

TEST_CASE("shard: a kept state does not see later updates, slots included") {
  auto x = make_shard(with_optimizer(make_spec({2}, {2}), optimizer_kind::adam, 0.1f));
  must(*x, piece(1, mutation_kind::apply, tensor::vector<float>({1, 2})));
  auto kept = x->state();
  std::vector<tensor> copies{kept.values.clone(), kept.slots[0].clone(), kept.slots[1].clone()};
  must(*x, piece(2, mutation_kind::apply, tensor::vector<float>({1, 2})));
  must(*x, piece(3, mutation_kind::apply, tensor::vector<float>({5}),
                 tensor::vector<std::int64_t>({0})));
  CHECK(kept.values == copies[0]);
  CHECK(kept.slots[0] == copies[1]);
  CHECK(kept.slots[1] == copies[2]);
  SUBCASE("restored, the next step moves it exactly as before") {
    auto y = make_shard(with_optimizer(make_spec({2}, {2}), optimizer_kind::adam, 0.1f));
    std::move(y->restore(kept.values, kept.slots, kept.applies)).value_or_throw();
    auto z = make_shard(with_optimizer(make_spec({2}, {2}), optimizer_kind::adam, 0.1f));
    must(*z, piece(1, mutation_kind::apply, tensor::vector<float>({1, 2})));
    for (auto* s : {y.get(), z.get()})
      must(*s, piece(2, mutation_kind::apply, tensor::vector<float>({1, 2})));
    CHECK(y->state().values == z->state().values);
    CHECK(y->state().slots == z->state().slots);
    CHECK(y->state().applies == 2);
  }
  SUBCASE("a restore that does not fit changes nothing") {
    auto before = x->state();
    std::vector<tensor> one{kept.slots[0]};
    CHECK(x->restore(kept.values, one, 1).error().code == errc::invalid_argument);
    CHECK(x->restore(tensor::zeros(dtype::f32, {3}), {}, 1).error().code == errc::shape_mismatch);
    CHECK(x->restore(tensor::zeros(dtype::f64, {2}), {}, 1).error().code == errc::dtype_mismatch);
    CHECK(x->state().version == before.version);
    CHECK(x->state().values == before.values);
  }
  SUBCASE("a restore without slots starts them anew") {
    std::move(x->restore(kept.values, {}, 0)).value_or_throw();
    CHECK(x->state().slots[0] == tensor::zeros(dtype::f32, {2}));
    CHECK(x->state().applies == 0);
  }
}

TEST_CASE("INV-S1 shard: random operations, duplicates and settles agree with a model") {
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937 random{seed};
    auto x = make_shard(make_spec({5}, {5}, dtype::i64));
    std::vector<std::int64_t> model(5, 0);
    std::set<std::pair<std::uint64_t, std::uint32_t>> applied;
    std::set<std::uint64_t> ended;
    std::uint64_t version = 0;
    std::vector<std::pair<tensor, std::vector<std::int64_t>>> held;
    for (int step = 0; step < 300; ++step) {
      auto seq = 1 + random() % 20;
      auto op = static_cast<std::uint32_t>(random() % 3);
      if (random() % 25 == 0) {
        ended.insert(seq);
        std::vector<std::uint64_t> open;
        for (std::uint64_t i = 0; i <= 20; ++i)
          if (!ended.count(i))
            open.push_back(i);
        x->settle(static_cast<term_no>(1), 20, open);
        continue;
      }
      auto row = static_cast<std::int64_t>(random() % 5);
      auto value = static_cast<std::int64_t>(random() % 100);
      auto kind = random() % 2 ? mutation_kind::scatter_add : mutation_kind::scatter_update;
      auto p = piece(seq, kind, tensor::vector<std::int64_t>({value}),
                     tensor::vector<std::int64_t>({row}), op);
      p.attempt = static_cast<attempt_no>(step);
      auto answer = must(*x, p);
      bool fresh = !ended.count(seq) && applied.insert({seq, op}).second;
      if (fresh) {
        auto& cell = model[static_cast<std::size_t>(row)];
        cell = kind == mutation_kind::scatter_add ? cell + value : value;
        ++version;
      }
      REQUIRE(answer.duplicate == !fresh);
      REQUIRE(answer.version == version);
      if (random() % 4 == 0)
        held.push_back({x->read().values, model});
      if (held.size() > 6)
        held.erase(held.begin());
      for (auto& [snapshot, then] : held)
        REQUIRE(snapshot == tensor::of<std::int64_t>({5}, then));
    }
    CHECK(x->read().values == tensor::of<std::int64_t>({5}, model));
  }
}

TEST_CASE("shard: readers on other threads see whole versions while two threads push") {
  auto x = make_shard(make_spec({64}, {64}, dtype::i64));
  auto ones = tensor{dtype::i64, {64}};
  for (auto& v : ones.mutable_as<std::int64_t>())
    v = 1;
  constexpr std::uint64_t pushes = 2000;
  std::atomic<int> wrong{0};
  std::atomic<int> writing{2};
  auto reader = [&] {
    do {
      auto now = x->read();
      for (auto v : now.values.as<std::int64_t>())
        if (v != static_cast<std::int64_t>(now.version))
          ++wrong;
      std::vector<std::int64_t> rows{3, 60};
      tensor two{dtype::i64, {2}};
      auto version = x->gather(rows, two.mutable_bytes());
      for (auto v : two.as<std::int64_t>())
        if (v != static_cast<std::int64_t>(*version))
          ++wrong;
    } while (writing > 0);
  };
  auto writer = [&](std::uint64_t from) {
    for (std::uint64_t i = 0; i < pushes; ++i) {
      must(*x, piece(from + i, mutation_kind::assign_add, ones));
      must(*x, piece(from + i, mutation_kind::assign_add, ones)); // and its duplicate
    }
    --writing;
  };
  std::vector<std::thread> threads;
  threads.emplace_back(reader);
  threads.emplace_back(reader);
  threads.emplace_back(writer, 0);
  threads.emplace_back(writer, pushes);
  for (auto& t : threads)
    t.join();
  CHECK(wrong == 0);
  CHECK(x->read().version == 2 * pushes);
}

TEST_CASE("shard: a learning rate that can't be changes nothing, sent or restored") {
  auto x = make_shard(with_optimizer(make_spec({2}, {2}), optimizer_kind::sgd, 0.5f));
  for (float rate :
       {-1.0f, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    auto text = refusal(*x, piece(1, mutation_kind::set_learning_rate, tensor::scalar(rate)),
                        errc::invalid_argument);
    CHECK(text.find("finite number of at least 0") != std::string::npos);
    CHECK(x->restore(tensor::vector<float>({9, 9}), {}, 3, rate).error().code
          == errc::invalid_argument);
    CHECK(x->learning_rate() == 0.5f);
    CHECK(x->read().values == tensor::vector<float>({0, 0}));
    CHECK(x->state().applies == 0);
  }
}

TEST_CASE("shard: the learning rate that was set by hand is part of its state") {
  auto spec = make_spec({2}, {2});
  spec.optimizer.kind = optimizer_kind::sgd;
  spec.optimizer.learning_rate = {
    .kind = schedule_kind::linear_decay, .initial = 1, .end = 0, .begin_step = 0, .end_step = 4};
  auto x = make_shard(spec);
  CHECK_FALSE(x->state().rate);
  must(*x, piece(1, mutation_kind::set_learning_rate, tensor::scalar(0.25f)));
  const auto kept = x->state();
  CHECK(kept.rate == 0.25f);
  auto y = make_shard(spec);
  y->restore(kept.values, kept.slots, 2, kept.rate).value_or_throw();
  CHECK(y->learning_rate() == 0.25f);
  y->restore(kept.values, kept.slots, 2).value_or_throw(); // of before it was set
  CHECK(y->learning_rate() == 0.5f);
  CHECK_FALSE(y->state().rate);
}

TEST_CASE("shard: who makes it sees it grow, and can end it half-way") {
  auto spec = std::make_shared<const variable_spec>(
    with_optimizer(make_spec({3 << 20, 2}, {3 << 20}), optimizer_kind::adam, 0.5f));
  shard_making how;
  auto made = shard::create(spec, shard_index{0}, &how).value_or_throw();
  CHECK(how.made_bytes == made->size_bytes());
  CHECK(made->read().values == tensor::zeros(dtype::f32, {3 << 20, 2}));
  shard_making ended;
  ended.unwanted = true;
  CHECK(shard::create(spec, shard_index{0}, &ended).error().code == errc::cancelled);
  CHECK(ended.made_bytes < how.made_bytes);
}

TEST_CASE("shard: initial values are the same in however many pieces they are made") {
  auto spec = make_spec({1000, 9000}, {1000}); // 36 MB: three pieces of whole rows
  spec.initializer = {.kind = initializer_kind::uniform, .a = -1, .b = 1, .seed = 7};
  auto whole = make_shard(spec);
  tensor expected{dtype::f32, {1000, 9000}};
  detail::fill_initial_rows(spec, 0, expected);
  CHECK(whole->read().values == expected);
}
