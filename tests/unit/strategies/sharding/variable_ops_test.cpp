#include <doctest/doctest.h>

#include <troupe/strategies/sharding/variable_ops.hpp>

#include <limits>
#include <string>

#include "../../../support/failures.hpp"
#include "../../../support/tensors.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

// Shards [[0,0]], [[1,1],[2,2]], [[3,3]].
std::vector<tensor> three_parts() {
  return {tensor::of<float>({1, 2}, {0, 0}), tensor::of<float>({2, 2}, {1, 1, 2, 2}),
          tensor::of<float>({1, 2}, {3, 3})};
}

variable_spec three_shards() {
  variable_spec spec;
  spec.name = "w";
  spec.shape = {4, 2};
  spec.shards = {{0, 1, 0}, {1, 3, 1}, {3, 4, 0}};
  return spec;
}

tensor bits(std::initializer_list<std::uint8_t> values) {
  return tensor::vector<std::uint8_t>(values);
}

} // namespace

TEST_CASE("PS-G1 a sharded variable without parts is refused") {
  CHECK(says(refusal(container_of({}), errc::invalid_argument), "no parts"));
  refusal(concatenate_shards({}), errc::invalid_argument);
}

TEST_CASE("PS-G2 parts of different types, or of different shapes beyond axis 0, are refused") {
  const std::vector<shard_form> types{{dtype::f32, {1, 2}}, {dtype::i64, {1, 2}}};
  CHECK(says(refusal(container_of(types), errc::dtype_mismatch), "part 1 is i64, part 0 f32"));
  const std::vector<shard_form> shapes{{dtype::f32, {1, 2}}, {dtype::f32, {1, 3}}};
  CHECK(says(refusal(container_of(shapes), errc::shape_mismatch), "part 1 has shape [1, 3]"));
  const std::vector<shard_form> ranks{{dtype::f32, {1, 2}}, {dtype::f32, {1}}};
  refusal(container_of(ranks), errc::shape_mismatch);
  const std::vector<shard_form> numbers{{dtype::f32, {}}, {dtype::f32, {}}};
  CHECK(says(refusal(container_of(numbers), errc::shape_mismatch), "must have rows"));
}

TEST_CASE("PS-G3 the shape is the sum of rows, which may be any") {
  const std::vector<shard_form> parts{
    {dtype::i32, {1, 2}}, {dtype::i32, {0, 2}}, {dtype::i32, {5, 2}}};
  auto form = container_of(parts).value_or_throw();
  CHECK(form.type == dtype::i32);
  CHECK(form.shape == shape_t{6, 2});
  CHECK(form.rows == std::vector<row_range>{{0, 1}, {1, 1}, {1, 6}});
}

TEST_CASE("PS-G4 parts become one tensor; another type than theirs is refused") {
  auto parts = three_parts();
  auto whole = tensor::of<float>({4, 2}, {0, 0, 1, 1, 2, 2, 3, 3});
  CHECK(*concatenate_shards(parts) == whole);
  CHECK(*concatenate_shards(parts, dtype::f32) == whole);
  CHECK(says(refusal(concatenate_shards(parts, dtype::i64), errc::dtype_mismatch),
             "elements are f32, requested as i64"));
  const std::vector<tensor> one{parts[1]};
  CHECK(concatenate_shards(one)->bytes().data() == parts[1].bytes().data());
  const std::vector<tensor> number{tensor::scalar(3.0f)};
  CHECK(concatenate_shards(number)->item<float>() == 3.0f);
}

TEST_CASE("PS-G5 a value is split as the shards are") {
  auto value = tensor::of<float>({4, 2}, {4, 4, 5, 5, 6, 6, 7, 7});
  auto parts = split_by_shards(value, three_shards()).value_or_throw();
  REQUIRE(parts.size() == 3);
  CHECK(parts[0] == tensor::of<float>({1, 2}, {4, 4}));
  CHECK(parts[1] == tensor::of<float>({2, 2}, {5, 5, 6, 6}));
  CHECK(parts[2] == tensor::of<float>({1, 2}, {7, 7}));
  const auto last = value.rows(1, 3);
  CHECK(parts[1].bytes().data() == last.bytes().data());
  variable_spec number;
  number.shards = {{0, 1, 0}};
  CHECK(split_by_shards(tensor::scalar(2.0f), number)->front() == tensor::scalar(2.0f));
}

TEST_CASE("PS-G9 too many and too few rows are refused, naming both") {
  auto many = split_by_shards(tensor::zeros(dtype::f32, {5, 2}), three_shards());
  auto text = refusal(many, errc::shape_mismatch);
  CHECK(says(text, "\"w\""));
  CHECK(says(text, "[5, 2]"));
  CHECK(says(text, "[4, 2]"));
  CHECK(says(text, "too many rows, 5 for 4"));
  auto few = check_value(tensor::zeros(dtype::f32, {3, 2}), three_shards());
  CHECK(says(refusal(few, errc::shape_mismatch), "too few rows, 3 for 4"));
  auto wide = check_value(tensor::zeros(dtype::f32, {4, 3}), three_shards());
  CHECK(says(refusal(wide, errc::shape_mismatch), "[4, 3]"));
  auto flat = check_value(tensor::zeros(dtype::f32, {8}), three_shards());
  CHECK_FALSE(says(refusal(flat, errc::shape_mismatch), "rows"));
  auto typed = check_value(tensor::zeros(dtype::f64, {4, 2}), three_shards());
  CHECK(says(refusal(typed, errc::dtype_mismatch), "is f64, the variable f32"));
  CHECK(says(refusal(check_value(tensor{}, three_shards()), errc::invalid_argument), "is missing"));
  CHECK(check_value(tensor::zeros(dtype::f32, {4, 2}), three_shards()));
}

TEST_CASE("PS-G10 arithmetic and comparison act on the whole") {
  const std::vector<tensor> parts{floats({1}), floats({2})};
  auto whole = concatenate_shards(parts).value_or_throw();
  CHECK(apply_binary(binary_op::add, whole, whole) == floats({2, 4}));
  CHECK(apply_binary(binary_op::equal, whole, whole) == bits({1, 1}));
}

TEST_CASE("PS-G10 every operator on every number type") {
  auto check_all = [](auto zero) {
    using T = decltype(zero);
    auto a = tensor::vector<T>({6, 2, 3});
    auto b = tensor::vector<T>({2, 2, 4});
    CHECK(apply_binary(binary_op::add, a, b) == tensor::vector<T>({8, 4, 7}));
    CHECK(apply_binary(binary_op::sub, a, b) == tensor::vector<T>({4, 0, -1}));
    CHECK(apply_binary(binary_op::mul, a, b) == tensor::vector<T>({12, 4, 12}));
    CHECK(apply_binary(binary_op::div, a, b) == tensor::vector<T>({3, 1, T(3) / T(4)}));
    CHECK(apply_binary(binary_op::equal, a, b) == bits({0, 1, 0}));
    CHECK(apply_binary(binary_op::not_equal, a, b) == bits({1, 0, 1}));
    CHECK(apply_binary(binary_op::less, a, b) == bits({0, 0, 1}));
    CHECK(apply_binary(binary_op::less_equal, a, b) == bits({0, 1, 1}));
    CHECK(apply_binary(binary_op::greater, a, b) == bits({1, 0, 0}));
    CHECK(apply_binary(binary_op::greater_equal, a, b) == bits({1, 1, 0}));
  };
  check_all(float{});
  check_all(double{});
  check_all(std::int32_t{});
  check_all(std::int64_t{});
}

TEST_CASE("PS-G10 a scalar on either side stands for its value everywhere") {
  CHECK(apply_binary(binary_op::sub, floats({5, 7}), tensor::scalar(2.0f)) == floats({3, 5}));
  CHECK(apply_binary(binary_op::sub, tensor::scalar(2.0f), floats({5, 7})) == floats({-3, -5}));
  auto both = apply_binary(binary_op::mul, tensor::scalar(2.0f), tensor::scalar(3.0f));
  CHECK(both == tensor::scalar(6.0f));
}

TEST_CASE("PS-G10 operands that don't fit are refused") {
  auto apply = [](const tensor& a, const tensor& b, binary_op op = binary_op::add) {
    return code_of([&] { (void)apply_binary(op, a, b); });
  };
  CHECK(apply(floats({1}), floats({1, 2})) == errc::shape_mismatch);
  CHECK(apply(floats({1}), tensor::vector<double>({1})) == errc::dtype_mismatch);
  CHECK(apply(bits({1}), bits({1})) == errc::dtype_mismatch);
  CHECK(apply(tensor{}, floats({1})) == errc::invalid_argument);
  auto ints = tensor::vector<std::int32_t>({1, 0});
  CHECK(apply(ints, ints, binary_op::div) == errc::invalid_argument);
  CHECK(apply(floats({1}), floats({0}), binary_op::div) == errc::none);
  CHECK(apply(floats({1}), floats({1}), static_cast<binary_op>(77)) == errc::invalid_argument);
  CHECK(to_string(static_cast<binary_op>(77)) == "binary_op(77)");
  CHECK(to_string(binary_op::greater_equal) == "greater_equal");
  constexpr auto low = std::numeric_limits<std::int64_t>::lowest();
  auto lowest = tensor::vector<std::int64_t>({low});
  CHECK(apply_binary(binary_op::div, lowest, tensor::vector<std::int64_t>({-1})) == lowest);
}
