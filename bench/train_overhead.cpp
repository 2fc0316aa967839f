// What Troupe costs a training step: an epoch of Fashion-MNIST (784-128-10, batch 64, Adam) with
// one worker and with two, against a plain loop over the same data pipeline and the same kernels.
// A gradient takes a few hundred microseconds, so each microsecond of overhead a step shows. The
// `_cpu` rows count processor time of all threads instead of time on the wall: they tell the cost
// of Troupe's own work, also on a machine that does other things meanwhile.
#include <array>
#include <exception>

#include <troupe/troupe.hpp>

#include "detail/bench.hpp"
#include "detail/plain_loop.hpp"

namespace tr = troupe;
namespace kn = troupe::kernels;
using bench::batch_len, bench::epoch_of, bench::epoch_steps, bench::gradients_of, bench::plain_loop,
  bench::sample, bench::scratch, bench::shape_of, bench::training_data;

namespace {

// --- ours
// -----------------------------------------------------------------------------------------

float train_step(tr::worker_context& ctx, tr::dataset_iterator& batches,
                 tr::per_worker_value<scratch>& own, const tr::variable_list& weights) {
  const auto batch = batches.next();
  double loss = 0;
  { // the values go before the push: nobody holds them then, and the servers update in place
    const auto now = ctx.read(weights);
    std::array<kn::row_blocks<float>, 4> w;
    for (std::size_t i = 0; i < w.size(); ++i) {
      auto& blocks = own.value.blocks[i];
      blocks.clear();
      for (const auto& block : now[i].blocks)
        blocks.push_back(block.values.as<float>());
      w[i] = blocks;
    }
    loss = gradients_of(w, batch, own.value);
  }
  ctx.apply(weights, own.value.gradients);
  return static_cast<float>(loss);
}
TROUPE_FUNCTION(train_step);

/// A cluster in this process with `workers` workers and two servers.
class cluster_run {
public:
  explicit cluster_run(std::uint32_t workers)
    : rt_{tr::runtime_options{.workers = workers, .servers = 2}},
      strategy_{
        rt_,
        {.partitioner = tr::min_size_partitioner{256 * 1024, 2}}}, // cuts the first weight in two
      coordinator_{strategy_},
      weights_{strategy_.scope([] {
        tr::variable_list out;
        for (std::size_t i = 0; i < 4; ++i)
          out.push_back(
            tr::create_variable({.shape = shape_of(i),
                                 .initial = i % 2 == 0 ? tr::glorot_uniform(i) : tr::zeros(),
                                 .optimizer = tr::adam{1e-3f}}));
        return out;
      })},
      own_{coordinator_.create_per_worker_value([] { return scratch{}; })},
      data_{coordinator_.create_per_worker_dataset([] { return training_data(); })},
      batches_{data_.iterator()} {}

  /// Seconds for that many steps. The loss must have a value: a wrong run is no measurement.
  double run(std::size_t steps) {
    std::vector<tr::remote_value<float>> losses;
    losses.reserve(steps);
    const auto begin = bench::steady::now();
    for (std::size_t i = 0; i < steps; ++i)
      losses.push_back(coordinator_.schedule(train_step, batches_, own_, weights_));
    coordinator_.join();
    const double took = bench::seconds_since(begin);
    last_loss_ = losses.back().fetch();
    return took;
  }
  float last_loss() const { return last_loss_; }
  const tr::runtime& rt() const { return rt_; }

private:
  tr::runtime rt_;
  tr::parameter_server_strategy strategy_;
  tr::cluster_coordinator coordinator_;
  tr::variable_list weights_;
  tr::per_worker<tr::per_worker_value<scratch>> own_;
  tr::per_worker_dataset data_;
  tr::per_worker<tr::dataset_iterator> batches_;
  float last_loss_ = 0;
};

bench::row row_of(int workers, bool cpu, std::size_t steps) {
  bench::row r{.name = workers == 1 ? "one_worker" : "two_workers", .unit = "s/epoch"};
  if (cpu) {
    r.name += "_cpu";
    r.unit = "cpu s/epoch";
  } else {
    r.aim = workers == 1 ? 0.95 : 1.5;
  }
  r.params = {{"workers", std::to_string(workers)},   {"servers", "2"},
              {"batch", std::to_string(batch_len)},   {"steps", std::to_string(steps)},
              {"model", bench::quoted("784-128-10")}, {"shards_of_w1", "2"}};
  r.peer = "plain_loop";
  return r;
}

int run(const bench::report& out, std::vector<bench::row>& rows) {
  cluster_run one{1};
  cluster_run two{2};
  plain_loop plain{one.rt().env()};
  const std::size_t steps = out.scaled(epoch_steps);
  for (const int workers : {1, 2})
    for (const bool cpu : {false, true})
      rows.push_back(row_of(workers, cpu, steps));
  for (int round = -1; round < out.rounds(); ++round) {
    const sample alone = epoch_of(one, steps);
    const sample peer = epoch_of(plain, steps);
    const sample both = epoch_of(two, steps);
    if (round < 0)
      continue; // warms caches and allocators
    for (auto& r : rows) {
      const sample& mine = r.name.starts_with("one") ? alone : both;
      const bool cpu = r.name.ends_with("_cpu");
      r.ours.push_back(cpu ? mine.cpu_s : mine.wall_s);
      r.peers.push_back(cpu ? peer.cpu_s : peer.wall_s);
    }
  }
  for (const float loss : {one.last_loss(), two.last_loss(), plain.last_loss()})
    if (!(loss > 0 && loss < 2.3f)) {
      std::fprintf(stderr, "train_overhead: a loss of %g: this is not training\n",
                   static_cast<double>(loss));
      return 1;
    }
  return 0;
}

} // namespace

int main(int argc, char** argv) try {
  bench::report out{"train_overhead", argc, argv};
  std::vector<bench::row> rows;
  if (const int code = run(out, rows))
    return code;
  for (auto& r : rows)
    out.add(std::move(r));
  return out.finish();
} catch (const std::exception& e) {
  std::fprintf(stderr, "train_overhead: %s\n", e.what());
  return 1;
}
