#include <algorithm>

#include <troupe/core/error.hpp>
#include <troupe/data/detail/counts.hpp>
#include <troupe/data/detail/element_streams.hpp>
#include <troupe/data/detail/operations.hpp>

// The operations that have two inputs.
namespace troupe::detail {

namespace {

std::int64_t equal(std::int64_t a, std::int64_t b) { return a == b ? a : -1; }

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
  std::vector<node_ptr> inputs() const override { return {a_, b_}; }
  node_ptr with_inputs(std::vector<node_ptr> inputs) const override {
    return std::make_shared<concatenate_node>(inputs.at(0), inputs.at(1));
  }
  std::int64_t count(storage_port& storage) const override {
    return count_sum(a_->count(storage), b_->count(storage));
  }
  std::int64_t batch_rows() const override { return equal(a_->batch_rows(), b_->batch_rows()); }
  std::int64_t known_rows(open_context& context) const override {
    const auto first = a_->known_rows(context); // in the order in which they take their seeds
    return equal(first, b_->known_rows(context));
  }
  int partial_batches() const override {
    return std::min(2, a_->partial_batches() + b_->partial_batches());
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
  std::vector<node_ptr> inputs() const override { return {a_, b_}; }
  node_ptr with_inputs(std::vector<node_ptr> inputs) const override {
    return std::make_shared<zip_node>(inputs.at(0), inputs.at(1));
  }
  std::int64_t count(storage_port& storage) const override {
    return count_min(a_->count(storage), b_->count(storage));
  }
  std::int64_t batch_rows() const override { return equal(a_->batch_rows(), b_->batch_rows()); }
  std::int64_t known_rows(open_context& context) const override {
    const auto first = a_->known_rows(context); // in the order in which they take their seeds
    return equal(first, b_->known_rows(context));
  }
  int partial_batches() const override {
    return std::min(2, a_->partial_batches() + b_->partial_batches());
  }

private:
  node_ptr a_;
  node_ptr b_;
};

} // namespace

node_ptr make_concatenate_node(node_ptr a, node_ptr b) {
  return std::make_shared<concatenate_node>(std::move(a), std::move(b));
}

node_ptr make_zip_node(node_ptr a, node_ptr b) {
  return std::make_shared<zip_node>(std::move(a), std::move(b));
}

} // namespace troupe::detail
