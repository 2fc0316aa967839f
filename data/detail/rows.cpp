#include <troupe/data/detail/rows.hpp>

#include <cstring>

namespace troupe::detail {

namespace {

// Rows ahead whose memory is asked for: a shuffle's rows are where no hardware prefetcher expects
// them.
constexpr std::size_t rows_ahead = 4;
constexpr std::size_t cache_line_bytes = 64;
constexpr std::size_t prefetch_bytes_max =
  4096; // of one row; a long row's tail is fetched by the hardware

void prefetch(const std::byte* at, std::size_t size_bytes) {
  auto n = size_bytes < prefetch_bytes_max ? size_bytes : prefetch_bytes_max;
  for (std::size_t i = 0; i < n; i += cache_line_bytes)
    __builtin_prefetch(at + i);
}

shape_t without_axis_0(const shape_t& shape) { return {shape.begin() + 1, shape.end()}; }

class tensor_column final : public column {
public:
  explicit tensor_column(tensor rows)
    : rows_{std::move(rows)},
      spec_{rows_.type(), without_axis_0(rows_.shape())},
      row_bytes_{static_cast<std::size_t>(rows_.row_size()) * size_of(rows_.type())} {}

  tensor_spec spec() const override { return spec_; }
  tensor row(row_no at) const override {
    auto i = static_cast<std::int64_t>(at);
    return rows_.rows(i, i + 1).reshaped(spec_.shape);
  }
  void gather(std::span<const row_no> rows, std::span<std::byte> to) const override {
    const auto* from = rows_.bytes().data();
    for (std::size_t i = 0; i < rows.size() && row_bytes_ > 0; ++i) {
      if (i + rows_ahead < rows.size())
        prefetch(from + rows[i + rows_ahead] * row_bytes_, row_bytes_);
      std::memcpy(to.data() + i * row_bytes_, from + rows[i] * row_bytes_, row_bytes_);
    }
  }

private:
  tensor rows_;
  tensor_spec spec_;
  std::size_t row_bytes_;
};

void scale_bytes(const std::uint8_t* from, float* to, std::size_t n, float scale) {
  for (std::size_t i = 0; i < n; ++i)
    to[i] = static_cast<float>(from[i]) * scale;
}

class scaled_column final : public column {
public:
  scaled_column(tensor rows, float scale)
    : rows_{std::move(rows)}, scale_{scale}, width_{static_cast<std::size_t>(rows_.row_size())} {}

  tensor_spec spec() const override { return {dtype::f32, {static_cast<std::int64_t>(width_)}}; }
  tensor row(row_no at) const override {
    tensor out{dtype::f32, spec().shape};
    gather({&at, 1}, out.mutable_bytes());
    return out;
  }
  void gather(std::span<const row_no> rows, std::span<std::byte> to) const override {
    const auto* from = rows_.as<std::uint8_t>().data();
    auto* out = reinterpret_cast<float*>(to.data());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (i + rows_ahead < rows.size())
        prefetch(reinterpret_cast<const std::byte*>(from) + rows[i + rows_ahead] * width_, width_);
      scale_bytes(from + rows[i] * width_, out + i * width_, width_, scale_);
    }
  }

private:
  tensor rows_;
  float scale_;
  std::size_t width_;
};

class range_column final : public column {
public:
  range_column(std::int64_t begin, std::int64_t step)
    : begin_{static_cast<std::uint64_t>(begin)}, step_{static_cast<std::uint64_t>(step)} {}

  tensor_spec spec() const override { return {dtype::i64, {}}; }
  tensor row(row_no at) const override { return tensor::scalar(value(at)); }
  void gather(std::span<const row_no> rows, std::span<std::byte> to) const override {
    auto* out = reinterpret_cast<std::int64_t*>(to.data());
    for (std::size_t i = 0; i < rows.size(); ++i)
      out[i] = value(rows[i]);
  }

private:
  // Unsigned, so that a range over all of i64 wraps instead of overflowing.
  std::int64_t value(row_no at) const { return static_cast<std::int64_t>(begin_ + at * step_); }
  std::uint64_t begin_;
  std::uint64_t step_;
};

} // namespace

element row_of(const row_store& store, row_no at) {
  std::vector<tensor> parts;
  parts.reserve(store.columns.size());
  for (const auto& x : store.columns)
    parts.push_back(x->row(at));
  return element{std::move(parts)};
}

std::vector<tensor_spec> specs_of(const row_store& store) {
  std::vector<tensor_spec> out;
  for (const auto& x : store.columns)
    out.push_back(x->spec());
  return out;
}

std::unique_ptr<const column> make_tensor_column(tensor rows) {
  return std::make_unique<tensor_column>(std::move(rows));
}

std::unique_ptr<const column> make_scaled_column(tensor rows, float scale) {
  return std::make_unique<scaled_column>(std::move(rows), scale);
}

std::unique_ptr<const column> make_range_column(std::int64_t begin, std::int64_t step) {
  return std::make_unique<range_column>(begin, step);
}

std::shared_ptr<const row_store> row_cache::find(const std::string& key) const {
  std::lock_guard guard{lock_};
  auto at = by_key_.find(key);
  return at == by_key_.end() ? nullptr : at->second;
}

std::shared_ptr<const row_store> row_cache::keep(const std::string& key,
                                                 std::shared_ptr<const row_store> store) {
  std::lock_guard guard{lock_};
  return by_key_.emplace(key, std::move(store)).first->second;
}

} // namespace troupe::detail
