#include <doctest/doctest.h>

#include <troupe/strategies/topology/topology.hpp>

#include <string>
#include <vector>

using namespace troupe;

namespace {

// Two tasks, each with the two chips of one row: (x, y, 0, core), y is the task.
topology two_tasks() {
  return topology::make({2, 2, 1, 2}, {{{0, 0, 0, 0}, {0, 0, 0, 1}, {1, 0, 0, 0}, {1, 0, 0, 1}},
                                       {{0, 1, 0, 0}, {0, 1, 0, 1}, {1, 1, 0, 0}, {1, 1, 0, 1}}})
    .value_or_throw();
}

std::string refusal(const mesh_coordinates& mesh,
                    std::vector<std::vector<mesh_coordinates>> devices) {
  auto got = topology::make(mesh, std::move(devices));
  REQUIRE_FALSE(got);
  CHECK(got.error().code == errc::invalid_argument);
  return got.error().text;
}

} // namespace

TEST_CASE("SYNC-TOP-1 a topology is a mesh and the tasks' devices in it") {
  const auto x = two_tasks();
  CHECK(x.mesh_shape() == mesh_coordinates{2, 2, 1, 2});
  CHECK(x.num_tasks() == 2);
  CHECK(x.devices_per_task() == 4);
  CHECK(x.num_devices() == 8);
  CHECK(x.device_coordinates()[1][2] == mesh_coordinates{1, 1, 0, 0});
  CHECK(x.is_complete());
  const auto degraded = topology::make({2, 2, 1, 2}, {{{0, 0, 0, 0}}, {{1, 1, 0, 1}}});
  REQUIRE(degraded);
  CHECK_FALSE(degraded->is_complete());
  CHECK(degraded->num_devices() == 2);
}

TEST_CASE("SYNC-TOP-1 extents below 1 in any dimension are refused") {
  for (std::size_t dim = 0; dim < 4; ++dim)
    for (std::int32_t extent : {0, -1, 16385}) {
      mesh_coordinates mesh{1, 1, 1, 1};
      mesh[dim] = extent;
      const auto text = refusal(mesh, {{{0, 0, 0, 0}}});
      CHECK(text
            == "topology: mesh_shape " + to_string(mesh) + " has the extent "
                 + std::to_string(extent) + ", must be from 1 to 16384");
    }
  CHECK(refusal({1024, 1024, 2, 1}, {{{0, 0, 0, 0}}})
        == "topology: mesh_shape (1024, 1024, 2, 1) has 2097152 cores, may have at most 1048576");
  CHECK_FALSE(topology::of_one_task({1, 0, 1, 1}));
}

TEST_CASE("SYNC-TOP-1 a coordinate outside the mesh in any dimension is refused") {
  for (std::size_t dim = 0; dim < 4; ++dim)
    for (std::int32_t value : {-1, 2}) {
      mesh_coordinates at{0, 0, 0, 0};
      at[dim] = value;
      CHECK(refusal({2, 2, 2, 2}, {{{1, 1, 1, 1}, at}})
            == "topology: device_coordinates[0][1] = " + to_string(at)
                 + " is outside mesh_shape (2, 2, 2, 2)");
    }
}

TEST_CASE("SYNC-TOP-1 the array is tasks by devices, full and without doubles") {
  CHECK(refusal({1, 1, 1, 1}, {}) == "topology: device_coordinates has 0 tasks, needs at least 1");
  CHECK(refusal({1, 1, 1, 1}, {{}})
        == "topology: device_coordinates[0] has 0 devices, needs at least 1");
  CHECK(refusal({2, 1, 1, 2}, {{{0, 0, 0, 0}, {0, 0, 0, 1}}, {{1, 0, 0, 0}}})
        == "topology: device_coordinates[1] has 1 devices, task 0 has 2");
  CHECK(refusal({2, 1, 1, 1}, {{{1, 0, 0, 0}}, {{1, 0, 0, 0}}})
        == "topology: device_coordinates[1][0] = (1, 0, 0, 0) is already device_coordinates[0][0]");
}

TEST_CASE("SYNC-TOP-2 a coordinate tells task, ordinal, device and host") {
  const auto x = two_tasks();
  for (std::uint32_t task = 0; task < 2; ++task)
    for (std::uint32_t ordinal = 0; ordinal < 4; ++ordinal) {
      const auto at = x.device_coordinates()[task][ordinal];
      CHECK(*x.place_at(at) == core_place{task, ordinal});
      CHECK(*x.task_at(at) == task);
      CHECK(*x.ordinal_at(at) == ordinal);
      CHECK(to_string(*x.device_at(at, "worker"))
            == "/job:worker/task:" + std::to_string(task)
                 + "/device:TPU:" + std::to_string(ordinal));
      CHECK(to_string(*x.device_at(at))
            == "/task:" + std::to_string(task) + "/device:TPU:" + std::to_string(ordinal));
      CHECK(to_string(*x.host_at(at)) == "/task:" + std::to_string(task) + "/device:CPU:0");
      CHECK(to_string(*x.host_at(at, "w"))
            == "/job:w/task:" + std::to_string(task) + "/device:CPU:0");
    }
}

TEST_CASE("SYNC-TOP-2 every lookup refuses a coordinate without a device") {
  const auto x = topology::make({2, 1, 1, 1}, {{{1, 0, 0, 0}}}).value_or_throw();
  for (const auto& at : {mesh_coordinates{0, 0, 0, 0}, mesh_coordinates{2, 0, 0, 0}}) {
    const auto text = "topology: no device at " + to_string(at) + ", mesh_shape is (2, 1, 1, 1)";
    const auto check = [&](const auto& got) {
      REQUIRE_FALSE(got);
      CHECK(got.error().code == errc::invalid_argument);
      CHECK(got.error().text == text);
    };
    check(x.place_at(at));
    check(x.task_at(at));
    check(x.ordinal_at(at));
    check(x.device_at(at, "j"));
    check(x.host_at(at, "j"));
  }
}

TEST_CASE("topology: one task may drive a whole mesh") {
  const auto x = topology::of_one_task({2, 3, 1, 2}).value_or_throw();
  CHECK(x.num_tasks() == 1);
  CHECK(x.num_devices() == 12);
  CHECK(x.is_complete());
  CHECK(*x.ordinal_at({0, 0, 0, 1}) == 1);
  CHECK(*x.ordinal_at({0, 2, 0, 0}) == 4);
  CHECK(*x.ordinal_at({1, 0, 0, 0}) == 6);
}
