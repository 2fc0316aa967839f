#include <troupe/actors/worker/mutation_check.hpp>

#include <cstdint>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

namespace {

using namespace troupe;

variable_spec spec_of(shape_t shape, dtype type = dtype::f32) {
  variable_spec out;
  out.name = "w";
  out.type = type;
  out.shape = std::move(shape);
  return out;
}

mutation change(mutation_kind kind, tensor values, tensor indices = {}) {
  mutation out;
  out.kind = kind;
  out.values = std::move(values);
  out.indices = std::move(indices);
  return out;
}

tensor rows(const std::vector<std::int64_t>& ids) {
  return tensor::of<std::int64_t>({static_cast<std::int64_t>(ids.size())}, ids);
}

errc code_of(const result<void>& got) { return got ? errc::none : got.error().code; }

} // namespace

TEST_CASE("mutation_check: rows of the variable are in range, and the first other is named") {
  const auto spec = spec_of({3, 2});
  const std::vector<std::int64_t> good{0, 2, 2};
  CHECK(check_rows_in_range(good, spec, "gather"));
  const std::vector<std::int64_t> bad{0, 3, -1};
  const auto why = check_rows_in_range(bad, spec, "gather");
  REQUIRE_FALSE(why);
  CHECK(why.error().code == errc::out_of_range);
  CHECK(why.error().text == "variable 'w': gather: index 3 at position 1, the variable has 3 rows");
}

TEST_CASE("mutation_check: the shape of a row") {
  CHECK(row_shape_of(spec_of({3, 2, 5})) == shape_t{2, 5});
  CHECK(row_shape_of(spec_of({3})) == shape_t{});
  CHECK(row_shape_of(spec_of({})) == shape_t{});
}

TEST_CASE("mutation_check: whole values have the variable's type and shape") {
  const auto spec = spec_of({3, 2});
  const auto kind = mutation_kind::assign_add;
  CHECK(check_mutation(change(kind, tensor::zeros(dtype::f32, {3, 2})), spec));
  CHECK(code_of(check_mutation(change(kind, tensor::zeros(dtype::f64, {3, 2})), spec))
        == errc::dtype_mismatch);
  CHECK(code_of(check_mutation(change(kind, tensor::zeros(dtype::f32, {2, 3})), spec))
        == errc::shape_mismatch);
  CHECK(code_of(check_mutation(change(kind, {}), spec)) == errc::invalid_argument);
  CHECK(code_of(check_mutation(change(kind, tensor::zeros(dtype::f32, {1, 2}), rows({0})), spec))
        == errc::invalid_argument); // rows are for scatters
}

TEST_CASE("mutation_check: a variable without an optimizer is not trained") {
  auto spec = spec_of({3, 2});
  spec.optimizer.kind = optimizer_kind::none;
  const auto step = change(mutation_kind::apply, tensor::zeros(dtype::f32, {3, 2}));
  CHECK(code_of(check_mutation(step, spec)) == errc::wrong_state);
  spec.optimizer.kind = optimizer_kind::sgd;
  CHECK(check_mutation(step, spec));
  CHECK(check_mutation(change(mutation_kind::apply, tensor::zeros(dtype::f32, {1, 2}), rows({2})),
                       spec));
}

TEST_CASE("mutation_check: a learning rate is one f32 that an optimizer can take") {
  auto spec = spec_of({3, 2});
  spec.optimizer.kind = optimizer_kind::sgd;
  const auto rate = [&](tensor value) {
    return code_of(check_mutation(change(mutation_kind::set_learning_rate, value), spec));
  };
  CHECK(rate(tensor::scalar(0.5f)) == errc::none);
  CHECK(rate(tensor::scalar(0.5)) == errc::shape_mismatch);
  CHECK(rate(tensor::zeros(dtype::f32, {2})) == errc::shape_mismatch);
  CHECK(rate(tensor::scalar(-1.0f)) == errc::invalid_argument);
}

TEST_CASE("mutation_check: a scatter names rows that exist, with a value for each") {
  const auto spec = spec_of({3, 2});
  const auto scatter = [&](tensor values, tensor indices) {
    return code_of(check_mutation(
      change(mutation_kind::scatter_add, std::move(values), std::move(indices)), spec));
  };
  const auto two = tensor::zeros(dtype::f32, {2, 2});
  CHECK(scatter(two, rows({0, 2})) == errc::none);
  CHECK(scatter(two, {}) == errc::invalid_argument);
  CHECK(scatter(two, tensor::zeros(dtype::i32, {2})) == errc::dtype_mismatch);
  CHECK(scatter(two, tensor::zeros(dtype::i64, {2, 1})) == errc::shape_mismatch);
  CHECK(scatter(two, rows({0})) == errc::shape_mismatch);
  CHECK(scatter(two, rows({0, 3})) == errc::out_of_range);
}

TEST_CASE("mutation_check: integers are not divided by zero") {
  const auto spec = spec_of({2}, dtype::i32);
  const auto divide = [&](std::int32_t by) {
    const std::vector<std::int32_t> values{1, by};
    return code_of(check_mutation(
      change(mutation_kind::scatter_div, tensor::of<std::int32_t>({2}, values), rows({0, 1})),
      spec));
  };
  CHECK(divide(2) == errc::none);
  CHECK(divide(0) == errc::invalid_argument);
}
