#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <troupe/core/random.hpp>
#include <troupe/data/detail/position.hpp>
#include <troupe/data/detail/rows.hpp>

/// Streams, and the operations that work alike on row numbers and on elements. One thread at a
/// time.
namespace troupe::detail {

/// A sequence of items in passes. Invariant: what a pass yields depends only on the description,
/// the seeds and the pass's number; so a position is how far a pass went, and never the items
/// themselves.
template <class Item>
class stream {
public:
  virtual ~stream() = default;
  /// Begins pass `pass`. Only shuffles care about the number.
  virtual void start(std::uint64_t pass) = 0;
  /// @pre started. False at the end of the pass, and again until `start`.
  virtual bool next(Item& to) = 0;
  /// `next` without the item; doesn't call map functions where it can.
  virtual bool discard() {
    Item dropped{};
    return next(dropped);
  }
  virtual void save(position_out& out) const = 0;
  /// Goes to where `save` was called. @pre just started, with the pass's number. Throws `corrupt`.
  virtual void load(position_in& in) = 0;
};

template <class Item>
using stream_ptr = std::unique_ptr<stream<Item>>;

/// All rows of a store in order.
class row_stream final : public stream<row_no> {
public:
  explicit row_stream(row_no count) : count_{count} {}
  void start(std::uint64_t) override { at_ = 0; }
  bool next(row_no& to) override {
    if (at_ == count_)
      return false;
    to = at_++;
    return true;
  }
  void save(position_out& out) const override { out.put(at_); }
  void load(position_in& in) override { at_ = in.take("row", count_); }

private:
  row_no count_;
  row_no at_ = 0;
};

/// Draws from a buffer that is kept full as long as the input lasts. When the buffer holds the
/// whole input this is the Fisher-Yates permutation. Position: the number of draws; restoring draws
/// again.
template <class Item>
class shuffle_stream final : public stream<Item> {
public:
  shuffle_stream(stream_ptr<Item> input, std::uint64_t buffer_max, std::uint64_t seed,
                 bool reshuffle)
    : input_{std::move(input)}, buffer_max_{buffer_max}, seed_{seed}, reshuffle_{reshuffle} {}

  void start(std::uint64_t pass) override {
    pass_ = pass;
    random_ = prng{derive_seed(seed_, reshuffle_ ? pass : 0)};
    buffer_.clear();
    input_ended_ = false;
    drawn_ = 0;
    input_->start(pass);
  }

  bool next(Item& to) override {
    fill(buffer_, [this](Item& x) { return input_->next(x); });
    if (buffer_.empty())
      return false;
    draw(buffer_, to);
    ++drawn_;
    return true;
  }

  void save(position_out& out) const override { out.put(drawn_); }

  void load(position_in& in) override {
    auto count = in.take("shuffle draws", UINT64_MAX);
    if constexpr (std::is_same_v<Item, row_no>) {
      Item dropped{};
      while (drawn_ < count && next(dropped)) {
      }
    } else {
      replay(count);
    }
    if (drawn_ != count)
      throw_failure(errc::corrupt, "dataset position: " + std::to_string(count)
                                     + " shuffle draws of " + std::to_string(drawn_) + " elements");
  }

private:
  template <class T, class Take>
  void fill(std::vector<T>& buffer, Take take) {
    while (!input_ended_ && buffer.size() < buffer_max_) {
      T x{};
      if (take(x))
        buffer.push_back(std::move(x));
      else
        input_ended_ = true;
    }
  }

  template <class T>
  void draw(std::vector<T>& buffer, T& to) {
    auto at = random_.below(buffer.size());
    std::swap(buffer[at], buffer.back());
    to = std::move(buffer.back());
    buffer.pop_back();
  }

  /// Draws on the input's ordinals first, then makes only the elements that are still in the buffer
  /// at the end.
  void replay(std::uint64_t count) {
    std::vector<std::uint64_t> left;
    std::uint64_t seen = 0;
    auto take = [&](std::uint64_t& x) {
      x = seen;
      return input_->discard() && ++seen > 0;
    };
    for (; drawn_ < count; ++drawn_) {
      fill(left, take);
      std::uint64_t dropped = 0;
      if (left.empty())
        return;
      draw(left, dropped);
    }
    input_->start(pass_);
    std::vector<bool> wanted(seen, false);
    for (auto x : left)
      wanted[x] = true;
    std::vector<std::size_t> place(seen, 0);
    for (std::size_t i = 0; i < left.size(); ++i)
      place[left[i]] = i;
    buffer_.resize(left.size());
    for (std::uint64_t i = 0; i < seen; ++i)
      wanted[i] ? input_->next(buffer_[place[i]]) : input_->discard();
  }

  stream_ptr<Item> input_;
  std::uint64_t buffer_max_;
  std::uint64_t seed_;
  bool reshuffle_;
  std::uint64_t pass_ = 0;
  prng random_{0};
  std::vector<Item> buffer_{};
  bool input_ended_ = false;
  std::uint64_t drawn_ = 0;
};

/// Passes over the input, each with a number of its own. Ends when a pass is empty, or it would
/// never return.
template <class Item>
class repeat_stream final : public stream<Item> {
public:
  repeat_stream(stream_ptr<Item> input, std::optional<std::uint64_t> rounds)
    : input_{std::move(input)}, rounds_{rounds} {}

  void start(std::uint64_t pass) override {
    pass_ = pass;
    round_ = 0;
    any_ = false;
    ended_ = rounds_ == 0;
    input_->start(derive_seed(pass_, round_));
  }
  bool next(Item& to) override {
    return step([&] { return input_->next(to); });
  }
  bool discard() override {
    return step([this] { return input_->discard(); });
  }
  void save(position_out& out) const override {
    out.put(round_);
    out.put(any_ ? 1 : 0);
    out.put(ended_ ? 1 : 0);
    input_->save(out);
  }
  void load(position_in& in) override {
    round_ = in.take("round", rounds_ ? (*rounds_ == 0 ? 0 : *rounds_ - 1) : UINT64_MAX);
    any_ = in.take_flag("round begun");
    ended_ = in.take_flag("repeat ended");
    input_->start(derive_seed(pass_, round_));
    input_->load(in);
  }

private:
  template <class Step>
  bool step(Step once) {
    while (!ended_) {
      if (once())
        return any_ = true;
      if (!any_ || (rounds_ && round_ + 1 >= *rounds_)) {
        ended_ = true;
        break;
      }
      any_ = false;
      input_->start(derive_seed(pass_, ++round_));
    }
    return false;
  }

  stream_ptr<Item> input_;
  std::optional<std::uint64_t> rounds_;
  std::uint64_t pass_ = 0;
  std::uint64_t round_ = 0;
  bool any_ = false; // the round yielded an item
  bool ended_ = false;
};

/// The first items of a pass.
template <class Item>
class take_stream final : public stream<Item> {
public:
  take_stream(stream_ptr<Item> input, std::uint64_t count)
    : input_{std::move(input)}, count_{count} {}
  void start(std::uint64_t pass) override {
    taken_ = 0;
    input_->start(pass);
  }
  bool next(Item& to) override { return taken_ < count_ && input_->next(to) && ++taken_ > 0; }
  bool discard() override { return taken_ < count_ && input_->discard() && ++taken_ > 0; }
  void save(position_out& out) const override {
    out.put(taken_);
    input_->save(out);
  }
  void load(position_in& in) override {
    taken_ = in.take("taken", count_);
    input_->load(in);
  }

private:
  stream_ptr<Item> input_;
  std::uint64_t count_;
  std::uint64_t taken_ = 0;
};

/// Drops `first` items, then yields one and drops `between`, again and again: both skip (between 0)
/// and shard.
template <class Item>
class stride_stream final : public stream<Item> {
public:
  stride_stream(stream_ptr<Item> input, std::uint64_t first, std::uint64_t between)
    : input_{std::move(input)}, first_{first}, between_{between} {}
  void start(std::uint64_t pass) override {
    begun_ = false;
    input_->start(pass);
  }
  bool next(Item& to) override { return drop() && input_->next(to); }
  bool discard() override { return drop() && input_->discard(); }
  void save(position_out& out) const override {
    out.put(begun_ ? 1 : 0);
    input_->save(out);
  }
  void load(position_in& in) override {
    begun_ = in.take_flag("begun");
    input_->load(in);
  }

private:
  bool drop() {
    auto n = std::exchange(begun_, true) ? between_ : first_;
    for (std::uint64_t i = 0; i < n; ++i)
      if (!input_->discard())
        return false;
    return true;
  }

  stream_ptr<Item> input_;
  std::uint64_t first_;
  std::uint64_t between_;
  bool begun_ = false;
};

/// Item `index` of every `count`, and an error when the input has fewer than `count`.
template <class Item>
class full_shard_stream final : public stream<Item> {
public:
  full_shard_stream(stream_ptr<Item> input, std::uint64_t count, std::uint64_t index)
    : input_{std::move(input)}, count_{count}, index_{index} {}
  void start(std::uint64_t pass) override {
    begun_ = false;
    input_->start(pass);
  }
  bool next(Item& to) override {
    return step([&] { return input_->next(to); });
  }
  bool discard() override {
    return step([this] { return input_->discard(); });
  }
  void save(position_out& out) const override {
    out.put(begun_ ? 1 : 0);
    input_->save(out);
  }
  void load(position_in& in) override {
    begun_ = in.take_flag("begun");
    input_->load(in);
  }

private:
  /// A round of `count` items: those after the one taken are dropped at once, so that the first
  /// round tells whether there is one for every shard.
  template <class Take>
  bool step(Take take) {
    auto before = drop(index_);
    auto taken = before == index_ && take();
    auto after = taken ? drop(count_ - 1 - index_) : 0;
    if (!std::exchange(begun_, true) && (!taken || after != count_ - 1 - index_))
      fail(before + (taken ? 1 : 0) + after);
    return taken;
  }
  std::uint64_t drop(std::uint64_t n) {
    std::uint64_t dropped = 0;
    while (dropped < n && input_->discard())
      ++dropped;
    return dropped;
  }
  [[noreturn]] void fail(std::uint64_t found) const {
    throw_failure(errc::invalid_argument, "dataset: " + std::to_string(found) + " elements for "
                                            + std::to_string(count_)
                                            + " shards, at least one per shard is required");
  }

  stream_ptr<Item> input_;
  std::uint64_t count_;
  std::uint64_t index_;
  bool begun_ = false;
};

/// A stream of one input after the other.
template <class Item>
class concatenate_stream final : public stream<Item> {
public:
  concatenate_stream(stream_ptr<Item> a, stream_ptr<Item> b) : a_{std::move(a)}, b_{std::move(b)} {}
  void start(std::uint64_t pass) override {
    in_b_ = false;
    a_->start(pass);
    b_->start(pass);
  }
  bool next(Item& to) override {
    if (!in_b_ && a_->next(to))
      return true;
    in_b_ = true;
    return b_->next(to);
  }
  bool discard() override {
    if (!in_b_ && a_->discard())
      return true;
    in_b_ = true;
    return b_->discard();
  }
  void save(position_out& out) const override {
    out.put(in_b_ ? 1 : 0);
    a_->save(out);
    b_->save(out);
  }
  void load(position_in& in) override {
    in_b_ = in.take_flag("second input");
    a_->load(in);
    b_->load(in);
  }

private:
  stream_ptr<Item> a_;
  stream_ptr<Item> b_;
  bool in_b_ = false;
};

} // namespace troupe::detail
