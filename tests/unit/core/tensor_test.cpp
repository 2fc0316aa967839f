#include <troupe/core/tensor.hpp>

#include <cstdint>

#include <doctest/doctest.h>

#include <troupe/core/error.hpp>

#include "../../support/failures.hpp"

namespace {

using namespace troupe;
using namespace troupe::testing;

} // namespace

TEST_CASE("a tensor knows its type, shape and size; a default one has no value") {
  tensor none;
  CHECK_FALSE(none.defined());
  CHECK(none.size() == 0);
  auto x = tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  CHECK(x.defined());
  CHECK(x.type() == dtype::f32);
  CHECK(x.rank() == 2);
  CHECK(x.size() == 6);
  CHECK(x.size_bytes() == 24);
  CHECK(x.rows() == 2);
  CHECK(x.row_size() == 3);
  CHECK(tensor::scalar(std::int64_t{4}).rows() == 1);
  CHECK(tensor::zeros(dtype::f64, {0, 5}).row_size() == 0);
  CHECK(tensor::zeros(dtype::f64, {0, 5}).defined());
}

TEST_CASE("elements are aligned to 64 bytes and zeros are zero") {
  for (std::int64_t n : {1, 3, 1000}) {
    auto x = tensor::zeros(dtype::u8, {n});
    CHECK(reinterpret_cast<std::uintptr_t>(x.bytes().data()) % 64 == 0);
    for (auto b : x.as<std::uint8_t>())
      REQUIRE(b == 0);
  }
}

TEST_CASE("copies, rows and reshaped views share the elements, a clone does not") {
  auto x = tensor::of<float>({3, 2}, {1, 2, 3, 4, 5, 6});
  auto copy = x;
  auto rows = x.rows(1, 3);
  auto flat = x.reshaped({6});
  auto clone = x.clone();
  x.mutable_as<float>()[2] = 30;
  CHECK(copy.as<float>()[2] == 30);
  CHECK(rows.as<float>()[0] == 30);
  CHECK(rows.shape() == shape_t{2, 2});
  CHECK(flat.as<float>()[2] == 30);
  CHECK(clone.as<float>()[2] == 3);
  CHECK(x.rows(1, 1).size() == 0);
}

TEST_CASE("wrong uses are refused, naming what was asked and what there is") {
  auto x = tensor::of<float>({3, 2}, {1, 2, 3, 4, 5, 6});
  auto type = failure_of([&] { (void)x.as<std::int64_t>(); });
  CHECK(type.code == errc::dtype_mismatch);
  CHECK(says(type, "f32"));
  CHECK(says(type, "i64"));
  CHECK(failure_of([&] { (void)x.item<float>(); }).code == errc::shape_mismatch);
  CHECK(failure_of([&] { (void)tensor{}.item<float>(); }).code == errc::shape_mismatch);
  for (auto [begin, end] : {std::pair{-1, 2}, {0, 4}, {2, 1}}) {
    auto range = failure_of([&, b = begin, e = end] { (void)x.rows(b, e); });
    CHECK(range.code == errc::out_of_range);
  }
  auto shape = failure_of([&] { (void)x.reshaped({4}); });
  CHECK(shape.code == errc::shape_mismatch);
  CHECK(says(shape, "[4]"));
  CHECK(says(shape, "[3, 2]"));
}

TEST_CASE("equality is type, shape and every byte") {
  auto x = tensor::of<float>({2}, {1, 2});
  CHECK(x == tensor::of<float>({2}, {1, 2}));
  CHECK_FALSE(x == tensor::of<float>({2}, {1, 3}));
  CHECK_FALSE(x == tensor::of<float>({2, 1}, {1, 2}));
  CHECK_FALSE(x == tensor::of<double>({2}, {1, 2}));
}

TEST_CASE("concatenate joins along axis 0 and refuses what does not fit") {
  std::vector<tensor> parts{tensor::of<float>({1, 2}, {1, 2}),
                            tensor::of<float>({2, 2}, {3, 4, 5, 6}),
                            tensor::zeros(dtype::f32, {0, 2})};
  CHECK(concatenate(parts) == tensor::of<float>({3, 2}, {1, 2, 3, 4, 5, 6}));
  CHECK_THROWS_AS(concatenate({}), error);
  parts.push_back(tensor::of<float>({1, 3}, {1, 2, 3}));
  CHECK_THROWS_AS(concatenate(parts), error);
  parts.back() = tensor::of<double>({1, 2}, {1, 2});
  CHECK_THROWS_AS(concatenate(parts), error);
}

TEST_CASE("shapes that came from outside: negative extents and overflows are not sane") {
  CHECK(is_sane({}, dtype::f32));
  CHECK(is_sane({0, 1 << 20}, dtype::f64));
  CHECK_FALSE(is_sane({-1}, dtype::f32));
  CHECK_FALSE(is_sane({(std::int64_t{1} << 47) + 1}, dtype::u8));
  CHECK_FALSE(is_sane({std::int64_t{1} << 40, std::int64_t{1} << 40}, dtype::f32));
  CHECK_FALSE(is_sane({1}, static_cast<dtype>(99)));
}

TEST_CASE("texts for people") {
  CHECK(to_string(shape_t{}) == "[]");
  CHECK(to_string(shape_t{3, 4}) == "[3, 4]");
  CHECK(to_string(dtype::bf16) == "bf16");
  CHECK(to_string(static_cast<dtype>(9)) == "dtype(9)");
  CHECK(to_string(tensor::of<float>({2, 2}, {1, 2, 3, 4})) == "f32[2, 2]{1, 2, 3, 4}");
}
