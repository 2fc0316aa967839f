#include <troupe/strategies/topology/device_assignment.hpp>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <utility>

namespace troupe {

namespace {

// Dimensions in the order in which neighbours are chosen: the cores of a chip first, then x, y, z.
constexpr std::array<std::size_t, 4> fastest_first{3, 0, 1, 2};

failure bad_assignment(const std::string& text) {
  return make_failure(errc::invalid_argument, "device assignment: " + text);
}

std::int64_t product(const mesh_coordinates& x) {
  return std::accumulate(x.begin(), x.end(), std::int64_t{1}, std::multiplies<>{});
}

std::string list_of(const std::vector<std::int32_t>& values) {
  std::string out;
  for (auto value : values)
    out += (out.empty() ? "" : ", ") + std::to_string(value);
  return "[" + out + "]";
}

result<mesh_coordinates> four_positive(const char* field, const std::vector<std::int32_t>& values) {
  if (values.size() != 4)
    return bad_assignment(std::string{field} + " " + list_of(values) + " has "
                          + std::to_string(values.size()) + " elements, must have 4");
  for (auto value : values)
    if (value < 1)
      return bad_assignment(std::string{field} + " " + list_of(values) + " has "
                            + std::to_string(value) + ", must be at least 1");
  mesh_coordinates out{};
  std::copy(values.begin(), values.end(), out.begin());
  return out;
}

// -- rings of chips ------------------------------------------------------------------------------

using chips = std::vector<mesh_coordinates>;
using plane_walk = std::vector<std::array<std::int32_t, 2>>;

// A closed walk over a plane of even extents without its start (0, 0): snakes over the columns from
// 1 on, then comes back along column 0.
plane_walk open_ring(std::int32_t width, std::int32_t height) {
  plane_walk out;
  for (std::int32_t row = 0; row < height; ++row)
    for (std::int32_t i = 1; i < width; ++i)
      out.push_back({row % 2 == 0 ? i : width - i, row});
  for (std::int32_t row = height - 1; row > 0; --row)
    out.push_back({0, row});
  return out;
}

chips row_order(std::int32_t x, std::int32_t y, std::int32_t z) {
  chips out;
  for (std::int32_t k = 0; k < z; ++k)
    for (std::int32_t j = 0; j < y; ++j)
      for (std::int32_t i = 0; i < x; ++i)
        out.push_back({i, j, k, 0});
  return out;
}

// The ring of a plane that is extended along dimensions `a` and `b`.
chips flat_ring(const mesh_coordinates& extents, std::size_t a, std::size_t b) {
  chips out{{0, 0, 0, 0}};
  for (const auto& step : open_ring(extents[a], extents[b])) {
    mesh_coordinates at{};
    at[a] = step[0];
    at[b] = step[1];
    out.push_back(at);
  }
  return out;
}

// Planes are walked to and fro, one above the other, all but their corners; the corners lead back.
chips solid_ring(const mesh_coordinates& extents) {
  chips out{{0, 0, 0, 0}};
  auto plane = open_ring(extents[0], extents[1]);
  for (std::int32_t z = 0; z < extents[2]; ++z) {
    for (const auto& step : plane)
      out.push_back({step[0], step[1], z, 0});
    std::reverse(plane.begin(), plane.end());
  }
  for (std::int32_t z = extents[2] - 1; z > 0; --z)
    out.push_back({0, 0, z, 0});
  return out;
}

// -- laying out ----------------------------------------------------------------------------------

struct layout {
  mesh_coordinates mesh{};
  mesh_coordinates shape{};
  mesh_coordinates stride{};
  mesh_coordinates footprint{};
  mesh_coordinates replicas_max{}; // along each dimension
  std::uint32_t replicas = 0;
};

result<layout> plan_layout(const topology& where, const assignment_options& options) {
  auto shape = four_positive("computation_shape", options.computation_shape);
  if (!shape)
    return shape.error();
  auto stride = four_positive("computation_stride", options.computation_stride);
  if (!stride)
    return stride.error();
  layout out{where.mesh_shape(), *shape, *stride, {}, {}, options.num_replicas};
  for (std::size_t i = 0; i < 4; ++i) {
    const auto footprint = std::int64_t{out.shape[i]} * out.stride[i];
    if (footprint > out.mesh[i])
      return bad_assignment("the footprint of computation_shape " + to_string(out.shape)
                            + " with computation_stride " + to_string(out.stride)
                            + " does not fit: " + std::to_string(footprint) + " cores in dimension "
                            + std::to_string(i) + " of a mesh " + to_string(out.mesh));
    out.footprint[i] = static_cast<std::int32_t>(footprint);
    out.replicas_max[i] = out.mesh[i] / out.footprint[i] * out.stride[i];
  }
  if (options.num_replicas < 1)
    return bad_assignment("num_replicas is 0, must be at least 1");
  if (auto max = product(out.replicas_max); options.num_replicas > max)
    return bad_assignment("num_replicas is " + std::to_string(options.num_replicas)
                          + ", but at most " + std::to_string(max) + " of computation_shape "
                          + to_string(out.shape) + " with computation_stride "
                          + to_string(out.stride) + " fit in a mesh " + to_string(out.mesh));
  return out;
}

// The smallest edge of a cube of `dims` dimensions with room for `count`.
std::int64_t cube_edge(std::int64_t count, std::size_t dims) {
  for (std::int64_t edge = 1;; ++edge) {
    std::int64_t room = 1;
    for (std::size_t i = 0; i < dims && room < count; ++i)
      room *= edge;
    if (room >= count)
      return edge;
  }
}

// A grid with room for all replicas, as near to a cube as there is room for. The dimensions with
// the least room choose first, so that what is left over always fits in the others.
mesh_coordinates grid_of(const layout& x) {
  auto dims = fastest_first;
  std::stable_sort(dims.begin(), dims.end(),
                   [&](auto a, auto b) { return x.replicas_max[a] < x.replicas_max[b]; });
  mesh_coordinates grid{};
  std::int64_t left = x.replicas;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const std::int64_t edge =
      std::min<std::int64_t>(cube_edge(left, dims.size() - i), x.replicas_max[dims[i]]);
    grid[dims[i]] = static_cast<std::int32_t>(edge);
    left = (left + edge - 1) / edge;
  }
  TROUPE_ASSERT(left == 1, "a grid has room for all replicas that fit");
  return grid;
}

mesh_coordinates position_in(const mesh_coordinates& grid, std::int64_t n) {
  mesh_coordinates out{};
  for (auto dim : fastest_first) {
    out[dim] = static_cast<std::int32_t>(n % grid[dim]);
    n /= grid[dim];
  }
  return out;
}

std::vector<chips> mesh_layout(const layout& x) {
  const auto grid = grid_of(x);
  std::vector<chips> out(x.replicas);
  for (std::uint32_t replica = 0; replica < x.replicas; ++replica) {
    const auto place = position_in(grid, replica);
    for (std::int64_t core = 0; core < product(x.shape); ++core) {
      auto at = position_in(x.shape, core);
      for (std::size_t i = 0; i < 4; ++i) // strided replicas interleave within a footprint
        at[i] =
          at[i] * x.stride[i] + place[i] / x.stride[i] * x.footprint[i] + place[i] % x.stride[i];
      out[replica].push_back(at);
    }
  }
  return out;
}

// Empty when a ring can be formed, else why not.
std::string no_ring_because(const topology& where, const layout& x) {
  if (!where.is_complete())
    return "the mesh has coordinates without a device";
  if (x.shape[3] != x.mesh[3])
    return "a replica has " + std::to_string(x.shape[3]) + " of the " + std::to_string(x.mesh[3])
           + " cores of a chip";
  if (product(x.stride) != 1)
    return "computation_stride is " + to_string(x.stride);
  if (x.replicas != product(x.replicas_max))
    return "num_replicas " + std::to_string(x.replicas) + " does not fill the mesh, which takes "
           + std::to_string(product(x.replicas_max));
  return {};
}

std::vector<chips> ring_layout(const layout& x, bool& is_ring) {
  // The replicas fill the mesh, so their grid is all there is room for.
  const auto outer = ring_of_chips(x.replicas_max[0], x.replicas_max[1], x.replicas_max[2]);
  const auto inner = ring_of_chips(x.shape[0], x.shape[1], x.shape[2]);
  is_ring = outer.is_ring && inner.is_ring;
  std::vector<chips> out;
  for (const auto& block : outer.chips) {
    chips cores;
    for (const auto& chip : inner.chips)
      for (std::int32_t core = 0; core < x.shape[3]; ++core)
        cores.push_back({block[0] * x.shape[0] + chip[0], block[1] * x.shape[1] + chip[1],
                         block[2] * x.shape[2] + chip[2], core});
    out.push_back(std::move(cores));
  }
  return out;
}

result<std::vector<chips>> task_order_layout(const topology& where, const layout& x) {
  if (product(x.stride) != 1)
    return bad_assignment("computation_stride is " + to_string(x.stride)
                          + ", must be 1 on a mesh that has coordinates without a device");
  const auto per_replica = product(x.shape);
  if (x.replicas * per_replica > where.num_devices())
    return bad_assignment("num_replicas is " + std::to_string(x.replicas) + " of "
                          + std::to_string(per_replica) + " cores, the topology has "
                          + std::to_string(where.num_devices()) + " devices");
  std::vector<chips> out(x.replicas);
  std::int64_t next = 0;
  for (const auto& task : where.device_coordinates())
    for (const auto& core : task)
      if (auto replica = static_cast<std::size_t>(next++ / per_replica); replica < out.size())
        out[replica].push_back(core);
  return out;
}

} // namespace

std::string to_string(device_order order) {
  switch (order) {
    case device_order::automatic: return "automatic";
    case device_order::ring: return "ring";
    case device_order::mesh: return "mesh";
  }
  return "device_order(" + std::to_string(static_cast<int>(order)) + ")";
}

chip_ring ring_of_chips(std::int32_t x, std::int32_t y, std::int32_t z) {
  const mesh_coordinates extents{x, y, z, 1};
  if ((x > 1) + (y > 1) + (z > 1) <= 1)
    return {row_order(x, y, z), true};
  const auto odd = [](std::int32_t extent) { return extent > 1 && extent % 2 != 0; };
  if (odd(x) || odd(y) || odd(z))
    return {row_order(x, y, z), false};
  if (z == 1)
    return {flat_ring(extents, 0, 1), true};
  if (y == 1)
    return {flat_ring(extents, 0, 2), true};
  if (x == 1)
    return {flat_ring(extents, 1, 2), true};
  return {solid_ring(extents), true};
}

result<device_assignment> device_assignment::make(
  topology where, std::vector<std::vector<mesh_coordinates>> cores) {
  if (cores.empty())
    return bad_assignment("core_assignment has 0 replicas, needs at least 1");
  for (std::size_t replica = 0; replica < cores.size(); ++replica) {
    const auto name = "core_assignment[" + std::to_string(replica) + "]";
    if (cores[replica].empty())
      return bad_assignment(name + " has 0 cores, needs at least 1");
    if (cores[replica].size() != cores[0].size())
      return bad_assignment(name + " has " + std::to_string(cores[replica].size())
                            + " cores, replica 0 has " + std::to_string(cores[0].size()));
    for (std::size_t core = 0; core < cores[replica].size(); ++core)
      if (auto place = where.place_at(cores[replica][core]); !place)
        return bad_assignment(name + "[" + std::to_string(core) + "]: " + place.error().text);
  }
  return device_assignment{std::move(where), std::move(cores)};
}

result<device_assignment> device_assignment::build(const topology& where,
                                                   const assignment_options& options) {
  auto plan = plan_layout(where, options);
  if (!plan)
    return plan.error();
  if (options.order > device_order::mesh)
    return bad_assignment("order is " + to_string(options.order)
                          + ", must be automatic, ring or mesh");
  const auto no_ring = no_ring_because(where, *plan);
  if (options.order == device_order::ring && !no_ring.empty())
    return bad_assignment("order is ring, but no ring can be formed: " + no_ring);
  if (!where.is_complete()) {
    auto cores = task_order_layout(where, *plan);
    return cores ? make(where, std::move(*cores)) : cores.error();
  }
  if (options.order == device_order::mesh || !no_ring.empty())
    return make(where, mesh_layout(*plan));
  bool is_ring = true;
  auto out = make(where, ring_layout(*plan, is_ring));
  if (out && !is_ring)
    out->warning_ = "device assignment: a mesh " + to_string(plan->mesh)
                    + " with computation_shape " + to_string(plan->shape)
                    + " has an odd extent, so chips are assigned in row order and not as a ring";
  return out;
}

result<device_assignment> device_assignment::single_core(const topology& where) {
  return make(where, {{{0, 0, 0, 0}}});
}

result<mesh_coordinates> device_assignment::coordinates(std::uint32_t replica,
                                                        std::uint32_t logical_core) const {
  if (replica >= num_replicas())
    return bad_assignment("replica " + std::to_string(replica) + " does not exist; there are "
                          + std::to_string(num_replicas()));
  if (logical_core >= cores_per_replica())
    return bad_assignment("logical core " + std::to_string(logical_core) + " does not exist"
                          + "; a replica has " + std::to_string(cores_per_replica()));
  return cores_[replica][logical_core];
}

result<std::uint32_t> device_assignment::tpu_ordinal(std::uint32_t replica,
                                                     std::uint32_t logical_core) const {
  auto at = coordinates(replica, logical_core);
  return at ? where_.ordinal_at(*at) : at.error();
}

result<device_name> device_assignment::tpu_device(std::uint32_t replica, std::uint32_t logical_core,
                                                  const std::string& job) const {
  auto at = coordinates(replica, logical_core);
  return at ? where_.device_at(*at, job) : at.error();
}

result<device_name> device_assignment::host_device(std::uint32_t replica,
                                                   std::uint32_t logical_core,
                                                   const std::string& job) const {
  auto at = coordinates(replica, logical_core);
  return at ? where_.host_at(*at, job) : at.error();
}

result<std::vector<std::uint32_t>> device_assignment::lookup_replicas(
  std::uint32_t task, std::uint32_t logical_core) const {
  std::vector<std::uint32_t> out;
  for (std::uint32_t replica = 0; replica < num_replicas(); ++replica) {
    auto at = coordinates(replica, logical_core);
    if (!at)
      return at.error();
    if (*where_.task_at(*at) == task)
      out.push_back(replica);
  }
  if (out.empty())
    return bad_assignment("no replica has its logical core " + std::to_string(logical_core)
                          + " on task " + std::to_string(task));
  return out;
}

} // namespace troupe
