#include <troupe/data/detail/expand.hpp>

#include <algorithm>

#include <troupe/core/error.hpp>
#include <troupe/core/random.hpp>
#include <troupe/data/detail/dataset_access.hpp>
#include <troupe/data/detail/seeds.hpp>

namespace troupe::detail {

namespace {

/// Source of the order: TensorFlow, core/kernels/data/interleave_dataset_op.cc.
class expand_stream final : public stream<element> {
public:
  expand_stream(storage_port& storage, stream_ptr<element> input, dataset_function function,
                std::uint64_t cycle, std::uint64_t block, std::uint64_t seed)
    : storage_{storage},
      input_{std::move(input)},
      function_{std::move(function)},
      cycle_{cycle},
      block_{block},
      seed_{seed} {}

  void start(std::uint64_t pass) override {
    pass_ = pass;
    input_->start(pass);
    slots_.clear();
    taken_ = 0;
    open_ = 0;
    at_ = 0;
    in_block_ = 0;
    input_ended_ = false;
  }
  bool next(element& to) override {
    return step([&](stream<element>& x) { return x.next(to); });
  }
  bool discard() override {
    return step([](stream<element>& x) { return x.discard(); });
  }

  void save(position_out& out) const override {
    out.put(taken_);
    out.put(input_ended_ ? 1 : 0);
    out.put(at_);
    out.put(in_block_);
    out.put(slots_.size());
    for (const auto& x : slots_) {
      out.put(x.inner ? x.ordinal + 1 : 0);
      if (x.inner)
        x.inner->save(out);
    }
  }

  /// Draws the input's elements again; those whose datasets are open are made, the others not.
  void load(position_in& in) override {
    auto taken = in.take("interleave inputs", UINT64_MAX);
    auto ended = in.take_flag("interleave input ended");
    auto at = in.take("interleave slot", cycle_ - 1);
    auto in_block = in.take("interleave block", block_ - 1);
    auto size = in.take("interleave slots", std::min(cycle_, in.rest_bytes() / sizeof taken));
    // The state of a slot is only readable once its dataset is open, so walk through the inputs
    // aside.
    std::vector<slot> slots(size);
    for (auto& x : slots) {
      auto mark = in.take("interleave input", taken);
      if (mark == 0)
        continue;
      x.ordinal = mark - 1;
      open_slot(x, element_at(x.ordinal));
      x.inner->load(in);
    }
    input_->start(pass_);
    for (taken_ = 0; taken_ < taken; ++taken_)
      if (!input_->discard())
        throw_failure(errc::corrupt, "dataset position: " + std::to_string(taken)
                                       + " interleaved inputs of " + std::to_string(taken_));
    slots_ = std::move(slots);
    open_ = static_cast<std::uint64_t>(std::count_if(
      slots_.begin(), slots_.end(), [](const slot& x) { return x.inner != nullptr; }));
    at_ = at;
    in_block_ = in_block;
    input_ended_ = ended;
    if (at_ > slots_.size())
      throw_failure(errc::corrupt, "dataset position: interleave slot " + std::to_string(at_)
                                     + " of " + std::to_string(slots_.size()));
  }

private:
  struct slot {
    std::uint64_t ordinal = 0; // of the input's element
    stream_ptr<element> inner{};
  };

  template <class Take>
  bool step(Take take) {
    while (!input_ended_ || open_ > 0) {
      if (at_ < slots_.size() && slots_[at_].inner) {
        if (take(*slots_[at_].inner)) {
          if (++in_block_ == block_)
            turn();
          return true;
        }
        slots_[at_].inner.reset();
        --open_;
        turn();
      } else if (!input_ended_) {
        fill_slot();
      } else {
        turn();
      }
    }
    return false;
  }

  /// Slots are made as they are needed, as a cycle may be longer than the input; those that never
  /// were have no turn.
  void turn() {
    in_block_ = 0;
    ++at_;
    if (at_ >= (input_ended_ ? slots_.size() : cycle_))
      at_ = 0;
  }

  void fill_slot() {
    element x;
    if (!input_->next(x)) {
      input_ended_ = true;
      if (at_ >= slots_.size())
        at_ = 0;
      return;
    }
    if (at_ == slots_.size())
      slots_.emplace_back();
    slots_[at_].ordinal = taken_++;
    open_slot(slots_[at_], x);
    ++open_;
    in_block_ = 0;
  }

  void open_slot(slot& to, const element& x) {
    derived_random seeds{derive_seed(seed_, to.ordinal)};
    open_context opening{storage_, seeds};
    to.inner = dataset_access::node(function_(x))->open(opening).take_elements();
    to.inner->start(derive_seed(pass_, to.ordinal));
  }

  element element_at(std::uint64_t ordinal) {
    input_->start(pass_);
    element out;
    for (std::uint64_t i = 0; i < ordinal; ++i)
      if (!input_->discard())
        break;
    if (!input_->next(out))
      throw_failure(errc::corrupt,
                    "dataset position: no interleaved input " + std::to_string(ordinal));
    return out;
  }

  storage_port& storage_;
  stream_ptr<element> input_;
  dataset_function function_;
  std::uint64_t cycle_;
  std::uint64_t block_;
  std::uint64_t seed_;
  std::uint64_t pass_ = 0;
  std::vector<slot> slots_{};
  std::uint64_t taken_ = 0; // elements of the input
  std::uint64_t open_ = 0;
  std::uint64_t at_ = 0;
  std::uint64_t in_block_ = 0;
  bool input_ended_ = false;
};

class expand_node final : public dataset_node {
public:
  expand_node(node_ptr input, dataset_function function, std::uint64_t cycle, std::uint64_t block,
              std::string label)
    : input_{std::move(input)},
      function_{std::move(function)},
      cycle_{cycle},
      block_{block},
      label_{std::move(label)} {}
  opened open(open_context& context) const override {
    auto in = input_->open(context).take_elements();
    auto seed = context.take_seed();
    return stream_ptr<element>{std::make_unique<expand_stream>(context.storage, std::move(in),
                                                               function_, cycle_, block_, seed)};
  }
  std::vector<tensor_spec> spec(open_context& context) const override {
    auto in = input_->open(context).take_elements();
    in->start(0);
    element first;
    if (!in->next(first))
      return {};
    return dataset_access::node(function_(first))->spec(context);
  }
  std::int64_t known_rows(open_context& context) const override {
    auto in = input_->open(context).take_elements();
    in->start(0);
    element first;
    return in->next(first) ? dataset_access::node(function_(first))->known_rows(context) : -1;
  }
  std::string describe() const override { return input_->describe() + label_; }
  node_kind kind() const override { return node_kind::expand; }
  std::vector<node_ptr> inputs() const override { return {input_}; }
  node_ptr with_inputs(std::vector<node_ptr> inputs) const override {
    return make_expand_node(inputs.at(0), function_, cycle_, block_, label_);
  }

private:
  node_ptr input_;
  dataset_function function_;
  std::uint64_t cycle_;
  std::uint64_t block_;
  std::string label_;
};

} // namespace

node_ptr make_expand_node(node_ptr input, dataset_function function, std::uint64_t cycle,
                          std::uint64_t block, std::string label) {
  return std::make_shared<expand_node>(std::move(input), std::move(function), cycle, block,
                                       std::move(label));
}

} // namespace troupe::detail
