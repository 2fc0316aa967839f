#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <troupe/core/result.hpp>
#include <troupe/core/tensor.hpp>

/// Placement of one replica on several devices: its cores are logical devices 0 to n - 1, whatever
/// they are in the slice (`device_assignment` tells). Pure functions; any thread. Source:
/// TPUStrategy's logical devices. Errors are `invalid_argument` and name the field and the value.
namespace troupe {

/// Whether `index` is one of a replica's `count` logical devices.
result<void> check_logical_device(std::uint32_t index, std::uint32_t count);

/// Whether a tensor may be put on logical device `index` by hand: as above, and `spmd` is off, for
/// with it the partitioner owns the placement.
result<void> check_assign_to_logical_device(std::uint32_t index, std::uint32_t count, bool spmd);

/// Cuts `x` in `dims[i]` equal parts along each axis i. Tile j, in row-major order of the tiles, is
/// for logical device j. Tiles that are whole rows share `x`'s memory, others are copies. Refuses
/// another number of dims than axes, a dim below 1, an extent that it doesn't divide, and a product
/// other than `count`.
result<std::vector<tensor>> split_to_logical_devices(const tensor& x,
                                                     std::span<const std::int64_t> dims,
                                                     std::uint32_t count);

/// Joins the tiles that `split_to_logical_devices` made. They must agree in dtype and shape, and
/// their number must be the product of `dims`.
result<tensor> join_from_logical_devices(std::span<const tensor> tiles,
                                         std::span<const std::int64_t> dims);

/// A tensor for each of `count` logical devices, all sharing the memory of `x`.
result<std::vector<tensor>> replicate_to_logical_devices(const tensor& x, std::uint32_t count);

} // namespace troupe
