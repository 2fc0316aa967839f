#include <troupe/data/distributed_input.hpp>

#include <exception>
#include <numeric>
#include <optional>

#include <troupe/core/error.hpp>
#include <troupe/data/detail/counts.hpp>
#include <troupe/data/detail/cutters.hpp>
#include <troupe/data/detail/dataset_access.hpp>
#include <troupe/data/detail/node.hpp>
#include <troupe/data/detail/seeds.hpp>
#include <troupe/data/iterator.hpp>

// The body of a saved position (data/detail/position.hpp):
//   body := ended held cutter
//   held := rows_gone rows_gone_of_batch batches iterator_position
// `cutter` is what the way of cutting saves. Under `data`, and with one worker, it is nothing, and
// the frame's fingerprint leaves the group out: another group may go on from there.
namespace troupe {

namespace detail {

namespace {

constexpr std::uint64_t input_magic = 0x31304e4954505254; // "TRPTIN01"
constexpr std::int64_t group_max = 1 << 20;

void require(const char* what, std::int64_t x, std::int64_t min, std::int64_t max) {
  if (x < min || x > max)
    throw_failure(errc::invalid_argument, "input: " + std::string{what} + " is " + std::to_string(x)
                                            + ", expected " + std::to_string(min) + " to "
                                            + std::to_string(max));
}

pipeline_options checked(const pipeline_options& x) {
  require("workers", x.workers, 1, group_max);
  require("worker", x.worker, 0, x.workers - 1);
  require("replicas of a worker", x.replicas, 1, group_max / x.workers);
  if (x.weights.empty())
    return x;
  auto n = x.workers * x.replicas;
  if (static_cast<std::int64_t>(x.weights.size()) != n)
    throw_failure(errc::invalid_argument, "input: " + std::to_string(x.weights.size())
                                            + " weights for " + std::to_string(n) + " replicas");
  if (!x.rebatch)
    throw_failure(errc::invalid_argument,
                  "input: weights require rebatch; without it elements are not divided");
  (void)weighted_split_sizes(0, x.weights); // refuses weights that are all 0
  return x;
}

/// What stands for no rows.
element zero_rows(const std::vector<tensor_spec>& specs) {
  std::vector<tensor> parts;
  for (const auto& spec : specs) {
    auto shape = spec.shape;
    for (auto& extent : shape)
      extent = extent < 0 ? 0 : extent;
    if (!shape.empty())
      shape[0] = 0;
    parts.push_back(tensor::zeros(spec.type, std::move(shape)));
  }
  return element{std::move(parts)};
}

bool is_static(const std::vector<tensor_spec>& specs) {
  for (const auto& spec : specs)
    for (auto extent : spec.shape)
      if (extent < 0)
        return false;
  return true;
}

} // namespace

/// The state of a pipeline.
class piece_source {
public:
  /// @pre the options are checked
  piece_source(autosharded share, const pipeline_options& options, bool own_streams,
               data_context context)
    : share_{std::move(share)},
      context_{context},
      seeds_{options.shared_seed},
      own_streams_{own_streams},
      plan_{.options = options,
            .global_rows = options.rebatch && options.workers * options.replicas > 1
                             ? static_batch_size(share_.share, context)
                             : static_batch_size(share_.share),
            .is_ragged = dataset_access::node(share_.share)->partial_batches() > 1,
            .shared = share_.policy == autoshard_policy::data || options.workers == 1},
      cutter_{make_cutter(plan_)},
      held_{share_.share.iterate(is_dealt() ? data_context{context.storage, seeds_} : context)} {}
  piece_source(const piece_source&) = delete;
  piece_source& operator=(const piece_source&) = delete;

  input_step next() {
    if (broken_)
      std::rethrow_exception(broken_);
    std::vector<batch_piece> pieces;
    if (!ended_)
      try {
        ended_ = !cutter_->next(held_, pieces);
      } catch (...) {
        broken_ = std::current_exception();
        throw;
      }
    pieces.resize(static_cast<std::size_t>(plan_.options.replicas));
    input_step out;
    out.has_data = !ended_;
    for (auto& x : pieces)
      out.pieces.push_back(finished(std::move(x)));
    return out;
  }

  void start_pass(std::uint64_t pass) {
    held_.start_pass(pass);
    cutter_->start_pass();
    ended_ = false;
    broken_ = nullptr;
  }
  std::uint64_t pass() const { return held_.pass(); }

  std::string save() const {
    if (broken_)
      throw_failure(errc::wrong_state,
                    "input: no position after an error; restore a position first");
    auto out = begin_position(input_magic, position_hash(owner()));
    out.put(ended_ ? 1 : 0);
    held_.save(out);
    cutter_->save(out);
    return end_position(std::move(out));
  }

  /// Into a state of its own, so that a position that does not hold changes nothing.
  std::unique_ptr<piece_source> restored(std::string_view bytes) const {
    auto in = open_position(bytes, input_magic, position_hash(owner()), "input " + owner());
    auto out = std::make_unique<piece_source>(share_, plan_.options, own_streams_, context_);
    out->ended_ = in.take_flag("input ended");
    out->held_.load(in);
    out->cutter_->load(in, out->held_);
    if (in.rest_bytes() != 0)
      throw_failure(errc::corrupt, "dataset position: " + std::to_string(in.rest_bytes())
                                     + " bytes after the end");
    return out;
  }

  std::int64_t cardinality() const {
    auto elements = share_.share.cardinality(context_);
    return is_known(elements) ? cutter_->steps(elements) : elements;
  }

  bool has_partial_steps() const {
    const bool is_whole = is_static(specs());
    if (share_.share.cardinality(context_) != infinite_cardinality)
      return plan_.options.workers > 1 || !is_whole;
    return plan_.options.workers > 1 && divides() && !(is_whole && gives_all_rows());
  }

  std::vector<tensor_spec> element_spec() const {
    auto out = specs();
    auto partial = has_partial_steps();
    for (auto& spec : out) {
      if (spec.shape.empty())
        continue;
      auto& rows = spec.shape[0];
      if (partial)
        rows = -1;
      else if (divides())
        rows = rows == plan_.global_rows ? cutter_->piece_rows() : -1;
    }
    return out;
  }

  const autosharded& share() const { return share_; }
  std::int64_t global_rows() const { return plan_.global_rows; }

private:
  /// All workers must see the same order.
  bool is_dealt() const {
    return share_.policy == autoshard_policy::data && plan_.options.workers > 1;
  }
  /// Whether every whole batch has rows for each replica of every worker: all workers must agree.
  /// @pre shapes are known
  bool gives_all_rows() const {
    if (plan_.global_rows >= 0 || !plan_.options.weights.empty())
      return cutter_->least_rows() > 0;
    const auto all = specs();
    return !all.empty() && !all[0].shape.empty()
           && even_split_sizes(all[0].shape[0], plan_.replicas_in_sync()).back() > 0;
  }
  bool divides() const { return plan_.options.rebatch && plan_.replicas_in_sync() > 1; }
  std::vector<tensor_spec> specs() const { return share_.share.element_spec(context_); }

  input_piece finished(batch_piece x) {
    input_piece out;
    if (x.rows == 0 && x.data.empty()) {
      if (!nothing_)
        nothing_ = zero_rows(specs());
      out.data = *nothing_;
      return out;
    }
    out.data = std::move(x.data);
    out.global_rows.resize(static_cast<std::size_t>(x.rows));
    std::iota(out.global_rows.begin(), out.global_rows.end(), x.first_row);
    if (own_streams_)
      for (auto& row : out.global_rows)
        row = row * static_cast<std::uint64_t>(plan_.options.workers)
              + static_cast<std::uint64_t>(plan_.options.worker);
    return out;
  }

  /// What a position belongs to, besides the dataset, whose own position tells.
  std::string owner() const {
    const auto& o = plan_.options;
    auto out = "under " + to_string(share_.policy) + (o.rebatch ? "" : " as it is")
               + (o.rule == split::even ? " split evenly" : "");
    if (plan_.shared)
      return out;
    out += ", worker " + std::to_string(o.worker) + " of " + std::to_string(o.workers) + " with "
           + std::to_string(o.replicas) + " replicas";
    for (auto x : o.weights)
      out += ":" + std::to_string(x);
    return out;
  }

  autosharded share_;
  data_context context_;
  derived_random seeds_;
  bool own_streams_; // workers read different rows
  cut_plan plan_;
  std::unique_ptr<cutter> cutter_;
  held_rows held_;
  bool ended_ = false;
  std::exception_ptr broken_{}; // what an earlier call threw
  std::optional<element> nothing_{};
};

namespace {

std::unique_ptr<piece_source> shared_out(const dataset& data, const pipeline_options& options,
                                         data_context context) {
  auto checked_options = checked(options);
  auto share = autoshard(data, options.workers, options.worker, options.policy, context);
  // Under `data` the pieces are shared out, not the batches.
  if (share.policy == autoshard_policy::data)
    share.share = data;
  auto own = options.workers > 1
             && (share.policy == autoshard_policy::file || share.policy == autoshard_policy::hint);
  return std::make_unique<piece_source>(std::move(share), checked_options, own, context);
}

} // namespace

} // namespace detail

std::int64_t pipeline_place::per_replica_batch_size(std::int64_t global_rows) const {
  if (replicas_in_sync < 1 || global_rows % replicas_in_sync != 0)
    throw_failure(errc::invalid_argument, "input: global batch size " + std::to_string(global_rows)
                                            + " is not a multiple of the "
                                            + std::to_string(replicas_in_sync) + " replicas");
  return global_rows / replicas_in_sync;
}

pipeline_pieces::pipeline_pieces(std::unique_ptr<detail::piece_source> source)
  : source_{std::move(source)} {}

pipeline_pieces::pipeline_pieces(const dataset& data, const pipeline_options& options,
                                 data_context context)
  : source_{detail::shared_out(data, options, context)} {}

pipeline_pieces pipeline_pieces::from_function(
  const std::function<dataset(const pipeline_place&)>& function, const pipeline_options& options,
  data_context context) {
  if (!function)
    throw_failure(errc::invalid_argument, "input: the function is empty");
  pipeline_options plain{};
  plain.workers = options.workers;
  plain.worker = options.worker;
  plain.replicas = options.replicas;
  plain.policy = autoshard_policy::off;
  plain.rebatch = false;
  plain = detail::checked(plain);
  auto data = function({plain.workers, plain.worker, plain.workers * plain.replicas});
  return pipeline_pieces{std::make_unique<detail::piece_source>(
    autosharded{std::move(data), autoshard_policy::off, {}}, plain, plain.workers > 1, context)};
}

pipeline_pieces::~pipeline_pieces() = default;
pipeline_pieces::pipeline_pieces(pipeline_pieces&&) noexcept = default;
pipeline_pieces& pipeline_pieces::operator=(pipeline_pieces&&) noexcept = default;

input_step pipeline_pieces::next() { return source_->next(); }
void pipeline_pieces::start_pass(std::uint64_t pass) { source_->start_pass(pass); }
std::uint64_t pipeline_pieces::pass() const { return source_->pass(); }
std::string pipeline_pieces::save() const { return source_->save(); }
void pipeline_pieces::restore(std::string_view bytes) { source_ = source_->restored(bytes); }
pipeline_pieces pipeline_pieces::restored(std::string_view bytes) const {
  return pipeline_pieces{source_->restored(bytes)};
}
std::int64_t pipeline_pieces::cardinality() const { return source_->cardinality(); }
bool pipeline_pieces::has_partial_steps() const { return source_->has_partial_steps(); }
std::vector<tensor_spec> pipeline_pieces::element_spec() const { return source_->element_spec(); }
autoshard_policy pipeline_pieces::policy() const { return source_->share().policy; }
const std::string& pipeline_pieces::note() const { return source_->share().note; }
std::int64_t pipeline_pieces::global_batch_size() const { return source_->global_rows(); }

} // namespace troupe
