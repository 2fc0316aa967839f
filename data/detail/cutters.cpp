#include <troupe/data/detail/cutters.hpp>

#include <algorithm>
#include <numeric>

#include <troupe/core/error.hpp>
#include <troupe/data/detail/counts.hpp>

namespace troupe::detail {

namespace {

using sizes = std::vector<std::int64_t>;

/// A piece of the next `rows` rows. @pre so many are held
batch_piece cut(held_rows& from, std::int64_t rows) {
  batch_piece out{.data = {}, .first_row = from.rows_gone(), .rows = rows};
  if (rows > 0)
    out.data = from.take(rows);
  return out;
}

std::int64_t common_size(const sizes& xs) {
  return std::all_of(xs.begin(), xs.end(), [&](auto x) { return x == xs[0]; }) ? xs[0] : -1;
}

/// Fills `whole` pieces one after the other with `rows`.
sizes filled(sizes whole, std::int64_t rows) {
  for (auto& x : whole) {
    x = std::min(x, rows);
    rows -= x;
  }
  return whole;
}

/// Elements are not divided: replicas take them in turn.
class dealer final : public cutter {
public:
  explicit dealer(const cut_plan& plan) : plan_{plan} {}

  bool next(held_rows& from, std::vector<batch_piece>& to) override {
    auto round = plan_.shared ? plan_.replicas_in_sync() : plan_.options.replicas;
    bool any = false;
    for (std::int64_t i = 0; i < round; ++i) {
      auto own = !plan_.shared || i % plan_.options.workers == plan_.options.worker;
      batch_piece piece{.data = {}, .first_row = from.rows_gone(), .rows = 0};
      if (auto x = from.take_whole()) {
        any = true;
        piece.rows = static_cast<std::int64_t>(from.rows_gone() - piece.first_row);
        piece.data = std::move(*x);
      }
      if (own)
        to.push_back(std::move(piece));
    }
    return any;
  }
  void load(position_in&, const held_rows& from) override {
    if (from.rows_held() > 0)
      throw_failure(errc::corrupt, "dataset position: " + std::to_string(from.rows_held())
                                     + " rows of a batch, but batches are not divided");
  }
  std::int64_t steps(std::int64_t elements) const override {
    auto round = plan_.shared ? plan_.replicas_in_sync() : plan_.options.replicas;
    return count_batches(elements, static_cast<std::uint64_t>(round), false);
  }

private:
  cut_plan plan_;
};

/// All workers cut the same rows; piece i is worker i mod W's. Between two steps all
/// have taken the same rows, whatever their number: such a position holds for other groups.
class shared_cutter final : public cutter {
public:
  explicit shared_cutter(const cut_plan& plan) : plan_{plan} {
    const auto& o = plan_.options;
    for (std::int64_t i = 0; i < plan_.replicas_in_sync() && !o.weights.empty(); ++i)
      weights_.push_back(
        o.weights[static_cast<std::size_t>(i % o.workers * o.replicas + i / o.workers)]);
  }

  bool next(held_rows& from, std::vector<batch_piece>& to) override {
    auto rows = by_stream() ? from.want(plan_.global_rows) : from.want_batch();
    auto all = sizes_of(rows);
    for (std::size_t i = 0; i < all.size(); ++i)
      if (static_cast<std::int64_t>(i) % plan_.options.workers == plan_.options.worker)
        to.push_back(cut(from, all[i]));
      else
        from.drop(all[i]);
    return rows > 0;
  }
  std::int64_t steps(std::int64_t elements) const override {
    return by_stream() && plan_.is_ragged ? unknown_cardinality : elements;
  }
  std::int64_t piece_rows() const override {
    return plan_.global_rows < 0 ? -1 : common_size(whole_pieces());
  }
  std::int64_t least_rows() const override {
    return plan_.global_rows < 0 ? -1 : std::ranges::min(sizes_of(plan_.global_rows));
  }

private:
  /// Of this worker. @pre the batch size is known
  sizes whole_pieces() const {
    sizes own;
    auto all = sizes_of(plan_.global_rows);
    for (auto i = plan_.options.worker; i < plan_.replicas_in_sync(); i += plan_.options.workers)
      own.push_back(all[static_cast<std::size_t>(i)]);
    return own;
  }
  bool by_stream() const { return plan_.options.rule == split::stream && plan_.global_rows >= 0; }
  /// In the order of pieces.
  sizes sizes_of(std::int64_t rows) const {
    if (!weights_.empty())
      return weighted_split_sizes(rows, weights_);
    if (by_stream())
      return filled(stream_split_sizes(plan_.global_rows, 1, plan_.replicas_in_sync(), 0), rows);
    return even_split_sizes(rows, plan_.replicas_in_sync());
  }

  cut_plan plan_;
  std::vector<std::uint32_t> weights_{}; // in the order of pieces
};

/// Every worker cuts a stream of its own by the stream rule.
class stream_cutter final : public cutter {
public:
  explicit stream_cutter(const cut_plan& plan)
    : list_{stream_split_sizes(plan.global_rows, plan.options.workers, plan.options.replicas,
                               plan.options.worker)},
      replicas_{plan.options.replicas} {}

  bool next(held_rows& from, std::vector<batch_piece>& to) override {
    bool any = false;
    for (std::int64_t i = 0; i < replicas_; ++i) {
      auto size = list_[slot_++ % list_.size()];
      to.push_back(cut(from, from.want(size)));
      any = any || to.back().rows > 0;
    }
    return any || from.want(1) > 0; // a step may give this worker nothing before the end
  }
  void start_pass() override { slot_ = 0; }
  void save(position_out& out) const override { out.put(slot_ % list_.size()); }
  void load(position_in& in, const held_rows&) override {
    slot_ = in.take("slot", list_.size() - 1);
  }
  std::int64_t steps(std::int64_t) const override { return unknown_cardinality; }
  std::int64_t piece_rows() const override { return common_size(list_); }
  std::int64_t least_rows() const override { return std::ranges::min(list_); }

private:
  sizes list_;
  std::int64_t replicas_;
  std::uint64_t slot_ = 0;
};

/// The same with weights: in every step each replica of this worker takes its share of G.
class weighted_cutter final : public cutter {
public:
  explicit weighted_cutter(const cut_plan& plan) {
    const auto& o = plan.options;
    auto first = o.worker * o.replicas;
    auto all = weighted_split_sizes(plan.global_rows, o.weights);
    whole_.assign(all.begin() + first, all.begin() + first + o.replicas);
    weights_.assign(o.weights.begin() + first, o.weights.begin() + first + o.replicas);
    least_rows_ = std::ranges::min(all);
    step_rows_ = std::accumulate(whole_.begin(), whole_.end(), std::int64_t{0});
    if (step_rows_ == 0)
      throw_failure(errc::invalid_argument, "input: weights: worker " + std::to_string(o.worker)
                                              + " takes none of " + std::to_string(plan.global_rows)
                                              + " rows and would never read its own input");
  }

  bool next(held_rows& from, std::vector<batch_piece>& to) override {
    auto rows = from.want(step_rows_);
    for (auto size : rows == step_rows_ ? whole_ : weighted_split_sizes(rows, weights_))
      to.push_back(cut(from, size));
    return rows > 0;
  }
  std::int64_t steps(std::int64_t) const override { return unknown_cardinality; }
  std::int64_t piece_rows() const override { return common_size(whole_); }
  std::int64_t least_rows() const override { return least_rows_; }

private:
  sizes whole_{};
  std::vector<std::uint32_t> weights_{};
  std::int64_t step_rows_ = 0;
  std::int64_t least_rows_ = 0;
};

/// Every worker cuts each batch of a stream of its own into n pieces and takes R of them a step.
class batch_cutter final : public cutter {
public:
  explicit batch_cutter(const cut_plan& plan)
    : pieces_{plan.replicas_in_sync()}, replicas_{plan.options.replicas} {}

  bool next(held_rows& from, std::vector<batch_piece>& to) override {
    bool any = false;
    for (std::int64_t i = 0; i < replicas_; ++i) {
      if (at_ == pieces_) {
        size_ = (from.want_batch() + pieces_ - 1) / pieces_;
        left_ = from.want_batch();
        at_ = 0;
      }
      auto rows = std::min(size_, left_);
      to.push_back(cut(from, rows));
      left_ -= rows;
      ++at_;
      any = any || rows > 0;
    }
    return any || from.want(1) > 0;
  }
  void start_pass() override {
    at_ = pieces_;
    size_ = 0;
    left_ = 0;
  }
  void save(position_out& out) const override {
    out.put(static_cast<std::uint64_t>(at_));
    out.put(static_cast<std::uint64_t>(size_));
    out.put(static_cast<std::uint64_t>(left_));
  }
  void load(position_in& in, const held_rows& from) override {
    at_ = static_cast<std::int64_t>(in.take("piece", static_cast<std::uint64_t>(pieces_)));
    size_ = static_cast<std::int64_t>(in.take("piece size", INT64_MAX));
    left_ = static_cast<std::int64_t>(
      in.take("rows left of a batch", static_cast<std::uint64_t>(from.rows_held())));
  }
  std::int64_t steps(std::int64_t) const override { return unknown_cardinality; }

private:
  std::int64_t pieces_;
  std::int64_t replicas_;
  std::int64_t at_ = pieces_; // of the batch's pieces
  std::int64_t size_ = 0;
  std::int64_t left_ = 0; // rows of the batch
};

} // namespace

std::unique_ptr<cutter> make_cutter(const cut_plan& plan) {
  const auto& o = plan.options;
  // One replica has every batch as it is.
  if (!o.rebatch || plan.replicas_in_sync() == 1)
    return std::make_unique<dealer>(plan);
  if (plan.shared)
    return std::make_unique<shared_cutter>(plan);
  if (!o.weights.empty()) {
    if (plan.global_rows < 0)
      throw_failure(errc::invalid_argument,
                    "input: weights under policy " + to_string(o.policy) + " with "
                      + std::to_string(o.workers)
                      + " workers require a dataset with a known batch size: put map before batch");
    return std::make_unique<weighted_cutter>(plan);
  }
  if (o.rule == split::stream && plan.global_rows >= 0)
    return std::make_unique<stream_cutter>(plan);
  return std::make_unique<batch_cutter>(plan);
}

} // namespace troupe::detail
