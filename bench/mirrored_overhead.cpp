// What a mirrored strategy costs a training step: Fashion-MNIST (784-128-10, 64 rows a replica,
// Adam) on one replica against a plain loop over the same data pipeline and the same kernels, and
// on two against one. The step is that of `troupe train fashion_mnist --strategy mirrored`. Beside
// two replicas stand two plain loops on threads of their own, which exchange nothing: what the
// machine's two cores give at most. The `_cpu` rows count processor time of all threads.
#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <thread>

#include <troupe/troupe.hpp>

#include "detail/bench.hpp"
#include "detail/plain_loop.hpp"

namespace tr = troupe;
using bench::batch_len, bench::epoch_steps, bench::plain_loop, bench::sample, bench::scratch;

namespace {

constexpr std::size_t empty_steps = 5'000;

// --- ours
// -----------------------------------------------------------------------------------------

/// Training on replicas of one strategy.
class replica_run {
public:
  explicit replica_run(tr::strategy of)
    : strategy_{std::move(of)},
      scratch_(strategy_.num_local_replicas()),
      weights_{strategy_.scope([] { return make_weights(); })},
      batches_{
        tr::distribute_dataset(strategy_, bench::training_data(batch_len * scratch_.size()))},
      input_{batches_.iterate()} {}

  /// Seconds for `steps` batches of 64 rows, on all replicas together.
  double run(std::size_t steps) {
    const auto begin = bench::steady::now();
    for (std::size_t i = 0; i < steps; i += scratch_.size())
      step(input_.next());
    return bench::seconds_since(begin);
  }
  float last_loss() const { return last_loss_; }

  /// Microseconds of a step in which replicas do `f`.
  template <class F>
  double empty_step_us(std::size_t steps, F f) const {
    const auto begin = bench::steady::now();
    for (std::size_t i = 0; i < steps; ++i)
      strategy_.run(f);
    return bench::seconds_since(begin) / static_cast<double>(steps) * 1e6;
  }

  /// Gradients of the model's shapes.
  std::vector<tr::tensor> gradients(std::size_t replica) const {
    const auto& all = scratch_[replica].gradients;
    return {all.begin(), all.end()};
  }

  /// Whether all copies of each variable have the same bits.
  bool is_mirrored() const {
    for (const auto& v : weights_)
      for (std::size_t i = 1; i < v.components(); ++i)
        if (!(v.component(i) == v.component(0)))
          return false;
    return true;
  }

private:
  static tr::distributed_variables make_weights() {
    tr::distributed_variables out;
    for (std::size_t i = 0; i < 4; ++i)
      out.push_back(tr::make_variable({.shape = bench::shape_of(i),
                                       .initial = i % 2 == 0 ? tr::glorot_uniform(i) : tr::zeros(),
                                       .aggregation = tr::variable_aggregation::mean,
                                       .optimizer = tr::adam{1e-3f}}));
    return out;
  }

  float piece(tr::replica_context& ctx, const tr::element& batch) {
    auto& own = scratch_[ctx.replica_id_in_sync_group()];
    const auto rows = batch.labels().rows();
    const auto all_rows = ctx.all_reduce(tr::reduce_op::sum, rows);
    double loss = 0;
    { // the values go before the update, which is in place when nobody holds them
      std::array<tr::tensor, 4> values;
      std::array<std::span<const float>, 4> w;
      for (std::size_t i = 0; i < w.size(); ++i) {
        values[i] = weights_[i].read();
        w[i] = values[i].as<float>();
      }
      loss = bench::gradients_of(w, batch, own);
    }
    if (rows != all_rows)
      bench::take_share(own, static_cast<float>(rows) / static_cast<float>(all_rows));
    ctx.apply(weights_, {own.gradients.begin(), own.gradients.end()}, tr::reduce_op::sum);
    return static_cast<float>(loss);
  }

  void step(const tr::distributed_batch& batch) {
    const auto losses = strategy_.run(
      [this](tr::replica_context& ctx, const tr::element& mine) { return piece(ctx, mine); },
      batch);
    last_loss_ = losses[0];
  }

  tr::strategy strategy_;
  std::vector<scratch> scratch_; ///< of each replica
  tr::distributed_variables weights_;
  tr::distributed_dataset batches_;
  tr::distributed_iterator input_;
  float last_loss_ = 0;
};

// --- what the machine gives at most
// -------------------------------------------------------------

/// Two plain loops at once, each on a thread of its own with data of its own.
class two_loops {
public:
  explicit two_loops(const tr::environment& env) : loops_{plain_loop{env}, plain_loop{env}} {}

  /// Seconds for `steps` batches of both together.
  double run(std::size_t steps) {
    std::atomic<int> here{0};
    auto work = [&](plain_loop& loop) {
      for (++here; here < 2;) { // both begin when both are there
      }
      loop.run(steps / 2);
    };
    const auto begin = bench::steady::now();
    std::thread other{[&] { work(loops_[1]); }};
    work(loops_[0]);
    other.join();
    return bench::seconds_since(begin);
  }

  /// The greater one.
  float last_loss() const { return std::max(loops_[0].last_loss(), loops_[1].last_loss()); }

private:
  std::array<plain_loop, 2> loops_;
};

// --- rows
// ----------------------------------------------------------------------------------------

/// What the contenders of one round took.
struct round_of {
  sample plain{}, one_device{}, one{}, two{}, loops{};
};

/// Examples a second.
double rate(const sample& s) { return static_cast<double>(epoch_steps * batch_len) / s.wall_s; }

struct shown {
  bench::row row{};
  std::function<double(const round_of&)> ours{}, peer{};
};

bench::row row_of(const char* name, const char* unit, const char* peer, double aim,
                  std::size_t steps, int replicas) {
  return {.name = name,
          .params = {{"replicas", std::to_string(replicas)},
                     {"rows_a_replica", std::to_string(batch_len)},
                     {"steps", std::to_string(steps)},
                     {"model", bench::quoted("784-128-10")}},
          .unit = unit,
          .peer = peer,
          .aim = aim};
}

std::vector<shown> training_rows(std::size_t steps) {
  std::vector<shown> out;
  auto epochs = [&](const char* name, const char* cpu_name, double aim, int replicas,
                    sample round_of::*who) {
    if (aim > 0)
      out.push_back({row_of(name, "s/epoch", "plain_loop", aim, steps, replicas),
                     [who](const round_of& r) { return (r.*who).wall_s; },
                     [](const round_of& r) { return r.plain.wall_s; }});
    out.push_back({row_of(cpu_name, "cpu s/epoch", "plain_loop", 0, steps, replicas),
                   [who](const round_of& r) { return (r.*who).cpu_s; },
                   [](const round_of& r) { return r.plain.cpu_s; }});
  };
  auto rates = [&](const char* name, const char* peer, double aim, sample round_of::*who,
                   sample round_of::*one) {
    out.push_back({row_of(name, "examples/s", peer, aim, steps, 2),
                   [who](const round_of& r) { return rate(r.*who); },
                   [one](const round_of& r) { return rate(r.*one); }});
    out.back().row.direction = bench::better::more;
  };
  epochs("one_device", "one_device_cpu", 0.95, 1, &round_of::one_device);
  epochs("one_replica", "one_replica_cpu", 0.95, 1, &round_of::one);
  rates("two_replicas", "one_replica", 1.6, &round_of::two, &round_of::one);
  rates("limit_two_loops", "plain_loop", 0, &round_of::loops, &round_of::plain);
  epochs("", "two_replicas_cpu", 0, 2, &round_of::two);
  epochs("", "limit_two_loops_cpu", 0, 2, &round_of::loops);
  return out;
}

/// The runs of one process.
struct contenders {
  tr::runtime rt{tr::runtime_options{.cpu_devices = 2}};
  replica_run one_device{tr::one_device_strategy{rt, "cpu:0"}};
  replica_run one{tr::mirrored_strategy{rt, {{"cpu:0"}}}};
  replica_run two{tr::mirrored_strategy{rt, {{"cpu:0", "cpu:1"}}}};
  plain_loop plain{rt.env()};
  two_loops loops{rt.env()};
};

int train(bench::report& out, contenders& all) {
  const std::size_t steps = out.scaled(epoch_steps) / 2 * 2;
  auto rows = training_rows(steps);
  for (int round = -1; round < out.rounds(); ++round) {
    round_of took;
    took.one = bench::epoch_of(all.one, steps);
    took.plain = bench::epoch_of(all.plain, steps);
    took.two = bench::epoch_of(all.two, steps);
    took.loops = bench::epoch_of(all.loops, steps);
    took.one_device = bench::epoch_of(all.one_device, steps);
    if (round < 0)
      continue; // warms caches and allocators
    for (auto& each : rows) {
      each.row.ours.push_back(each.ours(took));
      each.row.peers.push_back(each.peer(took));
    }
  }
  for (const float loss : {all.one_device.last_loss(), all.one.last_loss(), all.two.last_loss(),
                           all.plain.last_loss(), all.loops.last_loss()})
    if (!(loss > 0 && loss < 2.3f)) {
      std::fprintf(stderr, "mirrored_overhead: a loss of %g: this is not training\n",
                   static_cast<double>(loss));
      return 1;
    }
  if (!all.two.is_mirrored()) {
    std::fprintf(stderr, "mirrored_overhead: the replicas' copies differ: no measurement\n");
    return 1;
  }
  for (auto& each : rows)
    out.add(std::move(each.row));
  return 0;
}

/// A step without work: what comes with every one.
void overheads(bench::report& out, contenders& all) {
  const std::size_t steps = out.scaled(empty_steps);
  const auto nothing = [](tr::replica_context&) {};
  std::vector<std::vector<tr::tensor>> gradients{all.two.gradients(0), all.two.gradients(1)};
  const auto sum = [&](tr::replica_context& ctx) {
    (void)ctx.all_reduce(tr::reduce_op::sum, gradients[ctx.replica_id_in_sync_group()]);
  };
  auto samples = out.interleave({[&] { return all.one.empty_step_us(steps, nothing); },
                                 [&] { return all.two.empty_step_us(steps, nothing); },
                                 [&] { return all.two.empty_step_us(steps, sum); }});
  const char* names[] = {"step_overhead_one", "step_overhead_two", "step_overhead_two_all_reduce"};
  for (std::size_t i = 0; i < samples.size(); ++i)
    out.add({.name = names[i],
             .params = {{"replicas", i == 0 ? "1" : "2"}, {"steps", std::to_string(steps)}},
             .unit = "us/step",
             .ours = samples[i]});
}

} // namespace

int main(int argc, char** argv) try {
  bench::report out{"mirrored_overhead", argc, argv};
  contenders all;
  if (out.wants("training"))
    if (const int code = train(out, all))
      return code;
  if (out.wants("step_overhead"))
    overheads(out, all);
  return out.finish();
} catch (const std::exception& e) {
  std::fprintf(stderr, "mirrored_overhead: %s\n", e.what());
  return 1;
}
