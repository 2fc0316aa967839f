#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <troupe/core/result.hpp>
#include <troupe/strategies/cluster/device_name.hpp>

/// The places of the cores of an accelerator slice. Plain values; any thread may read.
namespace troupe {

/// Coordinates x, y, z and the core on that chip, from 0. Also extents along these.
using mesh_coordinates = std::array<std::int32_t, 4>;

/// "(1, 0, 0, 1)".
std::string to_string(const mesh_coordinates& x);

/// A core's place in the cluster: the n-th device of a task.
struct core_place {
  std::uint32_t task = 0;
  std::uint32_t ordinal = 0;
  friend bool operator==(const core_place&, const core_place&) = default;
};

/// A mesh of chips with cores, and which task drives which core. Source: tf.tpu's Topology.
class topology {
public:
  /// `device_coordinates[task][ordinal]`: every task has the same number of devices, at least one.
  /// `invalid_argument` names the field and the value: an extent below 1, ragged or no devices, a
  /// coordinate outside the mesh, two devices at one coordinate.
  static result<topology> make(const mesh_coordinates& mesh_shape,
                               std::vector<std::vector<mesh_coordinates>> device_coordinates);

  /// A topology of one task that drives every core, x slowest and the core fastest.
  static result<topology> of_one_task(const mesh_coordinates& mesh_shape);

  const mesh_coordinates& mesh_shape() const noexcept { return mesh_shape_; }
  const std::vector<std::vector<mesh_coordinates>>& device_coordinates() const noexcept {
    return devices_;
  }
  std::uint32_t num_tasks() const noexcept { return static_cast<std::uint32_t>(devices_.size()); }
  std::uint32_t devices_per_task() const noexcept {
    return static_cast<std::uint32_t>(devices_.front().size());
  }
  std::uint32_t num_devices() const noexcept { return num_tasks() * devices_per_task(); }
  /// Whether every place in the mesh has a device. A degraded slice lacks some.
  bool is_complete() const noexcept;

  /// Task and ordinal of the core at `at`. Here and in the lookups below: `invalid_argument` when
  /// there is no device.
  result<core_place> place_at(const mesh_coordinates& at) const;
  result<std::uint32_t> task_at(const mesh_coordinates& at) const;
  result<std::uint32_t> ordinal_at(const mesh_coordinates& at) const;
  /// Name of the core: /task:T/device:TPU:d, below /job:J when `job` is not empty.
  result<device_name> device_at(const mesh_coordinates& at, const std::string& job = "") const;
  /// Name of its host: /task:T/device:CPU:0, below /job:J when `job` is not empty.
  result<device_name> host_at(const mesh_coordinates& at, const std::string& job = "") const;

  friend bool operator==(const topology&, const topology&) = default;

private:
  topology() = default;
  mesh_coordinates mesh_shape_{};
  std::vector<std::vector<mesh_coordinates>> devices_{};
  std::map<mesh_coordinates, core_place> places_{};
};

} // namespace troupe
