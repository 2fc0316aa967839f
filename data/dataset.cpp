#include <troupe/data/dataset.hpp>

#include <troupe/core/error.hpp>
#include <troupe/data/detail/expand.hpp>
#include <troupe/data/detail/operations.hpp>
#include <troupe/data/detail/readers.hpp>

namespace troupe {

const tensor& element::operator[](std::size_t index) const& {
  if (index >= parts_.size())
    throw_failure(errc::out_of_range, "element: part " + std::to_string(index) + " of "
                                        + std::to_string(parts_.size()));
  return parts_[index];
}

const tensor& element::only() const& {
  if (parts_.size() != 1)
    throw_failure(errc::shape_mismatch,
                  "element: expected one part, got " + std::to_string(parts_.size()));
  return parts_[0];
}

std::string to_string(const element& x) {
  std::string out = "{";
  for (std::size_t i = 0; i < x.size(); ++i)
    out += (i ? ", " : "") + to_string(x[i]);
  return out + "}";
}

std::string text_of(const tensor& x) {
  auto bytes = x.as<std::uint8_t>();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string to_string(const tensor_spec& x) { return to_string(x.type) + to_string(x.shape); }

namespace {

std::uint64_t at_least(std::int64_t min, std::int64_t x, const char* what) {
  if (x < min)
    throw_failure(errc::invalid_argument, "dataset: " + std::string{what} + " is "
                                            + std::to_string(x) + ", below " + std::to_string(min));
  return static_cast<std::uint64_t>(x);
}

} // namespace

using namespace detail; // the nodes

dataset::dataset() : node_{make_range_source(0, 0, 1)} {}

dataset dataset::from_tensors(std::vector<tensor> columns) {
  return dataset{make_tensor_source(std::move(columns))};
}

dataset dataset::range(std::int64_t begin, std::int64_t end, std::int64_t step) {
  return dataset{make_range_source(begin, end, step)};
}

dataset dataset::idx(std::string path) { return dataset{make_idx_source({std::move(path)})}; }

dataset dataset::idx(std::string images_path, std::string labels_path) {
  return dataset{make_idx_source({std::move(images_path), std::move(labels_path)})};
}

dataset dataset::files(std::vector<std::string> paths) {
  return dataset{make_files_source(std::move(paths))};
}

dataset dataset::text_lines(std::vector<std::string> paths, compression packed) {
  return dataset{make_record_source(std::move(paths), make_line_format(), packed)};
}

dataset dataset::tfrecords(std::vector<std::string> paths, compression packed) {
  return dataset{make_record_source(std::move(paths), make_tfrecord_format(), packed)};
}

dataset dataset::fixed_records(std::vector<std::string> paths, std::int64_t record_bytes,
                               std::int64_t header_bytes, std::int64_t footer_bytes) {
  return dataset{make_fixed_source(std::move(paths),
                                   at_least(1, record_bytes, "fixed_records: record_bytes"),
                                   at_least(0, header_bytes, "fixed_records: header_bytes"),
                                   at_least(0, footer_bytes, "fixed_records: footer_bytes"))};
}

dataset dataset::csv(std::vector<std::string> paths, csv_options options) {
  return dataset{make_csv_source(std::move(paths), std::move(options))};
}

dataset dataset::npy(std::vector<std::string> paths) {
  return dataset{make_npy_source(std::move(paths))};
}

dataset dataset::npz(std::string path, std::vector<std::string> names) {
  return dataset{make_npz_source(std::move(path), std::move(names))};
}

dataset dataset::flat_map(expand_function function) const {
  if (!function)
    throw_failure(errc::invalid_argument, "dataset: flat_map: the function is empty");
  return dataset{make_expand_node(node_, std::move(function), 1, 1, ".flat_map()")};
}

dataset dataset::interleave(expand_function function, std::int64_t cycle,
                            std::int64_t block) const {
  if (!function)
    throw_failure(errc::invalid_argument, "dataset: interleave: the function is empty");
  auto slots = at_least(1, cycle, "interleave: cycle");
  auto each = at_least(1, block, "interleave: block");
  return dataset{
    make_expand_node(node_, std::move(function), slots, each,
                     ".interleave(" + std::to_string(slots) + ", " + std::to_string(each) + ")")};
}

dataset dataset::map(map_function function) const {
  if (!function)
    throw_failure(errc::invalid_argument, "dataset: map: the function is empty");
  return dataset{make_map_node(node_, std::move(function))};
}

dataset dataset::shuffle(std::int64_t buffer, std::optional<std::uint64_t> seed,
                         bool reshuffle) const {
  return dataset{make_shuffle_node(node_, at_least(1, buffer, "shuffle: buffer"), seed, reshuffle)};
}

dataset dataset::repeat(std::optional<std::int64_t> count) const {
  std::optional<std::uint64_t> rounds;
  if (count)
    rounds = at_least(0, *count, "repeat: count");
  return dataset{make_repeat_node(node_, rounds)};
}

dataset dataset::batch(std::int64_t size, bool drop_remainder) const {
  return dataset{make_batch_node(node_, at_least(1, size, "batch: size"), drop_remainder)};
}

dataset dataset::shard(std::int64_t count, std::int64_t index) const {
  if (count == shard_hint && index == shard_hint)
    return dataset{make_shard_hint_node(node_)};
  auto n = at_least(1, count, "shard: count");
  auto i = at_least(0, index, "shard: index");
  if (i >= n)
    throw_failure(errc::invalid_argument,
                  "dataset: shard: index " + std::to_string(i) + " of " + std::to_string(n));
  return dataset{make_shard_node(node_, n, i)};
}

dataset dataset::take(std::int64_t count) const {
  return dataset{make_take_node(node_, at_least(0, count, "take: count"))};
}

dataset dataset::skip(std::int64_t count) const {
  return dataset{make_skip_node(node_, at_least(0, count, "skip: count"))};
}

dataset dataset::prefetch(std::int64_t count) const {
  return dataset{make_prefetch_node(node_, at_least(0, count, "prefetch: count"))};
}

dataset dataset::concatenate(const dataset& next) const {
  return dataset{make_concatenate_node(node_, next.node_)};
}

dataset dataset::zip(const dataset& a, const dataset& b) {
  return dataset{make_zip_node(a.node_, b.node_)};
}

std::vector<tensor_spec> dataset::element_spec(data_context context) const {
  open_context opening{context.storage, std::vector<std::uint64_t>{}};
  return node_->spec(opening);
}

std::int64_t dataset::cardinality(data_context context) const {
  return node_->count(context.storage);
}

std::string dataset::describe() const { return node_->describe(); }

dataset fashion_mnist(const std::string& split, std::string directory) {
  return dataset{make_fashion_mnist_source(split, std::move(directory))};
}

} // namespace troupe
