#include <troupe/strategies/topology/topology.hpp>

#include <optional>

namespace troupe {

namespace {

// Far over any slice; keeps products of extents within 64 bits.
constexpr std::int32_t extent_max = 1 << 14;
constexpr std::int64_t cores_max = 1 << 20;

failure bad_topology(const std::string& text) {
  return make_failure(errc::invalid_argument, "topology: " + text);
}

std::string device_text(std::size_t task, std::size_t ordinal) {
  return "device_coordinates[" + std::to_string(task) + "][" + std::to_string(ordinal) + "]";
}

result<void> check_mesh(const mesh_coordinates& mesh) {
  std::int64_t cores = 1;
  for (auto extent : mesh) {
    if (extent < 1 || extent > extent_max)
      return bad_topology("mesh_shape " + to_string(mesh) + " has the extent "
                          + std::to_string(extent) + ", must be from 1 to "
                          + std::to_string(extent_max));
    cores *= extent;
  }
  if (cores > cores_max)
    return bad_topology("mesh_shape " + to_string(mesh) + " has " + std::to_string(cores)
                        + " cores, may have at most " + std::to_string(cores_max));
  return {};
}

bool is_inside(const mesh_coordinates& at, const mesh_coordinates& mesh) {
  for (std::size_t i = 0; i < mesh.size(); ++i)
    if (at[i] < 0 || at[i] >= mesh[i])
      return false;
  return true;
}

result<void> check_tasks(const std::vector<std::vector<mesh_coordinates>>& devices) {
  if (devices.empty())
    return bad_topology("device_coordinates has 0 tasks, needs at least 1");
  for (std::size_t task = 0; task < devices.size(); ++task) {
    if (devices[task].empty())
      return bad_topology("device_coordinates[" + std::to_string(task)
                          + "] has 0 devices, needs at least 1");
    if (devices[task].size() != devices[0].size())
      return bad_topology("device_coordinates[" + std::to_string(task) + "] has "
                          + std::to_string(devices[task].size()) + " devices, task 0 has "
                          + std::to_string(devices[0].size()));
  }
  return {};
}

device_name name_of(const std::string& job, std::uint32_t task, const char* kind,
                    std::uint32_t index) {
  return {job.empty() ? std::nullopt : std::optional{job}, {}, task, kind, index};
}

} // namespace

std::string to_string(const mesh_coordinates& x) {
  return "(" + std::to_string(x[0]) + ", " + std::to_string(x[1]) + ", " + std::to_string(x[2])
         + ", " + std::to_string(x[3]) + ")";
}

result<topology> topology::make(const mesh_coordinates& mesh_shape,
                                std::vector<std::vector<mesh_coordinates>> device_coordinates) {
  if (auto mesh = check_mesh(mesh_shape); !mesh)
    return mesh.error();
  if (auto tasks = check_tasks(device_coordinates); !tasks)
    return tasks.error();
  topology out;
  for (std::size_t task = 0; task < device_coordinates.size(); ++task)
    for (std::size_t ordinal = 0; ordinal < device_coordinates[task].size(); ++ordinal) {
      const auto& at = device_coordinates[task][ordinal];
      if (!is_inside(at, mesh_shape))
        return bad_topology(device_text(task, ordinal) + " = " + to_string(at)
                            + " is outside mesh_shape " + to_string(mesh_shape));
      const core_place place{static_cast<std::uint32_t>(task), static_cast<std::uint32_t>(ordinal)};
      if (auto [first, added] = out.places_.emplace(at, place); !added)
        return bad_topology(device_text(task, ordinal) + " = " + to_string(at) + " is already "
                            + device_text(first->second.task, first->second.ordinal));
    }
  out.mesh_shape_ = mesh_shape;
  out.devices_ = std::move(device_coordinates);
  return out;
}

result<topology> topology::of_one_task(const mesh_coordinates& mesh_shape) {
  if (auto mesh = check_mesh(mesh_shape); !mesh)
    return mesh.error();
  std::vector<mesh_coordinates> cores;
  mesh_coordinates at{};
  for (at[0] = 0; at[0] < mesh_shape[0]; ++at[0])
    for (at[1] = 0; at[1] < mesh_shape[1]; ++at[1])
      for (at[2] = 0; at[2] < mesh_shape[2]; ++at[2])
        for (at[3] = 0; at[3] < mesh_shape[3]; ++at[3])
          cores.push_back(at);
  return make(mesh_shape, {std::move(cores)});
}

bool topology::is_complete() const noexcept {
  std::size_t cores = 1;
  for (auto extent : mesh_shape_)
    cores *= static_cast<std::size_t>(extent);
  return places_.size() == cores; // they are distinct and inside
}

result<core_place> topology::place_at(const mesh_coordinates& at) const {
  auto place = places_.find(at);
  if (place == places_.end())
    return bad_topology("no device at " + to_string(at) + ", mesh_shape is "
                        + to_string(mesh_shape_));
  return place->second;
}

result<std::uint32_t> topology::task_at(const mesh_coordinates& at) const {
  auto place = place_at(at);
  if (!place)
    return place.error();
  return place->task;
}

result<std::uint32_t> topology::ordinal_at(const mesh_coordinates& at) const {
  auto place = place_at(at);
  if (!place)
    return place.error();
  return place->ordinal;
}

result<device_name> topology::device_at(const mesh_coordinates& at, const std::string& job) const {
  auto place = place_at(at);
  if (!place)
    return place.error();
  return name_of(job, place->task, "TPU", place->ordinal);
}

result<device_name> topology::host_at(const mesh_coordinates& at, const std::string& job) const {
  auto place = place_at(at);
  if (!place)
    return place.error();
  return name_of(job, place->task, "CPU", 0);
}

} // namespace troupe
