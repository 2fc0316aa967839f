#include <troupe/data/detail/operations.hpp>

#include <algorithm>

#include <troupe/core/error.hpp>
#include <troupe/data/detail/counts.hpp>
#include <troupe/data/detail/element_streams.hpp>

namespace troupe::detail {

node_ptr dataset_node::with_inputs(std::vector<node_ptr>) const {
  TROUPE_ASSERT(false, "a source has no inputs to change");
  return nullptr;
}

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
  std::vector<node_ptr> inputs() const override { return {input_}; }
  node_ptr with_inputs(std::vector<node_ptr> inputs) const override { return on(inputs.at(0)); }
  std::int64_t count(storage_port& storage) const override { return input_->count(storage); }
  std::int64_t batch_rows() const override { return input_->batch_rows(); }
  std::int64_t known_rows(open_context& context) const override {
    return input_->known_rows(context);
  }
  int partial_batches() const override { return input_->partial_batches(); }

protected:
  const dataset_node& input() const { return *input_; }
  /// The same on another input.
  virtual node_ptr on(node_ptr input) const = 0;

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
  node_kind kind() const override { return node_kind::shuffle; }

protected:
  node_ptr on(node_ptr input) const override {
    return std::make_shared<shuffle_node>(std::move(input), buffer_, seed_, reshuffle_);
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
  std::int64_t count(storage_port& storage) const override {
    auto once = input().count(storage);
    if (rounds_)
      return count_times(once, *rounds_);
    return once == 0 ? 0 : infinite_cardinality;
  }
  int partial_batches() const override {
    const int once = input().partial_batches();
    return once == 0 || (rounds_ && *rounds_ <= 1) ? once : 2;
  }

protected:
  node_ptr on(node_ptr input) const override {
    return std::make_shared<repeat_node>(std::move(input), rounds_);
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
  std::int64_t count(storage_port& storage) const override {
    auto most = count_ > INT64_MAX ? INT64_MAX : static_cast<std::int64_t>(count_);
    return count_min(input().count(storage), most);
  }

protected:
  node_ptr on(node_ptr input) const override {
    return std::make_shared<take_node>(std::move(input), count_);
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
  std::int64_t count(storage_port& storage) const override {
    return count_stride(input().count(storage), first_, between_);
  }

protected:
  node_ptr on(node_ptr input) const override {
    return std::make_shared<stride_node>(std::move(input), first_, between_, label_);
  }

private:
  std::uint64_t first_;
  std::uint64_t between_;
  std::string label_;
};

class full_shard_node final : public unary_node {
public:
  full_shard_node(node_ptr input, std::uint64_t count, std::uint64_t index)
    : unary_node{std::move(input)}, count_{count}, index_{index} {}
  opened open(open_context& context) const override {
    return wrap<full_shard_stream>(input().open(context), count_, index_);
  }
  std::string describe() const override {
    return input().describe() + ".shard(" + std::to_string(count_) + ", " + std::to_string(index_)
           + ", full)";
  }
  std::int64_t count(storage_port& storage) const override {
    return count_stride(input().count(storage), index_, count_ - 1);
  }

protected:
  node_ptr on(node_ptr input) const override {
    return std::make_shared<full_shard_node>(std::move(input), count_, index_);
  }

private:
  std::uint64_t count_;
  std::uint64_t index_;
};

class shard_hint_node final : public unary_node {
public:
  using unary_node::unary_node;
  opened open(open_context&) const override {
    throw_failure(errc::wrong_state,
                  "dataset " + describe() + ": a shard hint needs autoshard_policy::hint");
  }
  std::string describe() const override { return input().describe() + ".shard(hint)"; }
  node_kind kind() const override { return node_kind::shard_hint; }

protected:
  node_ptr on(node_ptr input) const override {
    return std::make_shared<shard_hint_node>(std::move(input));
  }
};

class prefetch_node final : public unary_node {
public:
  prefetch_node(node_ptr input, std::uint64_t count)
    : unary_node{std::move(input)}, count_{count} {}
  opened open(open_context& context) const override { return input().open(context); }
  std::string describe() const override {
    return input().describe() + ".prefetch(" + std::to_string(count_) + ")";
  }
  node_kind kind() const override { return node_kind::prefetch; }

protected:
  node_ptr on(node_ptr input) const override {
    return std::make_shared<prefetch_node>(std::move(input), count_);
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
  std::int64_t count(storage_port& storage) const override {
    return count_batches(input().count(storage), size_, drop_remainder_);
  }
  std::int64_t batch_rows() const override { return static_cast<std::int64_t>(size_); }
  std::int64_t known_rows(open_context&) const override {
    return drop_remainder_ ? static_cast<std::int64_t>(size_) : -1;
  }
  int partial_batches() const override { return drop_remainder_ ? 0 : 1; }

protected:
  node_ptr on(node_ptr input) const override {
    return std::make_shared<batch_node>(std::move(input), size_, drop_remainder_);
  }

private:
  std::uint64_t size_;
  bool drop_remainder_;
};

class map_node final : public unary_node {
public:
  map_node(node_ptr input, element_function function)
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
  std::int64_t batch_rows() const override { return -1; }
  /// A function that keeps the extent of one element, which is every element's, does so for all.
  std::int64_t known_rows(open_context& context) const override {
    const auto rows = input().known_rows(context);
    if (rows < 0)
      return -1;
    auto in = input().open(context).take_elements();
    in->start(0);
    element x;
    if (!in->next(x))
      return -1;
    for (const auto& part : map_one(function_, x))
      if (part.rank() == 0 || part.rows() != rows)
        return -1;
    return rows;
  }
  int partial_batches() const override { return 2; }

protected:
  node_ptr on(node_ptr input) const override {
    return std::make_shared<map_node>(std::move(input), function_);
  }

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

  element_function function_;
};

} // namespace

node_ptr make_map_node(node_ptr input, element_function function) {
  return std::make_shared<map_node>(std::move(input), std::move(function));
}

node_ptr make_shuffle_node(node_ptr input, std::uint64_t buffer, std::optional<std::uint64_t> seed,
                           bool reshuffle) {
  return std::make_shared<shuffle_node>(std::move(input), buffer, seed, reshuffle);
}

node_ptr make_repeat_node(node_ptr input, std::optional<std::uint64_t> rounds) {
  return std::make_shared<repeat_node>(std::move(input), rounds);
}

node_ptr make_batch_node(node_ptr input, std::uint64_t size, bool drop_remainder) {
  return std::make_shared<batch_node>(std::move(input), size, drop_remainder);
}

node_ptr make_shard_node(node_ptr input, std::uint64_t count, std::uint64_t index) {
  auto label = ".shard(" + std::to_string(count) + ", " + std::to_string(index) + ")";
  return std::make_shared<stride_node>(std::move(input), index, count - 1, std::move(label));
}

node_ptr make_full_shard_node(node_ptr input, std::uint64_t count, std::uint64_t index) {
  return std::make_shared<full_shard_node>(std::move(input), count, index);
}

node_ptr make_shard_hint_node(node_ptr input) {
  return std::make_shared<shard_hint_node>(std::move(input));
}

node_ptr make_skip_node(node_ptr input, std::uint64_t count) {
  return std::make_shared<stride_node>(std::move(input), count, 0,
                                       ".skip(" + std::to_string(count) + ")");
}

node_ptr make_take_node(node_ptr input, std::uint64_t count) {
  return std::make_shared<take_node>(std::move(input), count);
}

node_ptr make_prefetch_node(node_ptr input, std::uint64_t count) {
  return std::make_shared<prefetch_node>(std::move(input), count);
}

} // namespace troupe::detail
