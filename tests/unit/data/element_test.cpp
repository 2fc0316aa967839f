#include <troupe/data/element.hpp>

#include <doctest/doctest.h>

#include "support.hpp"

using namespace data_test;

TEST_CASE("element: parts out of range and the only part of two are refused") {
  element x{tensor::scalar(1.0f), tensor::scalar(2.0f)};
  CHECK(failure_of([&] { (void)x[2]; }).code == errc::out_of_range);
  CHECK(failure_of([&] { (void)x.only(); }).code == errc::shape_mismatch);
  CHECK(to_string(x) == "{f32[]{1}, f32[]{2}}");
}
