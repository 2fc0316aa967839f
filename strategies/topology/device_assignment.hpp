#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <troupe/core/result.hpp>
#include <troupe/strategies/topology/topology.hpp>

/// The map from replicas and their parts to cores of an accelerator slice. Plain values; any thread
/// may read.
namespace troupe {

/// How neighbours are chosen.
enum class device_order : std::uint8_t {
  automatic = 0, ///< a ring when one can be formed, else as `mesh`
  ring = 1,      ///< replicas, and the chips of a replica, follow each other in a ring of chips
  mesh = 2       ///< the core varies fastest, then x, y and z
};

/// "automatic"; "device_order(7)" for a value outside the enum.
std::string to_string(device_order order);

/// The replicas that `device_assignment::build` lays out. Each list has four positive numbers: x,
/// y, z, core.
struct assignment_options {
  std::vector<std::int32_t> computation_shape{1, 1, 1, 1};  ///< block of cores of one replica
  std::vector<std::int32_t> computation_stride{1, 1, 1, 1}; ///< distance between its cores
  std::uint32_t num_replicas = 1;
  device_order order = device_order::automatic;
};

/// Maps (replica, logical core) to a core of a topology. Source: tf.tpu's DeviceAssignment. All
/// errors are `invalid_argument` and name the field and the value.
class device_assignment {
public:
  /// `cores[replica][logical core]`: at least one replica, at least one core in each, equally many
  /// in all; each has a device in `where`. One core may serve several replicas.
  static result<device_assignment> make(topology where,
                                        std::vector<std::vector<mesh_coordinates>> cores);

  /// Packs replicas of one shape into a mesh, none on another's cores. Refuses a footprint (shape
  /// times stride) larger than the mesh, more replicas than fit, and `device_order::ring` when no
  /// ring can be formed: that takes replicas that fill the mesh, whole chips and stride 1.
  ///
  /// On a degraded slice (`!where.is_complete()`) cores are given out in task order instead; the
  /// stride must be 1 and the order not `ring`.
  static result<device_assignment> build(const topology& where, const assignment_options& options);

  /// An assignment of one replica to the core at (0, 0, 0, 0).
  static result<device_assignment> single_core(const topology& where);

  const topology& where() const noexcept { return where_; }
  std::uint32_t num_replicas() const noexcept { return static_cast<std::uint32_t>(cores_.size()); }
  std::uint32_t cores_per_replica() const noexcept {
    return static_cast<std::uint32_t>(cores_.front().size());
  }
  const std::vector<std::vector<mesh_coordinates>>& core_assignment() const noexcept {
    return cores_;
  }
  /// Something to tell the user once, or empty: an extent is odd, so neighbours in row order stand
  /// for a ring.
  const std::string& warning() const noexcept { return warning_; }

  result<mesh_coordinates> coordinates(std::uint32_t replica, std::uint32_t logical_core) const;
  /// The core's number on its task.
  result<std::uint32_t> tpu_ordinal(std::uint32_t replica = 0,
                                    std::uint32_t logical_core = 0) const;
  /// Name of the core: /task:T/device:TPU:d, below /job:J when `job` is not empty.
  result<device_name> tpu_device(std::uint32_t replica = 0, std::uint32_t logical_core = 0,
                                 const std::string& job = "") const;
  /// Name of the host, /task:T/device:CPU:0, of the task that drives the core.
  result<device_name> host_device(std::uint32_t replica = 0, std::uint32_t logical_core = 0,
                                  const std::string& job = "") const;
  /// Replicas, ascending, whose logical core is on that task; an error when there is none.
  result<std::vector<std::uint32_t>> lookup_replicas(std::uint32_t task,
                                                     std::uint32_t logical_core) const;

private:
  device_assignment(topology where, std::vector<std::vector<mesh_coordinates>> cores)
    : where_{std::move(where)}, cores_{std::move(cores)} {}
  topology where_;
  std::vector<std::vector<mesh_coordinates>> cores_;
  std::string warning_{};
};

/// A walk over all chips of a box from (0, 0, 0), z last; the core is 0.
struct chip_ring {
  std::vector<mesh_coordinates> chips{};
  /// False: an odd extent, so `chips` is in row order, x fastest, and not all are neighbours.
  bool is_ring = true;
};

/// Each chip is the next one's neighbour and the last is the first's, except along a line of chips
/// (two extents are 1) and when an extent is odd. @pre extents are positive.
chip_ring ring_of_chips(std::int32_t x, std::int32_t y, std::int32_t z);

} // namespace troupe
