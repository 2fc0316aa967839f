#include <doctest/doctest.h>

#include <troupe/strategies/topology/device_assignment.hpp>
#include <troupe/strategies/topology/logical_devices.hpp>

#include <limits>
#include <string>
#include <vector>

#include "../../../support/failures.hpp"
#include "../../../support/tensors.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

using ints = std::vector<std::int64_t>;

std::vector<tensor> split(const tensor& x, const ints& dims, std::uint32_t count) {
  return split_to_logical_devices(x, dims, count).value_or_throw();
}

tensor i32(shape_t shape, const std::vector<std::int32_t>& values) {
  return tensor::of<std::int32_t>(std::move(shape), values);
}

// Element of tile `number` at `at`, read from the whole by index arithmetic alone.
std::int32_t expected(const tensor& whole, const shape_t& tile, const ints& dims,
                      std::size_t number, std::int64_t flat) {
  std::vector<std::int64_t> at(dims.size());
  for (auto axis = dims.size(); axis > 0; --axis) {
    at[axis - 1] =
      flat % tile[axis - 1] + static_cast<std::int64_t>(number) % dims[axis - 1] * tile[axis - 1];
    flat /= tile[axis - 1];
    number /= static_cast<std::size_t>(dims[axis - 1]);
  }
  std::int64_t offset = 0;
  for (std::size_t axis = 0; axis < at.size(); ++axis)
    offset = offset * whole.shape()[axis] + at[axis];
  return whole.as<std::int32_t>()[static_cast<std::size_t>(offset)];
}

} // namespace

TEST_CASE("SYNC-LOG-1 the cores of a replica are its logical devices 0 to k - 1") {
  const auto where = topology::of_one_task({2, 1, 1, 2}).value_or_throw();
  const auto x =
    device_assignment::build(where, {.computation_shape = {1, 1, 1, 2}, .num_replicas = 2})
      .value_or_throw();
  CHECK(x.cores_per_replica() == 2);
  for (std::uint32_t i = 0; i < x.cores_per_replica(); ++i) {
    CHECK(check_logical_device(i, x.cores_per_replica()));
    CHECK(x.coordinates(1, i));
  }
  CHECK_FALSE(x.coordinates(1, x.cores_per_replica()));
}

TEST_CASE("SYNC-LOG-2 a logical device at or past k is refused") {
  CHECK(check_logical_device(0, 1));
  CHECK(check_logical_device(3, 4));
  CHECK(refusal(check_logical_device(4, 4))
        == "logical devices: logical device 4 does not exist; a replica has 4");
  CHECK(refusal(check_logical_device(0, 0))
        == "logical devices: logical device 0 does not exist; a replica has 0");
}

TEST_CASE("SYNC-LOG-3 components on logical devices 0 and 1 are on TPU 0 and 1") {
  const auto where = topology::of_one_task({2, 1, 1, 2}).value_or_throw();
  const auto x =
    device_assignment::build(where, {.computation_shape = {1, 1, 1, 2}, .num_replicas = 2})
      .value_or_throw();
  CHECK(to_string(*x.tpu_device(0, 0)) == "/task:0/device:TPU:0");
  CHECK(to_string(*x.tpu_device(0, 1)) == "/task:0/device:TPU:1");
  CHECK(to_string(*x.tpu_device(1, 0)) == "/task:0/device:TPU:2");
  CHECK(to_string(*x.tpu_device(1, 1)) == "/task:0/device:TPU:3");
}

TEST_CASE("SYNC-LOG-5 assigning by hand takes an index in range and no SPMD partitioning") {
  CHECK(check_assign_to_logical_device(1, 2, false));
  CHECK(refusal(check_assign_to_logical_device(2, 2, false))
        == "logical devices: logical device 2 does not exist; a replica has 2");
  CHECK(refusal(check_assign_to_logical_device(1, 2, true))
        == "logical devices: a tensor cannot be assigned to logical device 1 while SPMD "
           "partitioning is on; split or replicate it");
}

TEST_CASE("SYNC-LOG-6 tile j in row-major order goes to logical device j") {
  const auto tiles = split(counting<std::int32_t>({4, 6}), {2, 3}, 6);
  REQUIRE(tiles.size() == 6);
  CHECK(tiles[0] == i32({2, 2}, {0, 1, 6, 7}));
  CHECK(tiles[1] == i32({2, 2}, {2, 3, 8, 9}));
  CHECK(tiles[2] == i32({2, 2}, {4, 5, 10, 11}));
  CHECK(tiles[3] == i32({2, 2}, {12, 13, 18, 19}));
  CHECK(tiles[4] == i32({2, 2}, {14, 15, 20, 21}));
  CHECK(tiles[5] == i32({2, 2}, {16, 17, 22, 23}));
}

TEST_CASE("SYNC-LOG-6 another number of dims than axes is refused") {
  CHECK(refusal(split_to_logical_devices(counting<std::int32_t>({4, 6}), ints{2}, 2))
        == "logical devices: dims [2] has 1 elements, the tensor has rank 2");
  CHECK(refusal(split_to_logical_devices(counting<std::int32_t>({4}), ints{2, 1}, 2))
        == "logical devices: dims [2, 1] has 2 elements, the tensor has rank 1");
  CHECK(refusal(split_to_logical_devices(tensor::scalar(1), ints{1}, 1))
        == "logical devices: dims [1] has 1 elements, the tensor has rank 0");
}

TEST_CASE("SYNC-LOG-6 an extent that its dim does not divide is refused") {
  CHECK(refusal(split_to_logical_devices(counting<std::int32_t>({4, 6}), ints{1, 4}, 4))
        == "logical devices: axis 1 of shape [4, 6] is not divisible by 4 of dims [1, 4]");
  CHECK(refusal(split_to_logical_devices(counting<std::int32_t>({3, 2}), ints{2, 2}, 4))
        == "logical devices: axis 0 of shape [3, 2] is not divisible by 2 of dims [2, 2]");
  CHECK(refusal(split_to_logical_devices(counting<std::int32_t>({4, 6}), ints{0, 2}, 2))
        == "logical devices: dims [0, 2] has 0, must be at least 1");
  CHECK(refusal(split_to_logical_devices(counting<std::int32_t>({4, 6}), ints{2, -1}, 2))
        == "logical devices: dims [2, -1] has -1, must be at least 1");
}

TEST_CASE("SYNC-LOG-6 a product of dims other than k is refused") {
  CHECK(refusal(split_to_logical_devices(counting<std::int32_t>({4, 6}), ints{2, 1}, 4))
        == "logical devices: dims [2, 1] make 2 tiles, there are 4 logical devices");
  CHECK(refusal(split_to_logical_devices(counting<std::int32_t>({4, 6}), ints{2, 3}, 4))
        == "logical devices: dims [2, 3] make more than 4 tiles, there are 4 logical devices");
  CHECK(refusal(split_to_logical_devices(counting<std::int32_t>({4, 6}), ints{1, 1}, 0))
        == "logical devices: dims [1, 1] make more than 0 tiles, there are 0 logical devices");
  // No product overflows, whatever divides an extent of 0.
  const auto large = std::numeric_limits<std::int64_t>::max();
  CHECK(refusal(split_to_logical_devices(counting<std::int32_t>({0, 0}), ints{large, large}, 4))
          .find("make more than 4 tiles")
        != std::string::npos);
  CHECK(refusal(split_to_logical_devices(tensor{}, ints{}, 1))
        == "logical devices: the tensor has no value");
}

TEST_CASE("SYNC-LOG-6 values are unchanged: every tiling of every shape joins to the whole") {
  const std::vector<shape_t> shapes{{}, {6}, {4, 6}, {2, 4, 6}, {6, 1, 4, 2}, {0, 4}, {4, 0}};
  int tilings = 0;
  for (const auto& shape : shapes) {
    const auto whole = counting<std::int32_t>(shape);
    ints dims(shape.size(), 1);
    for (;;) {
      const auto count = static_cast<std::uint32_t>(count_of(dims));
      if (auto tiles = split_to_logical_devices(whole, dims, count)) {
        CAPTURE(to_string(shape));
        CAPTURE(to_string(dims));
        ++tilings;
        REQUIRE(tiles->size() == count);
        for (std::size_t j = 0; j < tiles->size(); ++j) {
          const auto& tile = (*tiles)[j];
          const auto values = tile.as<std::int32_t>();
          CHECK(tile.size() * count == whole.size());
          for (std::size_t i = 0; i < values.size(); ++i)
            CHECK(values[i]
                  == expected(whole, tile.shape(), dims, j, static_cast<std::int64_t>(i)));
        }
        CHECK(join_from_logical_devices(*tiles, dims).value_or_throw() == whole);
      }
      std::size_t axis = 0; // the next of all dims from 1 to 6
      while (axis < dims.size() && dims[axis] == 6)
        dims[axis++] = 1;
      if (axis == dims.size())
        break;
      ++dims[axis];
    }
  }
  CHECK(tilings == 1 + 4 + 3 * 4 + 2 * 3 * 4 + 4 * 1 * 3 * 2 + 6 * 3 + 3 * 6);
}

TEST_CASE("SYNC-LOG-6 other element types keep their bytes") {
  const auto x = tensor::of<double>({2, 2}, {1.5, -2.5, 3.5, -4.5});
  const auto tiles = split(x, {1, 2}, 2);
  CHECK(tiles[0] == tensor::of<double>({2, 1}, {1.5, 3.5}));
  CHECK(tiles[1] == tensor::of<double>({2, 1}, {-2.5, -4.5}));
  const auto bytes = tensor::of<std::uint8_t>({1, 4}, {1, 2, 3, 4});
  CHECK(split(bytes, {1, 4}, 4)[2] == tensor::of<std::uint8_t>({1, 1}, {3}));
}

TEST_CASE("SYNC-LOG-6 whole rows are shared, not copied") {
  const auto x = counting<std::int32_t>({4, 2});
  const auto tiles = split(x, {2, 1}, 2);
  CHECK(tiles[0].bytes().data() == x.bytes().data());
  CHECK(tiles[1].bytes().data() == x.bytes().data() + 16);
  CHECK(split(x, {1, 1}, 1)[0].bytes().data() == x.bytes().data());
}

TEST_CASE("SYNC-LOG-7 replicating gives every logical device the same") {
  const auto x = counting<std::int32_t>({2, 3});
  const auto all = replicate_to_logical_devices(x, 3).value_or_throw();
  REQUIRE(all.size() == 3);
  for (const auto& one : all) {
    CHECK(one == x);
    CHECK(one.bytes().data() == x.bytes().data());
  }
  CHECK(refusal(replicate_to_logical_devices(x, 0))
        == "logical devices: a replica has 0 logical devices, needs at least 1");
  CHECK(refusal(replicate_to_logical_devices(tensor{}, 2))
        == "logical devices: the tensor has no value");
}

TEST_CASE("logical devices: joining refuses tiles that are not of one grid") {
  const auto a = counting<std::int32_t>({2, 2});
  const auto join = [](const std::vector<tensor>& tiles, const ints& dims) {
    return join_from_logical_devices(tiles, dims);
  };
  CHECK(refusal(join({}, {1})) == "logical devices: no tiles to join");
  CHECK(refusal(join({tensor{}}, {})) == "logical devices: no tiles to join");
  CHECK(refusal(join({a, a}, {2}))
        == "logical devices: dims [2] has 1 elements, the tensor has rank 2");
  CHECK(refusal(join({a, a}, {1, 0})) == "logical devices: dims [1, 0] has 0, must be at least 1");
  CHECK(refusal(join({a, a, a}, {2, 1}))
        == "logical devices: dims [2, 1] do not match the 3 tiles given");
  CHECK(refusal(join({a, counting<std::int32_t>({2, 3})}, {2, 1}))
        == "logical devices: tile 1 is i32[2, 3], tile 0 is i32[2, 2]");
  CHECK(refusal(join({a, tensor::zeros(dtype::f32, {2, 2})}, {2, 1}))
        == "logical devices: tile 1 is f32[2, 2], tile 0 is i32[2, 2]");
}
