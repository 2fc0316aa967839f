#include <troupe/core/error.hpp>
#include <troupe/data/detail/element_streams.hpp>
#include <troupe/data/detail/node.hpp>
#include <troupe/data/idx.hpp>

namespace troupe::detail {

stream_ptr<element> opened::take_elements() && {
  return elements ? std::move(elements) : make_row_elements(std::move(store), std::move(rows));
}

opened source_node::open(open_context& context) const {
  auto store = rows(context.storage);
  auto count = store->count;
  return {std::move(store), std::make_unique<row_stream>(count)};
}

std::vector<tensor_spec> source_node::spec(open_context& context) const {
  return specs_of(*rows(context.storage));
}

std::int64_t source_node::known_rows(open_context& context) const {
  const auto parts = spec(context);
  for (const auto& part : parts)
    if (part.shape.empty() || part.shape[0] != parts[0].shape[0])
      return -1;
  return parts.empty() ? -1 : parts[0].shape[0];
}

std::int64_t source_node::count(storage_port& storage) const {
  auto n = rows(storage)->count;
  return n > INT64_MAX ? INT64_MAX : static_cast<std::int64_t>(n);
}

namespace {

/// Rows that are there from the start.
class fixed_source final : public source_node {
public:
  fixed_source(std::shared_ptr<const row_store> store, std::string label)
    : store_{std::move(store)}, label_{std::move(label)} {}
  std::string describe() const override { return label_; }

protected:
  std::shared_ptr<const row_store> rows(storage_port&) const override { return store_; }

private:
  std::shared_ptr<const row_store> store_;
  std::string label_;
};

tensor read_rows(storage_port& storage, const std::string& path) {
  auto out = read_idx(storage, path).value_or_throw();
  if (out.rank() == 0)
    throw_failure(errc::corrupt, "idx " + path + ": rank is 0, a dataset needs rows");
  return out;
}

void require_as_many(const std::string& path, const tensor& first, const std::string& other_path,
                     const tensor& other) {
  if (first.rows() != other.rows())
    throw_failure(errc::mismatch, "idx " + other_path + ": " + std::to_string(other.rows())
                                    + " rows, but " + std::to_string(first.rows()) + " in " + path);
}

/// Names what a gzipped file holds, by its size and the checksum and length at its end (RFC 1952);
/// empty for a plain file, which says nothing about its contents.
std::string content_key(storage_port& storage, const std::string& path) {
  auto file = storage.open(path).value_or_throw();
  auto size_bytes = file->size_bytes();
  std::byte magic[2]{};
  std::byte tail[8]{};
  if (size_bytes < 18) // an empty member
    return {};
  file->read_at(0, magic).value_or_throw();
  if (magic[0] != std::byte{0x1f} || magic[1] != std::byte{0x8b})
    return {};
  file->read_at(size_bytes - sizeof tail, tail).value_or_throw();
  return std::to_string(size_bytes) + ":"
         + std::string{reinterpret_cast<const char*>(tail), sizeof tail};
}

/// Of all files together; empty when one has none.
std::string content_key(storage_port& storage, const std::vector<std::string>& paths) {
  std::string out;
  for (const auto& path : paths) {
    auto key = content_key(storage, path);
    if (key.empty())
      return {};
    out += key;
  }
  return out;
}

class idx_source final : public source_node {
public:
  explicit idx_source(std::vector<std::string> paths) : paths_{std::move(paths)} {}
  std::string describe() const override {
    std::string out = "idx(";
    for (std::size_t i = 0; i < paths_.size(); ++i)
      out += (i ? ", " : "") + paths_[i];
    return out + ")";
  }

protected:
  std::shared_ptr<const row_store> rows(storage_port& storage) const override {
    auto key = content_key(storage, paths_);
    if (auto known = key.empty() ? nullptr : cache_.find(key))
      return known;
    auto out = std::make_shared<row_store>();
    tensor first;
    for (const auto& path : paths_) {
      auto data = read_rows(storage, path);
      if (first.defined())
        require_as_many(paths_[0], first, path, data);
      else
        first = data;
      out->columns.push_back(make_tensor_column(std::move(data)));
    }
    out->count = static_cast<row_no>(first.rows());
    return key.empty() ? out : cache_.keep(key, std::move(out));
  }

private:
  std::vector<std::string> paths_;
  mutable row_cache cache_;
};

constexpr std::int64_t image_side = 28;
constexpr int classes = 10;

tensor labels_as_i64(const tensor& from, const std::string& path) {
  tensor out{dtype::i64, {from.rows()}};
  auto to = out.mutable_as<std::int64_t>();
  auto values = from.as<std::uint8_t>();
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (values[i] >= classes)
      throw_failure(errc::corrupt, "idx " + path + ": label " + std::to_string(i) + " is "
                                     + std::to_string(values[i]) + ", not below "
                                     + std::to_string(classes));
    to[i] = values[i];
  }
  return out;
}

class fashion_mnist_source final : public source_node {
public:
  fashion_mnist_source(std::string split, const std::string& directory) : split_{std::move(split)} {
    auto prefix = directory + (split_ == "train" ? "/train-" : "/t10k-");
    images_path_ = prefix + "images-idx3-ubyte.gz";
    labels_path_ = prefix + "labels-idx1-ubyte.gz";
  }
  // Without the directory: a position stays good where the files lie elsewhere.
  std::string describe() const override { return "fashion_mnist(" + split_ + ")"; }

protected:
  std::shared_ptr<const row_store> rows(storage_port& storage) const override {
    static row_cache shared; // by content, for the process
    auto key = content_key(storage, {images_path_, labels_path_});
    if (auto known = key.empty() ? nullptr : shared.find(key))
      return known;
    auto images = read_rows(storage, images_path_);
    if (images.type() != dtype::u8
        || images.shape() != shape_t{images.rows(), image_side, image_side})
      throw_failure(errc::corrupt, "idx " + images_path_ + ": " + to_string(images.type())
                                     + to_string(images.shape()) + " instead of u8[rows, 28, 28]");
    auto labels = read_rows(storage, labels_path_);
    if (labels.type() != dtype::u8 || labels.rank() != 1)
      throw_failure(errc::corrupt, "idx " + labels_path_ + ": " + to_string(labels.type())
                                     + to_string(labels.shape()) + " instead of u8[rows]");
    require_as_many(images_path_, images, labels_path_, labels);
    auto out = std::make_shared<row_store>();
    out->count = static_cast<row_no>(images.rows());
    out->columns.push_back(make_scaled_column(images, 1.0f / 255.0f));
    out->columns.push_back(make_tensor_column(labels_as_i64(labels, labels_path_)));
    return key.empty() ? out : shared.keep(key, std::move(out));
  }

private:
  std::string split_;
  std::string images_path_;
  std::string labels_path_;
};

/// Values in [begin, end) by `step`.
std::uint64_t range_count(std::int64_t begin, std::int64_t end, std::int64_t step) {
  auto low = static_cast<std::uint64_t>(step > 0 ? begin : end);
  auto high = static_cast<std::uint64_t>(step > 0 ? end : begin);
  if (step > 0 ? begin >= end : begin <= end)
    return 0;
  auto stride = step > 0 ? static_cast<std::uint64_t>(step) : 0 - static_cast<std::uint64_t>(step);
  return (high - low - 1) / stride + 1;
}

} // namespace

node_ptr make_tensor_source(std::vector<tensor> columns) {
  if (columns.empty())
    throw_failure(errc::invalid_argument, "dataset: from_tensors: no tensors given");
  auto store = std::make_shared<row_store>();
  std::string label = "from_tensors(";
  for (std::size_t i = 0; i < columns.size(); ++i) {
    auto& x = columns[i];
    if (!x.defined() || x.rank() == 0)
      throw_failure(errc::invalid_argument, "dataset: from_tensors: tensor " + std::to_string(i)
                                              + " has no rows: " + to_string(x));
    if (i > 0 && static_cast<row_no>(x.rows()) != store->count)
      throw_failure(errc::shape_mismatch, "dataset: from_tensors: tensor " + std::to_string(i)
                                            + " has " + std::to_string(x.rows())
                                            + " rows, tensor 0 has "
                                            + std::to_string(store->count));
    store->count = static_cast<row_no>(x.rows());
    label += (i ? ", " : "") + to_string(x.type()) + to_string(x.shape());
    store->columns.push_back(make_tensor_column(std::move(x)));
  }
  return std::make_shared<fixed_source>(std::move(store), label + ")");
}

node_ptr make_range_source(std::int64_t begin, std::int64_t end, std::int64_t step) {
  if (step == 0)
    throw_failure(errc::invalid_argument, "dataset: range: step is 0");
  auto store = std::make_shared<row_store>();
  store->count = range_count(begin, end, step);
  store->columns.push_back(make_range_column(begin, step));
  return std::make_shared<fixed_source>(std::move(store), "range(" + std::to_string(begin) + ", "
                                                            + std::to_string(end) + ", "
                                                            + std::to_string(step) + ")");
}

node_ptr make_idx_source(std::vector<std::string> paths) {
  return std::make_shared<idx_source>(std::move(paths));
}

node_ptr make_fashion_mnist_source(const std::string& split, std::string directory) {
  if (split != "train" && split != "test")
    throw_failure(errc::invalid_argument,
                  "fashion_mnist: split is \"" + split + "\", not \"train\" or \"test\"");
  return std::make_shared<fashion_mnist_source>(split, directory);
}

} // namespace troupe::detail
