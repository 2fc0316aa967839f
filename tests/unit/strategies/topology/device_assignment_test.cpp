#include <doctest/doctest.h>

#include <troupe/strategies/topology/device_assignment.hpp>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

using namespace troupe;

namespace {

using cores = std::vector<mesh_coordinates>;
using ints = std::vector<std::int32_t>;

topology mesh(const mesh_coordinates& shape) {
  return topology::of_one_task(shape).value_or_throw();
}

device_assignment built(const mesh_coordinates& shape, const assignment_options& options) {
  return device_assignment::build(mesh(shape), options).value_or_throw();
}

std::string refusal(const topology& where, const assignment_options& options) {
  auto got = device_assignment::build(where, options);
  REQUIRE_FALSE(got);
  CHECK(got.error().code == errc::invalid_argument);
  return got.error().text;
}

// Replicas that are one chip each, or their first chips.
std::string chips_of(const device_assignment& x) {
  std::string out;
  for (const auto& replica : x.core_assignment())
    out += "(" + std::to_string(replica[0][0]) + "," + std::to_string(replica[0][1]) + ")";
  return out;
}

std::string text_of(const cores& list) {
  std::string out;
  for (const auto& core : list)
    out += to_string(core);
  return out;
}

int distance(const mesh_coordinates& a, const mesh_coordinates& b) {
  return std::abs(a[0] - b[0]) + std::abs(a[1] - b[1]) + std::abs(a[2] - b[2]);
}

constexpr const char* mesh_2212_by_core =
  "(0, 0, 0, 0)(0, 0, 0, 1)(1, 0, 0, 0)(1, 0, 0, 1)(0, 1, 0, 0)(0, 1, 0, 1)(1, 1, 0, 0)(1, 1, 0, "
  "1)";

// Fits in the mesh, each core once, each on a device.
void check_sound(const device_assignment& x, const assignment_options& options) {
  std::set<mesh_coordinates> seen;
  CHECK(x.num_replicas() == options.num_replicas);
  for (const auto& replica : x.core_assignment()) {
    CHECK(replica.size() == x.cores_per_replica());
    for (const auto& core : replica) {
      CHECK(seen.insert(core).second);
      CHECK(x.where().place_at(core));
    }
    // A replica's cores are one block, at its stride.
    const auto low = *std::min_element(replica.begin(), replica.end());
    for (const auto& core : replica)
      for (std::size_t i = 0; i < 4; ++i) {
        const auto offset = core[i] - low[i];
        CHECK(offset % options.computation_stride[i] == 0);
        CHECK(offset / options.computation_stride[i] < options.computation_shape[i]);
      }
  }
}

} // namespace

TEST_CASE("SYNC-TOP-3 the single core assignment is one replica on one core") {
  const auto x = device_assignment::single_core(mesh({1, 1, 1, 1})).value_or_throw();
  CHECK(x.core_assignment() == std::vector<cores>{{{0, 0, 0, 0}}});
  CHECK(x.num_replicas() == 1);
  CHECK(x.cores_per_replica() == 1);
  CHECK(to_string(*x.tpu_device()) == "/task:0/device:TPU:0");
  CHECK(to_string(*x.host_device()) == "/task:0/device:CPU:0");
  const auto elsewhere = topology::make({2, 1, 1, 1}, {{{1, 0, 0, 0}}}).value_or_throw();
  CHECK_FALSE(device_assignment::single_core(elsewhere));
}

TEST_CASE("SYNC-ASG-1 an assignment is replicas by cores, all of them on devices") {
  const auto where = mesh({2, 1, 1, 2});
  const auto refuse = [&](std::vector<cores> list) {
    auto got = device_assignment::make(where, std::move(list));
    REQUIRE_FALSE(got);
    CHECK(got.error().code == errc::invalid_argument);
    return got.error().text;
  };
  CHECK(refuse({}) == "device assignment: core_assignment has 0 replicas, needs at least 1");
  CHECK(refuse({{{0, 0, 0, 0}}, {}})
        == "device assignment: core_assignment[1] has 0 cores, needs at least 1");
  CHECK(refuse({{{0, 0, 0, 0}, {0, 0, 0, 1}}, {{1, 0, 0, 0}}})
        == "device assignment: core_assignment[1] has 1 cores, replica 0 has 2");
  CHECK(refuse({{{0, 0, 0, 0}, {0, 1, 0, 1}}})
        == "device assignment: core_assignment[0][1]: topology: no device at (0, 1, 0, 1),"
           " mesh_shape is (2, 1, 1, 2)");
  const auto reversed = device_assignment::make(where, {{{0, 0, 0, 1}}, {{0, 0, 0, 0}}});
  REQUIRE(reversed);
  CHECK(to_string(*reversed->tpu_device(0)) == "/task:0/device:TPU:1");
  CHECK(to_string(*reversed->tpu_device(1)) == "/task:0/device:TPU:0");
}

TEST_CASE("SYNC-ASG-2 a replica's core tells coordinates, ordinal, device and host") {
  const auto where =
    topology::make({2, 1, 1, 2}, {{{0, 0, 0, 0}, {0, 0, 0, 1}}, {{1, 0, 0, 0}, {1, 0, 0, 1}}})
      .value_or_throw();
  const auto x =
    device_assignment::build(where, {.computation_shape = {1, 1, 1, 2}, .num_replicas = 2})
      .value_or_throw();
  CHECK(*x.coordinates(1, 1) == mesh_coordinates{1, 0, 0, 1});
  CHECK(*x.tpu_ordinal(1, 1) == 1);
  CHECK(*x.tpu_ordinal(1, 0) == 0);
  CHECK(to_string(*x.tpu_device(1, 1, "worker")) == "/job:worker/task:1/device:TPU:1");
  CHECK(to_string(*x.host_device(1, 1, "worker")) == "/job:worker/task:1/device:CPU:0");
  CHECK(to_string(*x.host_device(0)) == "/task:0/device:CPU:0");
  CHECK(*x.lookup_replicas(0, 0) == std::vector<std::uint32_t>{0});
  CHECK(*x.lookup_replicas(1, 1) == std::vector<std::uint32_t>{1});
  const auto each_core = device_assignment::build(where, {.num_replicas = 4}).value_or_throw();
  CHECK(*each_core.lookup_replicas(1, 0) == std::vector<std::uint32_t>{2, 3});
}

TEST_CASE("SYNC-ASG-2 what is not there is refused by every lookup") {
  const auto x = built({2, 1, 1, 2}, {.computation_shape = {1, 1, 1, 2}, .num_replicas = 2});
  const auto check = [](const auto& got, const std::string& text) {
    REQUIRE_FALSE(got);
    CHECK(got.error().code == errc::invalid_argument);
    CHECK(got.error().text == "device assignment: " + text);
  };
  check(x.coordinates(2, 0), "replica 2 does not exist; there are 2");
  check(x.tpu_ordinal(3, 0), "replica 3 does not exist; there are 2");
  check(x.tpu_device(0, 2), "logical core 2 does not exist; a replica has 2");
  check(x.host_device(1, 9), "logical core 9 does not exist; a replica has 2");
  check(x.lookup_replicas(0, 2), "logical core 2 does not exist; a replica has 2");
  check(x.lookup_replicas(1, 0), "no replica has its logical core 0 on task 1");
}

TEST_CASE("SYNC-ASG-3 shape and stride have four positive numbers, replicas at least one") {
  const auto where = mesh({2, 2, 1, 2});
  CHECK(refusal(where, {.computation_shape = {1, 1, 1}})
        == "device assignment: computation_shape [1, 1, 1] has 3 elements, must have 4");
  CHECK(refusal(where, {.computation_stride = {}})
        == "device assignment: computation_stride [] has 0 elements, must have 4");
  CHECK(refusal(where, {.computation_shape = {1, 1, 1, 1, 1}})
        == "device assignment: computation_shape [1, 1, 1, 1, 1] has 5 elements, must have 4");
  for (std::size_t dim = 0; dim < 4; ++dim) {
    ints shape{1, 1, 1, 1};
    shape[dim] = 0;
    CHECK(refusal(where, {.computation_shape = shape}).find(" has 0, must be at least 1")
          != std::string::npos);
    shape[dim] = -3;
    CHECK(refusal(where, {.computation_stride = shape}).find(" has -3, must be at least 1")
          != std::string::npos);
  }
  CHECK(refusal(where, {.num_replicas = 0})
        == "device assignment: num_replicas is 0, must be at least 1");
  CHECK(refusal(where, {.order = static_cast<device_order>(9)})
        == "device assignment: order is device_order(9), must be automatic, ring or mesh");
  const auto x = device_assignment::build(where, {}).value_or_throw();
  CHECK(x.core_assignment() == std::vector<cores>{{{0, 0, 0, 0}}});
}

TEST_CASE("SYNC-ASG-4 a footprint larger than the mesh is refused") {
  const auto where = mesh({2, 2, 1, 2});
  CHECK(refusal(where, {.computation_shape = {3, 1, 1, 1}})
        == "device assignment: the footprint of computation_shape (3, 1, 1, 1) with "
           "computation_stride (1, 1, 1, 1) does not fit: 3 cores in dimension 0 of a mesh (2, 2, "
           "1, 2)");
  CHECK(refusal(where, {.computation_shape = {1, 2, 1, 1}, .computation_stride = {1, 2, 1, 1}})
          .find("4 cores in dimension 1")
        != std::string::npos);
  CHECK(refusal(where, {.computation_shape = {1, 1, 1, 2147483647},
                        .computation_stride = {1, 1, 1, 2147483647}})
          .find("4611686014132420609 cores in dimension 3")
        != std::string::npos);
}

TEST_CASE("SYNC-ASG-5 more replicas than tile the mesh are refused, naming both numbers") {
  const auto where = mesh({2, 2, 1, 2});
  const auto text = refusal(where, {.computation_shape = {1, 1, 1, 2}, .num_replicas = 5});
  CHECK(text
        == "device assignment: num_replicas is 5, but at most 4 of computation_shape (1, 1, 1, 2) "
           "with computation_stride (1, 1, 1, 1) fit in a mesh (2, 2, 1, 2)");
  // Strided replicas interleave: two of [2, 1, 1, 1] at stride 2 in a row of 4.
  const assignment_options strided{
    .computation_shape = {2, 1, 1, 1}, .computation_stride = {2, 1, 1, 1}, .num_replicas = 2};
  CHECK(built({4, 1, 1, 1}, strided).num_replicas() == 2);
  auto more = strided;
  more.num_replicas = 3;
  CHECK(refusal(mesh({4, 1, 1, 1}), more).find("is 3, but at most 2") != std::string::npos);
}

TEST_CASE("SYNC-ASG-6 replicas of one core go over the cores of a chip, then x, then y") {
  const auto all = built({2, 2, 1, 2}, {.num_replicas = 8});
  std::string got;
  for (const auto& replica : all.core_assignment())
    got += text_of(replica);
  CHECK(got == mesh_2212_by_core);
  const auto half = built({2, 2, 1, 2}, {.num_replicas = 4});
  CHECK(half.core_assignment()
        == std::vector<cores>{{{0, 0, 0, 0}}, {{0, 0, 0, 1}}, {{1, 0, 0, 0}}, {{1, 0, 0, 1}}});
}

TEST_CASE("SYNC-ASG-6 the grid of replicas is near a cube, the tightest dimension first") {
  // 4 of 8 x 8 chips: 2 x 2, not 4 x 1.
  CHECK(chips_of(built({8, 8, 1, 1}, {.num_replicas = 4})) == "(0,0)(1,0)(0,1)(1,1)");
  // Both cores of a chip before a second row.
  CHECK(chips_of(built({4, 4, 1, 2}, {.num_replicas = 4})) == "(0,0)(0,0)(1,0)(1,0)");
  // A tight dimension takes all it has, the others share the rest.
  CHECK(chips_of(built({2, 8, 1, 1}, {.num_replicas = 6})) == "(0,0)(1,0)(0,1)(1,1)(0,2)(1,2)");
}

TEST_CASE("SYNC-ASG-7 replicas of a chip form a ring; in mesh order they don't") {
  for (auto order : {device_order::automatic, device_order::ring}) {
    const auto x =
      built({2, 2, 1, 2}, {.computation_shape = {1, 1, 1, 2}, .num_replicas = 4, .order = order});
    CHECK(chips_of(x) == "(0,0)(1,0)(1,1)(0,1)");
    CHECK(x.warning().empty());
    for (const auto& replica : x.core_assignment()) {
      CHECK(replica[0][3] == 0);
      CHECK(replica[1][3] == 1);
      CHECK(distance(replica[0], replica[1]) == 0);
    }
  }
  const auto x =
    built({2, 2, 1, 2},
          {.computation_shape = {1, 1, 1, 2}, .num_replicas = 4, .order = device_order::mesh});
  CHECK(chips_of(x) == "(0,0)(1,0)(0,1)(1,1)");
}

TEST_CASE("SYNC-ASG-7 the chips inside a replica form a ring, the cores of a chip adjacent") {
  const auto whole = built({2, 2, 1, 2}, {.computation_shape = {2, 2, 1, 2}});
  CHECK(text_of(whole.core_assignment()[0])
        == "(0, 0, 0, 0)(0, 0, 0, 1)(1, 0, 0, 0)(1, 0, 0, 1)(1, 1, 0, 0)(1, 1, 0, 1)"
           "(0, 1, 0, 0)(0, 1, 0, 1)");
  const auto halves = built({2, 2, 1, 2}, {.computation_shape = {1, 2, 1, 2}, .num_replicas = 2});
  CHECK(text_of(halves.core_assignment()[0]) == "(0, 0, 0, 0)(0, 0, 0, 1)(0, 1, 0, 0)(0, 1, 0, 1)");
  CHECK(text_of(halves.core_assignment()[1]) == "(1, 0, 0, 0)(1, 0, 0, 1)(1, 1, 0, 0)(1, 1, 0, 1)");
  // In mesh order the core varies fastest, then x, then y.
  const auto plain =
    built({2, 2, 1, 2}, {.computation_shape = {2, 2, 1, 2}, .order = device_order::mesh});
  CHECK(text_of(plain.core_assignment()[0]) == mesh_2212_by_core);
}

TEST_CASE("SYNC-ASG-7 sixteen chips in a 4 x 4 mesh form the documented ring") {
  const auto x = built({4, 4, 1, 2}, {.computation_shape = {1, 1, 1, 2}, .num_replicas = 16});
  CHECK(chips_of(x)
        == "(0,0)(1,0)(2,0)(3,0)(3,1)(2,1)(1,1)(1,2)(2,2)(3,2)(3,3)(2,3)(1,3)(0,3)(0,2)(0,1)");
  const auto blocks = built({4, 4, 1, 2}, {.computation_shape = {2, 2, 1, 2}, .num_replicas = 4});
  CHECK(chips_of(blocks) == "(0,0)(2,0)(2,2)(0,2)");
}

TEST_CASE("SYNC-ASG-7 the ring of a 2 x 2 x 2 mesh is the documented one") {
  const auto ring = ring_of_chips(2, 2, 2);
  std::string got;
  for (const auto& chip : ring.chips)
    got += std::to_string(chip[0]) + std::to_string(chip[1]) + std::to_string(chip[2]) + ",";
  CHECK(got == "000,100,110,010,011,111,101,001,");
  CHECK(ring.is_ring);
}

TEST_CASE("SYNC-ASG-7 every box of even extents is walked once, neighbour by neighbour") {
  for (std::int32_t x : {1, 2, 4, 6})
    for (std::int32_t y : {1, 2, 4, 6})
      for (std::int32_t z : {1, 2, 4, 6}) {
        const auto ring = ring_of_chips(x, y, z);
        CAPTURE(to_string(mesh_coordinates{x, y, z, 1}));
        REQUIRE(ring.is_ring);
        CHECK(ring.chips.front() == mesh_coordinates{0, 0, 0, 0});
        CHECK(std::set<mesh_coordinates>(ring.chips.begin(), ring.chips.end()).size()
              == static_cast<std::size_t>(x) * y * z);
        for (std::size_t i = 1; i < ring.chips.size(); ++i)
          CHECK(distance(ring.chips[i - 1], ring.chips[i]) == 1);
        if ((x > 1) + (y > 1) + (z > 1) >= 2) // a line of chips has no way back
          CHECK(distance(ring.chips.back(), ring.chips.front()) == 1);
      }
}

TEST_CASE("SYNC-ASG-8 ring by name is an error where automatic falls back to mesh order") {
  const auto where = mesh({2, 2, 1, 2});
  const auto check = [&](assignment_options options, const std::string& why) {
    options.order = device_order::ring;
    CHECK(refusal(where, options)
          == "device assignment: order is ring, but no ring can be formed: " + why);
    options.order = device_order::automatic;
    const auto fallback = device_assignment::build(where, options).value_or_throw();
    options.order = device_order::mesh;
    CHECK(fallback.core_assignment()
          == device_assignment::build(where, options).value_or_throw().core_assignment());
  };
  check({.num_replicas = 8}, "a replica has 1 of the 2 cores of a chip");
  check({.computation_shape = {1, 1, 1, 2}, .num_replicas = 2},
        "num_replicas 2 does not fill the mesh, which takes 4");
  check({.computation_shape = {1, 1, 1, 2}, .computation_stride = {2, 1, 1, 1}, .num_replicas = 4},
        "computation_stride is (2, 1, 1, 1)");
  CHECK(chips_of(built({2, 2, 1, 2}, {.computation_shape = {1, 1, 1, 2}, .num_replicas = 2}))
        == "(0,0)(1,0)");
}

TEST_CASE("SYNC-ASG-9 an odd extent gives row order and a warning") {
  const assignment_options options{.computation_shape = {1, 1, 1, 2}, .num_replicas = 6};
  const auto x = built({3, 2, 1, 2}, options);
  CHECK(chips_of(x) == "(0,0)(1,0)(2,0)(0,1)(1,1)(2,1)");
  CHECK(x.warning()
        == "device assignment: a mesh (3, 2, 1, 2) with computation_shape (1, 1, 1, 2) has an odd "
           "extent, so chips are assigned in row order and not as a ring");
  auto by_name = options;
  by_name.order = device_order::ring;
  CHECK(built({3, 2, 1, 2}, by_name).warning() == x.warning());
  auto by_mesh = options;
  by_mesh.order = device_order::mesh;
  CHECK(built({3, 2, 1, 2}, by_mesh).warning().empty());
  // Inside a replica too, and a line is no ring that could be missed.
  CHECK_FALSE(built({2, 3, 1, 1}, {.computation_shape = {2, 3, 1, 1}}).warning().empty());
  CHECK(built({3, 1, 1, 1}, {.num_replicas = 3}).warning().empty());
  CHECK_FALSE(ring_of_chips(2, 2, 3).is_ring);
}

TEST_CASE("device assignment: every layout in small meshes is sound") {
  for (const auto& shape : {mesh_coordinates{4, 2, 1, 2}, mesh_coordinates{2, 2, 2, 2},
                            mesh_coordinates{3, 4, 1, 1}, mesh_coordinates{5, 3, 2, 2}}) {
    const auto where = mesh(shape);
    for (const auto& block :
         {ints{1, 1, 1, 1}, ints{1, 1, 1, 2}, ints{2, 1, 1, 1}, ints{2, 2, 1, 2}, ints{1, 2, 2, 1}})
      for (const auto& stride : {ints{1, 1, 1, 1}, ints{2, 1, 1, 1}, ints{1, 2, 1, 2}})
        for (std::uint32_t replicas = 1; replicas <= 30; ++replicas)
          for (auto order : {device_order::automatic, device_order::ring, device_order::mesh}) {
            const assignment_options options{block, stride, replicas, order};
            if (auto x = device_assignment::build(where, options))
              check_sound(*x, options);
          }
  }
}

TEST_CASE("device assignment: a degraded slice gives out cores in task order") {
  const auto where =
    topology::make({2, 2, 1, 1}, {{{1, 1, 0, 0}}, {{0, 0, 0, 0}}, {{1, 0, 0, 0}}}).value_or_throw();
  const auto x = device_assignment::build(where, {.num_replicas = 3}).value_or_throw();
  CHECK(x.core_assignment() == std::vector<cores>{{{1, 1, 0, 0}}, {{0, 0, 0, 0}}, {{1, 0, 0, 0}}});
  CHECK(*x.lookup_replicas(2, 0) == std::vector<std::uint32_t>{2});
  CHECK(refusal(where, {.num_replicas = 4})
        == "device assignment: num_replicas is 4 of 1 cores, the topology has 3 devices");
  CHECK(refusal(where, {.num_replicas = 3, .order = device_order::ring})
        == "device assignment: order is ring, but no ring can be "
           "formed: the mesh has coordinates without a device");
  CHECK(refusal(where, {.computation_stride = {2, 1, 1, 1}, .num_replicas = 2})
        == "device assignment: computation_stride is (2, 1, 1, 1), must "
           "be 1 on a mesh that has coordinates without a device");
}
