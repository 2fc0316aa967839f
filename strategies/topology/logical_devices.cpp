#include <troupe/strategies/topology/logical_devices.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>

namespace troupe {

namespace {

failure bad_logical_devices(const std::string& text) {
  return make_failure(errc::invalid_argument, "logical devices: " + text);
}

std::string list_of(std::span<const std::int64_t> dims) {
  return to_string(shape_t{dims.begin(), dims.end()});
}

// Tiles in the grid `dims`; none when they are more than `limit`, so no product overflows.
std::optional<std::size_t> tiles_in(std::span<const std::int64_t> dims, std::size_t limit) {
  std::size_t out = 1;
  for (auto dim : dims) {
    if (static_cast<std::uint64_t>(dim) > limit / out)
      return std::nullopt;
    out *= static_cast<std::size_t>(dim);
  }
  return out;
}

result<void> check_dims(std::span<const std::int64_t> dims, std::size_t rank) {
  if (dims.size() != rank)
    return bad_logical_devices("dims " + list_of(dims) + " has " + std::to_string(dims.size())
                               + " elements, the tensor has rank " + std::to_string(rank));
  for (auto dim : dims)
    if (dim < 1)
      return bad_logical_devices("dims " + list_of(dims) + " has " + std::to_string(dim)
                                 + ", must be at least 1");
  return {};
}

result<void> check_split(const tensor& x, std::span<const std::int64_t> dims, std::uint32_t count) {
  if (!x.defined())
    return bad_logical_devices("the tensor has no value");
  if (auto fine = check_dims(dims, x.rank()); !fine)
    return fine;
  for (std::size_t axis = 0; axis < dims.size(); ++axis)
    if (x.shape()[axis] % dims[axis] != 0)
      return bad_logical_devices("axis " + std::to_string(axis) + " of shape "
                                 + to_string(x.shape()) + " is not divisible by "
                                 + std::to_string(dims[axis]) + " of dims " + list_of(dims));
  if (auto tiles = tiles_in(dims, count); tiles != count)
    return bad_logical_devices(
      "dims " + list_of(dims) + " make "
      + (tiles ? std::to_string(*tiles) : "more than " + std::to_string(count))
      + " tiles, there are " + std::to_string(count) + " logical devices");
  return {};
}

// Copies between a whole tensor and the tiles in it, run by run along the last axis.
class tile_copier {
public:
  tile_copier(const shape_t& tile_shape, std::span<const std::int64_t> dims,
              std::size_t element_bytes)
    : tile_shape_{tile_shape}, dims_{dims}, strides_bytes_(tile_shape.size()) {
    auto stride_bytes = element_bytes;
    for (auto axis = tile_shape.size(); axis > 0; --axis) {
      strides_bytes_[axis - 1] = stride_bytes;
      stride_bytes *= static_cast<std::size_t>(tile_shape[axis - 1] * dims[axis - 1]);
    }
    const auto last = tile_shape.empty() ? 1 : static_cast<std::size_t>(tile_shape.back());
    run_bytes_ = last * element_bytes;
  }

  // Calls `move(offset in the whole, offset in the tile, bytes)` for each run of tile `number`.
  template <class Move>
  void each_run(std::size_t number, const Move& move) const {
    std::size_t begin = 0;
    for (auto axis = dims_.size(); axis > 0; --axis) {
      const auto dim = static_cast<std::size_t>(dims_[axis - 1]);
      begin +=
        number % dim * static_cast<std::size_t>(tile_shape_[axis - 1]) * strides_bytes_[axis - 1];
      number /= dim;
    }
    std::size_t in_tile = 0;
    walk(0, begin, in_tile, move);
  }

private:
  template <class Move>
  void walk(std::size_t axis, std::size_t in_whole, std::size_t& in_tile, const Move& move) const {
    if (axis + 1 >= tile_shape_.size()) {
      move(in_whole, in_tile, run_bytes_);
      in_tile += run_bytes_;
      return;
    }
    for (std::int64_t i = 0; i < tile_shape_[axis]; ++i)
      walk(axis + 1, in_whole + static_cast<std::size_t>(i) * strides_bytes_[axis], in_tile, move);
  }

  const shape_t& tile_shape_;
  std::span<const std::int64_t> dims_;
  std::vector<std::size_t> strides_bytes_;
  std::size_t run_bytes_ = 0;
};

// Whether tiles are runs of rows: only axis 0 is cut.
bool cuts_rows_only(std::span<const std::int64_t> dims) {
  return std::all_of(dims.begin() + (dims.empty() ? 0 : 1), dims.end(),
                     [](auto dim) { return dim == 1; });
}

std::vector<tensor> split_rows(const tensor& x, std::size_t count) {
  if (count == 1)
    return {x};
  std::vector<tensor> out;
  const auto rows = x.rows() / static_cast<std::int64_t>(count);
  for (std::size_t i = 0; i < count; ++i)
    out.push_back(
      x.rows(static_cast<std::int64_t>(i) * rows, static_cast<std::int64_t>(i + 1) * rows));
  return out;
}

result<void> check_join(std::span<const tensor> tiles, std::span<const std::int64_t> dims) {
  if (tiles.empty() || !tiles[0].defined())
    return bad_logical_devices("no tiles to join");
  if (auto fine = check_dims(dims, tiles[0].rank()); !fine)
    return fine;
  if (tiles_in(dims, tiles.size()) != tiles.size())
    return bad_logical_devices("dims " + list_of(dims) + " do not match the "
                               + std::to_string(tiles.size()) + " tiles given");
  for (std::size_t i = 1; i < tiles.size(); ++i)
    if (tiles[i].type() != tiles[0].type() || tiles[i].shape() != tiles[0].shape()
        || !tiles[i].defined())
      return bad_logical_devices("tile " + std::to_string(i) + " is " + to_string(tiles[i].type())
                                 + to_string(tiles[i].shape()) + ", tile 0 is "
                                 + to_string(tiles[0].type()) + to_string(tiles[0].shape()));
  return {};
}

} // namespace

result<void> check_logical_device(std::uint32_t index, std::uint32_t count) {
  if (index >= count)
    return bad_logical_devices("logical device " + std::to_string(index)
                               + " does not exist; a replica has " + std::to_string(count));
  return {};
}

result<void> check_assign_to_logical_device(std::uint32_t index, std::uint32_t count, bool spmd) {
  if (spmd)
    return bad_logical_devices("a tensor cannot be assigned to logical device "
                               + std::to_string(index)
                               + " while SPMD partitioning is on; split or replicate it");
  return check_logical_device(index, count);
}

result<std::vector<tensor>> split_to_logical_devices(const tensor& x,
                                                     std::span<const std::int64_t> dims,
                                                     std::uint32_t count) {
  if (auto fine = check_split(x, dims, count); !fine)
    return fine.error();
  if (cuts_rows_only(dims))
    return split_rows(x, count);
  auto tile_shape = x.shape();
  for (std::size_t axis = 0; axis < dims.size(); ++axis)
    tile_shape[axis] /= dims[axis];
  const tile_copier copier{tile_shape, dims, size_of(x.type())};
  std::vector<tensor> out;
  for (std::size_t i = 0; i < count; ++i) {
    tensor tile{x.type(), tile_shape};
    if (tile.size() > 0)
      copier.each_run(i, [&](std::size_t in_whole, std::size_t in_tile, std::size_t bytes) {
        std::memcpy(tile.mutable_bytes().data() + in_tile, x.bytes().data() + in_whole, bytes);
      });
    out.push_back(std::move(tile));
  }
  return out;
}

result<tensor> join_from_logical_devices(std::span<const tensor> tiles,
                                         std::span<const std::int64_t> dims) {
  if (auto fine = check_join(tiles, dims); !fine)
    return fine.error();
  if (tiles.size() == 1)
    return tiles[0];
  const auto& tile_shape = tiles[0].shape();
  auto shape = tile_shape;
  for (std::size_t axis = 0; axis < dims.size(); ++axis)
    shape[axis] *= dims[axis];
  tensor out{tiles[0].type(), shape};
  const tile_copier copier{tile_shape, dims, size_of(out.type())};
  for (std::size_t i = 0; i < tiles.size() && out.size() > 0; ++i)
    copier.each_run(i, [&](std::size_t in_whole, std::size_t in_tile, std::size_t bytes) {
      std::memcpy(out.mutable_bytes().data() + in_whole, tiles[i].bytes().data() + in_tile, bytes);
    });
  return out;
}

result<std::vector<tensor>> replicate_to_logical_devices(const tensor& x, std::uint32_t count) {
  if (count == 0)
    return bad_logical_devices("a replica has 0 logical devices, needs at least 1");
  if (!x.defined())
    return bad_logical_devices("the tensor has no value");
  return std::vector<tensor>(count, x);
}

} // namespace troupe
