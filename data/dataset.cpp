#include <troupe/data/dataset.hpp>

#include <troupe/core/error.hpp>
#include <troupe/data/detail/element_streams.hpp>
#include <troupe/data/detail/node.hpp>

namespace troupe {

const tensor& element::operator[](std::size_t index) const {
  if (index >= parts_.size())
    throw_failure(errc::out_of_range, "element: part " + std::to_string(index) + " of "
                                        + std::to_string(parts_.size()));
  return parts_[index];
}

const tensor& element::only() const {
  if (parts_.size() != 1)
    throw_failure(errc::shape_mismatch,
                  "element: the only part of " + std::to_string(parts_.size()));
  return parts_[0];
}

std::string to_string(const element& x) {
  std::string out = "{";
  for (std::size_t i = 0; i < x.size(); ++i)
    out += (i ? ", " : "") + to_string(x[i]);
  return out + "}";
}

std::string to_string(const tensor_spec& x) { return to_string(x.type) + to_string(x.shape); }

namespace detail {
namespace {

/// `Op` around either kind of stream.
template <template <class> class Op, class... Args>
opened wrap(opened in, Args... args) {
  if (in.rows)
    return {std::move(in.store), std::make_unique<Op<row_no>>(std::move(in.rows), args...)};
  return stream_ptr<element>{std::make_unique<Op<element>>(std::move(in.elements), args...)};
}

class unary_node : public dataset_node {
public:
  explicit unary_node(node_ptr input) : input_{std::move(input)} {}
  std::vector<tensor_spec> spec(open_context& context) const override {
    return input_->spec(context);
  }

protected:
  const dataset_node& input() const { return *input_; }

private:
  node_ptr input_;
};

class shuffle_node final : public unary_node {
public:
  shuffle_node(node_ptr input, std::uint64_t buffer, std::optional<std::uint64_t> seed,
               bool reshuffle)
    : unary_node{std::move(input)}, buffer_{buffer}, seed_{seed}, reshuffle_{reshuffle} {}
  opened open(open_context& context) const override {
    auto in = input().open(context);
    return wrap<shuffle_stream>(std::move(in), buffer_, seed_ ? *seed_ : context.take_seed(),
                                reshuffle_);
  }
  std::string describe() const override {
    return input().describe() + ".shuffle(" + std::to_string(buffer_)
           + (seed_ ? ", " + std::to_string(*seed_) : "") + (reshuffle_ ? ")" : ", same)");
  }

private:
  std::uint64_t buffer_;
  std::optional<std::uint64_t> seed_;
  bool reshuffle_;
};

class repeat_node final : public unary_node {
public:
  repeat_node(node_ptr input, std::optional<std::uint64_t> rounds)
    : unary_node{std::move(input)}, rounds_{rounds} {}
  opened open(open_context& context) const override {
    return wrap<repeat_stream>(input().open(context), rounds_);
  }
  std::string describe() const override {
    return input().describe() + ".repeat(" + (rounds_ ? std::to_string(*rounds_) : "") + ")";
  }

private:
  std::optional<std::uint64_t> rounds_;
};

class take_node final : public unary_node {
public:
  take_node(node_ptr input, std::uint64_t count) : unary_node{std::move(input)}, count_{count} {}
  opened open(open_context& context) const override {
    return wrap<take_stream>(input().open(context), count_);
  }
  std::string describe() const override {
    return input().describe() + ".take(" + std::to_string(count_) + ")";
  }

private:
  std::uint64_t count_;
};

/// skip and shard.
class stride_node final : public unary_node {
public:
  stride_node(node_ptr input, std::uint64_t first, std::uint64_t between, std::string label)
    : unary_node{std::move(input)}, first_{first}, between_{between}, label_{std::move(label)} {}
  opened open(open_context& context) const override {
    return wrap<stride_stream>(input().open(context), first_, between_);
  }
  std::string describe() const override { return input().describe() + label_; }

private:
  std::uint64_t first_;
  std::uint64_t between_;
  std::string label_;
};

class prefetch_node final : public unary_node {
public:
  prefetch_node(node_ptr input, std::uint64_t count)
    : unary_node{std::move(input)}, count_{count} {}
  opened open(open_context& context) const override { return input().open(context); }
  std::string describe() const override {
    return input().describe() + ".prefetch(" + std::to_string(count_) + ")";
  }

private:
  std::uint64_t count_;
};

class batch_node final : public unary_node {
public:
  batch_node(node_ptr input, std::uint64_t size, bool drop_remainder)
    : unary_node{std::move(input)}, size_{size}, drop_remainder_{drop_remainder} {}
  opened open(open_context& context) const override {
    auto in = input().open(context);
    return in.rows ? make_row_batch(std::move(in.store), std::move(in.rows), size_, drop_remainder_)
                   : make_batch(std::move(in.elements), size_, drop_remainder_);
  }
  std::vector<tensor_spec> spec(open_context& context) const override {
    auto out = input().spec(context);
    for (auto& x : out)
      x.shape.insert(x.shape.begin(), drop_remainder_ ? static_cast<std::int64_t>(size_) : -1);
    return out;
  }
  std::string describe() const override {
    return input().describe() + ".batch(" + std::to_string(size_)
           + (drop_remainder_ ? ", drop)" : ")");
  }

private:
  std::uint64_t size_;
  bool drop_remainder_;
};

class map_node final : public unary_node {
public:
  map_node(node_ptr input, dataset::map_function function)
    : unary_node{std::move(input)}, function_{std::move(function)} {}
  opened open(open_context& context) const override {
    return make_map(input().open(context).take_elements(), function_);
  }
  std::vector<tensor_spec> spec(open_context& context) const override {
    auto before = input().spec(context);
    auto in = input().open(context).take_elements();
    in->start(0);
    element x;
    if (!in->next(x))
      return {};
    return generalise(before, x, map_one(function_, x));
  }
  std::string describe() const override { return input().describe() + ".map()"; }

private:
  /// The spec of `after`, where an axis 0 that was batched stays of unknown extent: a function that
  /// keeps the batch's extent for one batch does so for all.
  static std::vector<tensor_spec> generalise(const std::vector<tensor_spec>& before,
                                             const element& x, const element& after) {
    std::optional<std::int64_t> batch_rows;
    for (std::size_t i = 0; i < before.size() && i < x.size(); ++i)
      if (!before[i].shape.empty() && before[i].shape[0] == -1)
        batch_rows = x[i].rows();
    std::vector<tensor_spec> out;
    for (const auto& part : after) {
      out.push_back({part.type(), part.shape()});
      if (batch_rows && part.rank() > 0 && part.rows() == *batch_rows)
        out.back().shape[0] = -1;
    }
    return out;
  }

  dataset::map_function function_;
};

class concatenate_node final : public dataset_node {
public:
  concatenate_node(node_ptr a, node_ptr b) : a_{std::move(a)}, b_{std::move(b)} {}
  opened open(open_context& context) const override {
    auto a = a_->open(context);
    auto b = b_->open(context);
    if (a.rows && b.rows && a.store == b.store)
      return {std::move(a.store),
              std::make_unique<concatenate_stream<row_no>>(std::move(a.rows), std::move(b.rows))};
    return stream_ptr<element>{std::make_unique<concatenate_stream<element>>(
      std::move(a).take_elements(), std::move(b).take_elements())};
  }
  std::vector<tensor_spec> spec(open_context& context) const override {
    auto out = a_->spec(context);
    auto other = b_->spec(context);
    if (out.empty() || other.empty())
      return out.empty() ? other : out;
    if (out.size() != other.size())
      throw_failure(errc::shape_mismatch, "concatenate: elements of " + std::to_string(out.size())
                                            + " and " + std::to_string(other.size()) + " parts");
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (out[i].type != other[i].type || out[i].shape.size() != other[i].shape.size())
        throw_failure(out[i].type != other[i].type ? errc::dtype_mismatch : errc::shape_mismatch,
                      "concatenate: part " + std::to_string(i) + " is " + to_string(out[i])
                        + " and " + to_string(other[i]));
      for (std::size_t axis = 0; axis < out[i].shape.size(); ++axis)
        if (out[i].shape[axis] != other[i].shape[axis])
          out[i].shape[axis] = -1;
    }
    return out;
  }
  std::string describe() const override {
    return a_->describe() + ".concatenate(" + b_->describe() + ")";
  }

private:
  node_ptr a_;
  node_ptr b_;
};

class zip_node final : public dataset_node {
public:
  zip_node(node_ptr a, node_ptr b) : a_{std::move(a)}, b_{std::move(b)} {}
  opened open(open_context& context) const override {
    auto a = a_->open(context).take_elements();
    auto b = b_->open(context).take_elements();
    return make_zip(std::move(a), std::move(b));
  }
  std::vector<tensor_spec> spec(open_context& context) const override {
    auto out = a_->spec(context);
    auto other = b_->spec(context);
    out.insert(out.end(), other.begin(), other.end());
    return out;
  }
  std::string describe() const override {
    return "zip(" + a_->describe() + ", " + b_->describe() + ")";
  }

private:
  node_ptr a_;
  node_ptr b_;
};

std::uint64_t at_least(std::int64_t min, std::int64_t x, const char* what) {
  if (x < min)
    throw_failure(errc::invalid_argument, "dataset: " + std::string{what} + " is "
                                            + std::to_string(x) + ", below " + std::to_string(min));
  return static_cast<std::uint64_t>(x);
}

} // namespace
} // namespace detail

using namespace detail; // the nodes above; nothing of it is in a header

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

dataset dataset::map(map_function function) const {
  if (!function)
    throw_failure(errc::invalid_argument, "dataset: map: the function is empty");
  return dataset{std::make_shared<map_node>(node_, std::move(function))};
}

dataset dataset::shuffle(std::int64_t buffer, std::optional<std::uint64_t> seed,
                         bool reshuffle) const {
  return dataset{
    std::make_shared<shuffle_node>(node_, at_least(1, buffer, "shuffle: buffer"), seed, reshuffle)};
}

dataset dataset::repeat(std::optional<std::int64_t> count) const {
  std::optional<std::uint64_t> rounds;
  if (count)
    rounds = at_least(0, *count, "repeat: count");
  return dataset{std::make_shared<repeat_node>(node_, rounds)};
}

dataset dataset::batch(std::int64_t size, bool drop_remainder) const {
  return dataset{
    std::make_shared<batch_node>(node_, at_least(1, size, "batch: size"), drop_remainder)};
}

dataset dataset::shard(std::int64_t count, std::int64_t index) const {
  auto n = at_least(1, count, "shard: count");
  auto i = at_least(0, index, "shard: index");
  if (i >= n)
    throw_failure(errc::invalid_argument,
                  "dataset: shard: index " + std::to_string(i) + " of " + std::to_string(n));
  auto label = ".shard(" + std::to_string(n) + ", " + std::to_string(i) + ")";
  return dataset{std::make_shared<stride_node>(node_, i, n - 1, std::move(label))};
}

dataset dataset::take(std::int64_t count) const {
  return dataset{std::make_shared<take_node>(node_, at_least(0, count, "take: count"))};
}

dataset dataset::skip(std::int64_t count) const {
  auto n = at_least(0, count, "skip: count");
  return dataset{std::make_shared<stride_node>(node_, n, 0, ".skip(" + std::to_string(n) + ")")};
}

dataset dataset::prefetch(std::int64_t count) const {
  return dataset{std::make_shared<prefetch_node>(node_, at_least(0, count, "prefetch: count"))};
}

dataset dataset::concatenate(const dataset& next) const {
  return dataset{std::make_shared<concatenate_node>(node_, next.node_)};
}

dataset dataset::zip(const dataset& a, const dataset& b) {
  return dataset{std::make_shared<zip_node>(a.node_, b.node_)};
}

std::vector<tensor_spec> dataset::element_spec(data_context context) const {
  open_context opening{context.storage, std::vector<std::uint64_t>{}};
  return node_->spec(opening);
}

std::string dataset::describe() const { return node_->describe(); }

dataset fashion_mnist(const std::string& split, std::string directory) {
  return dataset{make_fashion_mnist_source(split, std::move(directory))};
}

} // namespace troupe
