#include <troupe/strategies/input/numpy_dataset.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

#include <troupe/strategies/replicas/detail/replica_engine.hpp>

namespace troupe {

namespace detail {

std::int64_t numpy_block_rows(const tensor& array, std::int64_t block_bytes_max) {
  const auto row_bytes = array.row_size() * static_cast<std::int64_t>(size_of(array.type()));
  return row_bytes == 0 ? std::max<std::int64_t>(array.rows(), 1)
                        : std::max<std::int64_t>(block_bytes_max / row_bytes, 1);
}

tensor copy_in_row_blocks(const tensor& array, std::int64_t block_bytes_max) {
  tensor out{array.type(), array.shape()};
  const auto block = numpy_block_rows(array, block_bytes_max);
  for (std::int64_t begin = 0; begin < array.rows(); begin += block) {
    const auto end = std::min(begin + block, array.rows());
    const auto from = array.rows(begin, end);
    auto to = out.rows(begin, end);
    if (from.size_bytes() > 0)
      std::memcpy(to.mutable_bytes().data(), from.bytes().data(), from.size_bytes());
  }
  return out;
}

} // namespace detail

dataset make_numpy_dataset(const strategy& s, const std::vector<tensor>& arrays) {
  s.state()->require_cross_replica("make_numpy_dataset");
  if (arrays.empty())
    throw_failure(errc::invalid_argument, "make_numpy_dataset: no arrays given");
  (void)dataset::from_tensors(arrays); // before anything is copied
  std::vector<tensor> own;
  for (const auto& each : arrays)
    own.push_back(detail::copy_in_row_blocks(each));
  return dataset::from_tensors(std::move(own));
}

dataset make_numpy_dataset(const strategy& s, const tensor& array) {
  return make_numpy_dataset(s, std::vector<tensor>{array});
}

dataset make_numpy_dataset(const strategy& s, const std::string& path) {
  s.state()->require_cross_replica("make_numpy_dataset");
  if (path.ends_with(".npy"))
    return dataset::npy({path});
  if (path.ends_with(".npz"))
    return dataset::npz(path);
  throw_failure(errc::invalid_argument,
                "make_numpy_dataset: path '" + path + "' must end in .npy or .npz");
}

tensor stacked(const std::vector<tensor>& list) {
  if (list.empty())
    throw_failure(errc::invalid_argument, "stacked: no tensors given");
  auto shape = list[0].shape();
  shape.insert(shape.begin(), static_cast<std::int64_t>(list.size()));
  tensor out{list[0].type(), shape};
  auto* to = out.mutable_bytes().data();
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto& each = list[i];
    const auto name = "stacked: tensor " + std::to_string(i);
    if (!each.defined())
      throw_failure(errc::invalid_argument, name + " has no value");
    if (each.type() != out.type())
      throw_failure(errc::dtype_mismatch, name + " is " + to_string(each.type()) + ", tensor 0 is "
                                            + to_string(out.type()));
    if (each.shape() != list[0].shape())
      throw_failure(errc::shape_mismatch, name + " is " + to_string(each.shape()) + ", tensor 0 is "
                                            + to_string(list[0].shape()));
    if (each.size_bytes() > 0)
      std::memcpy(to, each.bytes().data(), each.size_bytes());
    to += each.size_bytes();
  }
  return out;
}

} // namespace troupe
