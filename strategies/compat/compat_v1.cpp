#include <troupe/strategies/compat/compat_v1.hpp>

#include <troupe/strategies/cluster/cluster_roles.hpp>
#include <troupe/strategies/replicas/detail/replica_engine.hpp>
#include <troupe/transport/collective_group.hpp>

namespace troupe::compat_v1 {

namespace detail {

/// Where the steps come from.
class input_feed {
public:
  virtual ~input_feed() = default;
  virtual void start_pass(std::uint64_t pass) = 0;
  virtual std::optional<distributed_batch> try_next() = 0;
  virtual std::string of() const = 0;
};

namespace {

class dataset_feed final : public input_feed {
public:
  dataset_feed(std::string of, const distributed_dataset& from)
    : of_{std::move(of)}, at_{from.iterate()} {}
  void start_pass(std::uint64_t pass) override { at_.start_pass(pass); }
  std::optional<distributed_batch> try_next() override { return at_.try_next(); }
  std::string of() const override { return of_; }

private:
  std::string of_;
  distributed_iterator at_;
};

/// Zero rows of an element's types and shapes.
element empty_like(const element& x) {
  std::vector<tensor> parts;
  for (const auto& each : x) {
    auto shape = each.shape();
    if (!shape.empty())
      shape[0] = 0;
    parts.push_back(tensor::zeros(each.type(), std::move(shape)));
  }
  return element{std::move(parts)};
}

class generator_feed final : public input_feed {
public:
  generator_feed(strategy s, std::function<generator(const input_context&)> f)
    : s_{std::move(s)}, f_{std::move(f)} {
    start_pass(0);
  }

  void start_pass(std::uint64_t) override {
    const auto& o = s_.state()->options();
    next_ = f_({.num_input_pipelines = o.workers,
                .input_pipeline_id = o.worker,
                .num_replicas_in_sync = s_.num_replicas_in_sync()});
    if (!next_)
      throw_failure(errc::invalid_argument,
                    "make_input_fn_iterator: the function returned an empty callable");
    rows_ = 0;
    ended_ = over_ = false;
  }

  std::optional<distributed_batch> try_next() override {
    s_.state()->require_cross_replica("get_next");
    if (over_)
      return std::nullopt;
    input_step step;
    std::int64_t live = 0;
    for (std::uint32_t i = 0; i < s_.num_local_replicas(); ++i) {
      step.pieces.push_back(piece(step));
      live += step.pieces.back().empty() ? 0 : 1;
    }
    over_ = !agree(live);
    if (over_)
      return std::nullopt;
    step.has_data = true;
    return distributed_batch{std::move(step), static_cast<std::uint32_t>(live), empty_pieces::skip};
  }
  std::string of() const override { return s_.to_string(); }

private:
  input_piece piece(const input_step& before) {
    const auto number = [&](std::uint64_t row) {
      const auto& o = s_.state()->options();
      return row * o.workers + o.worker;
    };
    input_piece out;
    if (!ended_) {
      try {
        out.data = next_();
      } catch (const error& e) {
        if (e.code() != errc::end_of_data)
          throw;
        ended_ = true;
      }
    }
    if (ended_ || out.data.empty()) {
      if (!before.pieces.empty())
        out.data = empty_like(before.pieces[0].data);
      return out;
    }
    const auto rows = out.data[0].rank() == 0 ? 1 : out.data[0].rows();
    for (std::int64_t i = 0; i < rows; ++i)
      out.global_rows.push_back(number(rows_++));
    return out;
  }

  /// Whether every worker has data; `live` becomes that of all.
  bool agree(std::int64_t& live) {
    if (s_.state()->options().workers == 1)
      return live > 0;
    const auto own = live;
    const auto out = s_.run([own](replica_context& ctx) {
      const bool first = ctx.replica_id_in_sync_group() % ctx.strategy().num_local_replicas() == 0;
      return std::tuple{ctx.all_reduce(reduce_op::sum, first ? own : std::int64_t{0}),
                        ctx.all_reduce(reduce_op::min, own)};
    });
    live = std::get<0>(out[0]);
    return std::get<1>(out[0]) > 0;
  }

  const strategy s_;
  const std::function<generator(const input_context&)> f_;
  generator next_{};
  std::uint64_t rows_ = 0;
  bool ended_ = false; ///< the callable of this worker
  bool over_ = false;  ///< the pass, for all workers
};

void check_mode(const strategy& s, input_replication mode) {
  s.state()->require_cross_replica("make_input_fn_iterator");
  if (mode != input_replication::per_worker)
    throw_failure(errc::invalid_argument,
                  "make_input_fn_iterator: mode " + to_string(mode) + "; it must be per_worker");
}

} // namespace

input_iterator from_datasets(const strategy& s, dataset_function f, input_replication mode) {
  check_mode(s, mode);
  return input_iterator{std::make_unique<dataset_feed>(
    s.to_string(), distribute_datasets_from_function(s, std::move(f)))};
}

input_iterator from_generators(const strategy& s, std::function<generator(const input_context&)> f,
                               input_replication mode) {
  check_mode(s, mode);
  return input_iterator{std::make_unique<generator_feed>(s, std::move(f))};
}

} // namespace detail

input_iterator::input_iterator(std::unique_ptr<detail::input_feed> feed) : feed_{std::move(feed)} {}
input_iterator::~input_iterator() = default;
input_iterator::input_iterator(input_iterator&&) noexcept = default;
input_iterator& input_iterator::operator=(input_iterator&&) noexcept = default;

void input_iterator::initialize() {
  if (!std::exchange(taken_, false))
    return;
  feed_->start_pass(++pass_);
}

distributed_batch input_iterator::get_next() {
  auto out = feed_->try_next();
  taken_ = true;
  if (!out)
    throw_failure(errc::end_of_data, "get_next: the input of " + feed_->of()
                                       + " has ended; call initialize() to start over");
  return *std::move(out);
}

input_iterator make_dataset_iterator(const strategy& s, const dataset& global_batches,
                                     distribute_options options) {
  return input_iterator{std::make_unique<detail::dataset_feed>(
    s.to_string(), distribute_dataset(s, global_batches, std::move(options)))};
}

distributed_dataset experimental_distribute_datasets_from_function(
  const strategy& s, std::function<dataset(const input_context&)> function,
  distribute_options options) {
  return distribute_datasets_from_function(s, std::move(function), std::move(options));
}

dataset experimental_make_numpy_dataset(const strategy& s, const std::vector<tensor>& arrays) {
  return make_numpy_dataset(s, arrays);
}

// --- configurations

namespace {

void lead_workers(session_config& out, const strategy& s, const cluster_spec& cluster,
                  const own_task& own) {
  const std::string job = own.type.value_or("worker");
  const auto index = own.id.value_or(s.state()->options().worker);
  out.collective_leader = "/job:worker/replica:0/task:0";
  if (cluster) {
    const auto leader = collective_leader(cluster, {.job = job, .index = index}).value_or_throw();
    out.collective_leader = leader ? to_string(*leader) : std::string{};
  }
  out.scoped_allocator_ops = {"all_reduce"};
  out.device_filters = {"/job:" + job + "/task:" + std::to_string(index)};
}

} // namespace

session_config update_config(const strategy& s, const session_config& config,
                             const cluster_spec& cluster, const own_task& own) {
  auto out = config;
  const auto& policy = s.state()->policy();
  if (policy.isolates_sessions)
    out.isolate_session_state = true;
  if (policy.configures_cluster)
    out.cluster = cluster;
  if (policy.has_collective_leader)
    lead_workers(out, s, cluster, own);
  return out;
}

} // namespace troupe::compat_v1
