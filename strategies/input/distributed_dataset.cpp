#include <troupe/strategies/input/distributed_dataset.hpp>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <numeric>
#include <utility>

#include <troupe/strategies/input/detail/prefetcher.hpp>
#include <troupe/transport/collective_group.hpp>

namespace troupe {

using detail::distributed_source;
using detail::replica_engine;

// --- a step's input

distributed_batch::distributed_batch(input_step step, std::uint32_t live, empty_pieces empties,
                                     std::shared_ptr<const detail::placed_input> placed)
  : pieces_{std::move(step.pieces)}, live_{live}, empties_{empties}, placed_{std::move(placed)} {}

const element& distributed_batch::piece(std::size_t replica) const& {
  if (replica >= pieces_.size())
    throw_failure(errc::out_of_range, "distributed_batch: piece " + std::to_string(replica) + " of "
                                        + std::to_string(pieces_.size()));
  return pieces_[replica].data;
}

const std::vector<std::uint64_t>& distributed_batch::global_rows(std::size_t replica) const& {
  (void)piece(replica);
  return pieces_[replica].global_rows;
}

bool distributed_batch::is_empty(std::size_t replica) const {
  (void)piece(replica);
  return pieces_[replica].empty();
}

std::optional<device_id> distributed_batch::device(std::size_t replica) const {
  (void)piece(replica);
  return placed_ ? placed_->where(replica) : std::nullopt;
}

per_replica<tensor> distributed_batch::part(std::size_t i) const {
  std::vector<tensor> out;
  for (const auto& each : pieces_)
    out.push_back(each.data[i]);
  return per_replica<tensor>{std::move(out)};
}

per_replica<tensor> distributed_batch::only() const {
  std::vector<tensor> out;
  for (const auto& each : pieces_)
    out.push_back(each.data.only());
  return per_replica<tensor>{std::move(out)};
}

// --- iterating

distributed_iterator::distributed_iterator(std::shared_ptr<distributed_source> source)
  : source_{std::move(source)}, at_{std::make_unique<detail::prefetcher>(source_)} {}
distributed_iterator::~distributed_iterator() = default;
distributed_iterator::distributed_iterator(distributed_iterator&&) noexcept = default;
distributed_iterator& distributed_iterator::operator=(distributed_iterator&&) noexcept = default;

/// What the workers have to know of each other: how many replicas have data, and whether any worker
/// goes on.
distributed_iterator::agreement distributed_iterator::agree(const input_step& step) {
  const auto& of = source_->of();
  agreement out{.going = step.has_data};
  for (const auto& piece : step.pieces)
    out.live += piece.empty() ? 0 : 1;
  if (of->options().workers == 1)
    return out;
  const strategy all{of};
  if (!asks_) { // one that may end early has all ask
    const std::int64_t mine = at_->first().has_partial_steps() ? 1 : 0;
    asks_ = all.run([mine](replica_context& ctx) {
      return ctx.all_reduce(reduce_op::max, mine);
    })[0] != 0;
  }
  if (!*asks_)
    return {.live = of->count(), .going = out.going};
  // Workers of which one has missed an earlier answer must not take one step for another.
  const auto number = "next, step " + std::to_string(agreed_);
  const auto sums = all.run([out, number](replica_context& ctx) {
    const bool first = ctx.replica_id_in_sync_group() % ctx.strategy().num_local_replicas() == 0;
    return ctx.all_reduce(
      reduce_op::sum,
      tensor::vector<std::int64_t>({first ? out.live : 0, first && out.going ? 1 : 0}),
      {.what = number});
  });
  return {.live = static_cast<std::uint32_t>(sums[0].as<std::int64_t>()[0]),
          .going = sums[0].as<std::int64_t>()[1] != 0};
}

std::optional<distributed_batch> distributed_iterator::try_next() {
  source_->of()->require_cross_replica("next");
  if (ended_)
    return std::nullopt;
  if (!pending_)
    pending_ = std::make_unique<detail::prefetched_batch>(at_->next());
  const auto all = agree(pending_->step); // if it throws, the step is for the next call
  const auto made = std::move(pending_);
  ++agreed_;
  if (!all.going) {
    ended_ = true;
    return std::nullopt;
  }
  return distributed_batch{std::move(made->step), all.live, source_->options().empties,
                           std::move(made->placed)};
}

/// Where another pass or another position begins.
void distributed_iterator::begin_anew() {
  pending_ = nullptr;
  agreed_ = 0;
  ended_ = false;
}

distributed_batch distributed_iterator::next() {
  auto out = try_next();
  if (!out)
    throw_failure(errc::end_of_data,
                  "next: no replica of " + source_->of()->text() + " has data left");
  return *std::move(out);
}

void distributed_iterator::start_pass(std::uint64_t pass) {
  at_->start_pass(pass);
  begin_anew();
}

std::uint64_t distributed_iterator::pass() const { return at_->pass(); }

/// As many positions as pipelines, each behind its length in eight hexadecimal digits.
std::string distributed_iterator::save_position() const {
  if (pending_)
    throw_failure(
      errc::wrong_state,
      "save_position: the workers have not agreed on the last step; call next again, or "
      "restore a position");
  std::string out;
  for (const auto& one : at_->positions()) {
    char length[9];
    std::snprintf(length, sizeof length, "%08zx", one.size());
    out += length + one;
  }
  return out;
}

void distributed_iterator::restore_position(std::string_view bytes) {
  std::vector<std::string> parts;
  for (auto rest = bytes; !rest.empty();) {
    std::size_t length = 0;
    const auto* end = rest.data() + std::min<std::size_t>(rest.size(), 8);
    const auto got = std::from_chars(rest.data(), end, length, 16);
    if (rest.size() < 8 || got.ptr != end || length > rest.size() - 8)
      throw_failure(errc::corrupt, "restore_position: byte "
                                     + std::to_string(bytes.size() - rest.size())
                                     + " is not the start of a position");
    parts.emplace_back(rest.substr(8, length));
    rest.remove_prefix(8 + length);
  }
  if (parts.size() != at_->pipelines())
    throw_failure(errc::mismatch, "restore_position: " + std::to_string(parts.size())
                                    + " pipelines were saved, now there are "
                                    + std::to_string(at_->pipelines()));
  at_->restore(parts);
  begin_anew();
}

std::vector<tensor_spec> distributed_iterator::element_spec() const {
  return at_->first().element_spec();
}

std::vector<tensor_spec> distributed_dataset::element_spec() const {
  return source_->open()[0].element_spec();
}
std::int64_t distributed_dataset::cardinality() const { return source_->open()[0].cardinality(); }
std::string distributed_dataset::note() const { return source_->open()[0].note(); }

// --- making them

namespace {

std::shared_ptr<distributed_source> source_of(const strategy& s, const char* what,
                                              distribute_options options, bool from_function) {
  s.state()->require_cross_replica(what);
  auto ok = check_input_options(
    options.input, from_function ? input_source::dataset_function : input_source::dataset,
    s.state()->policy().allows_pipeline_per_replica);
  if (!ok)
    throw_failure(std::move(ok.error()));
  if (options.shared_seed == 0 && s.state()->options().workers > 1) { // the same for all workers
    const auto own = static_cast<std::int64_t>(s.state()->env().random.draw("input.shared_seed"));
    const auto seed = s.run([own](replica_context& ctx) {
      return ctx.broadcast(tensor::scalar(own)).item<std::int64_t>();
    });
    options.shared_seed = static_cast<std::uint64_t>(seed[0]);
  }
  return std::make_shared<distributed_source>(s.state(), std::move(options));
}

} // namespace

distributed_dataset distribute_dataset(const strategy& s, const dataset& global_batches,
                                       distribute_options options) {
  auto source = source_of(s, "distribute_dataset", std::move(options), false);
  source->global = global_batches;
  return distributed_dataset{std::move(source)};
}

distributed_dataset distribute_datasets_from_function(
  const strategy& s, std::function<dataset(const input_context&)> function,
  distribute_options options) {
  auto source = source_of(s, "distribute_datasets_from_function", std::move(options), true);
  source->function = std::move(function);
  return distributed_dataset{std::move(source)};
}

tensor gather_ordered(const strategy& s, const per_replica<tensor>& value,
                      const distributed_batch& of) {
  std::vector<tensor> rows;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const auto& numbers = of.global_rows(i);
    const auto got = value[i].defined() ? value[i].rows() : 0;
    if (got != static_cast<std::int64_t>(numbers.size()))
      throw_failure(errc::shape_mismatch, "gather_ordered: component " + std::to_string(i) + " has "
                                            + std::to_string(got) + " rows, its piece "
                                            + std::to_string(numbers.size()));
    std::vector<std::int64_t> own(numbers.begin(), numbers.end());
    rows.push_back(tensor::of<std::int64_t>({static_cast<std::int64_t>(own.size())},
                                            std::span<const std::int64_t>{own}));
  }
  const auto all = s.gather(value, 0);
  const auto order = s.gather(per_replica<tensor>{std::move(rows)}, 0);
  std::vector<std::size_t> at(static_cast<std::size_t>(order.size()));
  std::iota(at.begin(), at.end(), std::size_t{0});
  const auto numbers = order.as<std::int64_t>();
  std::sort(at.begin(), at.end(),
            [&](std::size_t a, std::size_t b) { return numbers[a] < numbers[b]; });
  std::vector<tensor> parts;
  for (auto i : at)
    parts.push_back(all.rows(static_cast<std::int64_t>(i), static_cast<std::int64_t>(i) + 1));
  return parts.empty() ? all : concatenate(parts);
}

} // namespace troupe
