#include "fashion_mnist.hpp"

#include <algorithm>
#include <chrono>
#include <deque>
#include <thread>

#include "preflight.hpp"
#include "train_step.hpp"
#include "update_audit.hpp"

namespace tool {

namespace {

namespace tr = troupe;
namespace k = troupe::kernels;

constexpr std::int64_t train_images = 60'000;
constexpr std::size_t window_len = 512; ///< closures queued ahead of the results
constexpr std::chrono::milliseconds rate_period{250};

tr::parameter_server_options strategy_options(std::uint32_t servers) {
  auto weights = tr::min_size_partitioner{256 * 1024, 2};
  auto how = [weights, servers](const tr::shape_t& shape, tr::dtype type) {
    if (type == tr::dtype::i64) // the audit: a part on every server
      return std::vector<std::int64_t>{servers};
    return weights(shape, type);
  };
  return {.partitioner = how};
}

/// One training run, from the variables to the report.
class run {
public:
  run(tr::runtime& rt, const training_options& options, training_listener& listener,
      const std::atomic<bool>& stop)
    : options_{options},
      listener_{listener},
      stop_{stop},
      env_{rt.env()},
      servers_{rt.options().servers},
      workers_{rt.options().workers},
      strategy_{rt, strategy_options(servers_)},
      coordinator_{strategy_} {}

  training_report go();

private:
  void make_weights();
  std::vector<std::string> restored(const std::string& directory);
  void take_checkpoint();
  void make_audit();
  void train();
  void take_result(const step_result& x);
  void await_front();
  void show();
  void follow_rate();
  void save();
  void compare();
  void evaluate();
  void await_workers();
  bool may_schedule() const;
  bool timed() const { return options_.seconds > 0; }
  double elapsed() const {
    return std::chrono::duration<double>(env_.clock.now() - begin_).count();
  }
  double fraction() const;
  std::vector<std::uint64_t> versions() const;

  const training_options& options_;
  training_listener& listener_;
  const std::atomic<bool>& stop_;
  const tr::environment& env_;
  std::uint32_t servers_;
  std::uint32_t workers_;
  tr::parameter_server_strategy strategy_;
  tr::cluster_coordinator coordinator_;
  tr::variable_list weights_{};
  tr::variable_list audit_{};
  tr::variable done_{}; ///< steps that the saved weights have behind them
  tr::per_worker<tr::dataset_iterator> batches_{};
  tr::per_worker<tr::per_worker_value<step_memory>> memory_{};
  std::deque<tr::remote_value<step_result>> window_{};
  std::vector<std::uint64_t> expected_{}; ///< finished steps by cell
  std::vector<std::uint64_t> versions_before_{};
  std::uint64_t total_ = 0;        ///< steps of the run with all its resumptions; 0: by time
  std::uint64_t resumed_ = 0;      ///< steps before this process
  std::uint64_t scheduled_ = 0;    ///< in this process
  std::uint64_t saved_ = 0;        ///< steps at the last checkpoint
  std::uint64_t rate_changes_ = 0; ///< of every weight
  tr::time_point begin_{};
  tr::time_point rate_at_{};
  tr::time_point show_at_{};
  double loss_sum_ = 0;
  std::uint64_t loss_count_ = 0;
  training_report report_{};
};

void run::make_weights() {
  total_ = timed() ? 0 : options_.epochs * (train_images / options_.batch_size);
  auto rate = tr::learning_rate_schedule{options_.learning_rate};
  if (total_ > 0)
    rate = tr::linear_decay{
      .initial = options_.learning_rate, .end = 0, .begin_step = total_ / 2, .end_step = total_};
  const tr::adam how{.learning_rate = rate};
  const auto make = [&](const char* name, tr::shape_t shape, tr::initializer_spec initial) {
    weights_.push_back(tr::create_variable(
      {.name = name, .shape = std::move(shape), .initial = initial, .optimizer = how}));
  };
  strategy_.scope([&] {
    make("hidden/weight", {784, 128}, tr::glorot_uniform(options_.seed));
    make("hidden/bias", {128}, tr::zeros());
    make("output/weight", {128, 10}, tr::glorot_uniform(options_.seed));
    make("output/bias", {10}, tr::zeros());
    done_ = tr::create_variable({.name = "steps_done", .shape = {}, .type = tr::dtype::i64});
  });
}

/// In the words of whoever asked for it.
std::vector<std::string> run::restored(const std::string& directory) {
  try {
    return coordinator_.restore(directory);
  } catch (const tr::error& why) {
    if (why.code() != tr::errc::not_found)
      throw;
    tr::throw_failure(tr::errc::not_found, no_checkpoint_text(directory));
  }
}

void run::take_checkpoint() {
  if (!options_.resume)
    return;
  for (const auto& line : restored(options_.checkpoint))
    listener_.say("skipped checkpoint " + line);
  resumed_ = static_cast<std::uint64_t>(done_.read().item<std::int64_t>());
  saved_ = resumed_;
  listener_.say("resumed at step " + std::to_string(resumed_));
}

void run::make_audit() {
  const auto steps = total_ > resumed_ ? total_ - resumed_ : 0;
  const auto cells = audit_cells(timed() ? 0 : std::max<std::uint64_t>(steps, 1));
  expected_.assign(cells, 0);
  // Named after where it starts, so that a resumed run does not find its predecessor's in the
  // checkpoint.
  const auto from = "/from_" + std::to_string(resumed_);
  const tr::shape_t shape{static_cast<std::int64_t>(cells * servers_)};
  strategy_.scope([&] {
    for (const char* name : {"witness/count", "witness/attempt"})
      audit_.push_back(
        tr::create_variable({.name = name + from, .shape = shape, .type = tr::dtype::i64}));
  });
}

bool run::may_schedule() const {
  if (options_.checkpoint_every > 0 && resumed_ + scheduled_ >= saved_ + options_.checkpoint_every)
    return false;
  return timed() ? elapsed() < options_.seconds : resumed_ + scheduled_ < total_;
}

double run::fraction() const {
  const double x =
    timed() ? elapsed() / options_.seconds
            : double(resumed_ + report_.steps) / double(std::max<std::uint64_t>(total_, 1));
  return std::clamp(x, 0.0, 1.0);
}

void run::train() {
  begin_ = rate_at_ = show_at_ = env_.clock.now();
  for (;;) {
    while (window_.size() < window_len && may_schedule()) {
      window_.push_back(coordinator_.schedule(train_step, batches_, memory_, weights_, audit_));
      ++scheduled_;
    }
    if (window_.empty()) {
      if (options_.checkpoint_every == 0 || resumed_ + report_.steps == saved_)
        break;
      save();
      continue;
    }
    await_front();
    show();
    if (timed())
      follow_rate();
  }
  report_.seconds = elapsed();
}

/// Takes the oldest result, or those that are there when the oldest keeps it waiting: one worker
/// that has stopped must not hold up the others. Shows signs of life while it waits.
void run::await_front() {
  for (;;) {
    if (stop_)
      tr::throw_failure(tr::errc::cancelled, "train: stopped by a signal after "
                                               + std::to_string(report_.steps) + " steps");
    if (auto x = window_.front().try_fetch(std::chrono::milliseconds{20})) {
      window_.pop_front();
      take_result(*x);
      return;
    }
    const auto taken = std::erase_if(window_, [this](const auto& y) {
      if (!y.ready())
        return false;
      take_result(y.fetch());
      return true;
    });
    if (taken > 0)
      return;
    show();
  }
}

void run::take_result(const step_result& x) {
  ++report_.steps;
  ++expected_[x.seq % expected_.size()];
  loss_sum_ += x.loss;
  ++loss_count_;
  if (x.attempt > 1) {
    ++report_.reruns;
    if (report_.rerun_begin_ns.size() < 10'000)
      report_.rerun_begin_ns.push_back(x.begin_ns);
  }
}

void run::show() {
  const auto now = env_.clock.now();
  if (now < show_at_)
    return;
  show_at_ = now + std::chrono::milliseconds{200};
  listener_.progress(resumed_ + report_.steps, fraction(),
                     loss_count_ == 0 ? 0.0 : loss_sum_ / double(loss_count_));
  loss_sum_ = 0;
  loss_count_ = 0;
}

/// A run that ends at a time does not know its steps: the program leads the rate down the same
/// line.
void run::follow_rate() {
  const auto now = env_.clock.now();
  if (fraction() < 0.5 || now < rate_at_)
    return;
  rate_at_ = now + rate_period;
  const auto rate = learning_rate_at(options_.learning_rate, fraction());
  for (const auto& v : weights_)
    v.set_learning_rate(rate);
  ++rate_changes_;
}

void run::save() {
  if (options_.checkpoint.empty())
    return;
  saved_ = resumed_ + report_.steps;
  done_.assign(tr::tensor::scalar(static_cast<std::int64_t>(saved_)));
  listener_.say("saved checkpoint " + coordinator_.save(options_.checkpoint) + " at step "
                + std::to_string(saved_));
}

std::vector<std::uint64_t> run::versions() const {
  std::vector<std::uint64_t> out;
  for (const auto& v : weights_)
    for (const auto& block : v.read_blocks().blocks)
      out.push_back(block.version);
  return out;
}

/// All steps have ended: what the servers hold is compared with what the coordinator accepted.
void run::compare() {
  const auto counts = audit_[0].read();
  const auto cells = compare_cells(expected_, counts.as<std::int64_t>());
  const auto shards = compare_versions(report_.steps + rate_changes_, versions_before_, versions());
  report_.lost = cells.lost + shards.lost;
  report_.doubled = cells.doubled + shards.doubled;
}

void run::evaluate() {
  std::vector<tr::variable_value> values;
  for (const auto& v : weights_)
    values.push_back(v.read_blocks());
  const block_weights in{values};
  constexpr std::int64_t batch_size = 1000;
  k::mlp_workspace<float> workspace{widths, batch_size};
  auto batches = tr::fashion_mnist("test", own_data().directory)
                   .batch(batch_size)
                   .iterate(tr::data_context{env_});
  while (const auto batch = batches.try_next()) {
    const auto labels = batch->labels().as<std::int64_t>();
    report_.correct +=
      k::mlp_evaluate<float, std::int64_t>(in.all(), batch->images().as<float>(), labels, workspace)
        .correct;
    report_.images += labels.size();
  }
}

/// A worker that was just started again must be there to be told of the end.
void run::await_workers() {
  const auto deadline = env_.clock.now() + std::chrono::seconds{20};
  while (!stop_ && env_.clock.now() < deadline) {
    if (coordinator_.workers().size() >= workers_)
      return;
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
  }
}

training_report run::go() {
  check_data(env_, own_data().directory);
  make_weights();
  take_checkpoint();
  if (!options_.checkpoint.empty())
    check_checkpoint_directory(env_, options_.checkpoint);
  make_audit();
  batches_ = coordinator_
               .create_per_worker_dataset([] {
                 const auto& own = own_data();
                 return tr::fashion_mnist("train", own.directory)
                   .shuffle(train_images)
                   .repeat()
                   .batch(own.batch_size);
               })
               .iterator();
  memory_ = coordinator_.create_per_worker_value([] { return step_memory{}; });
  versions_before_ = versions();
  train();
  coordinator_.join();
  listener_.progress(resumed_ + report_.steps, 1.0,
                     loss_count_ == 0 ? 0.0 : loss_sum_ / double(loss_count_));
  listener_.trained();
  if (resumed_ + report_.steps > saved_)
    save();
  compare();
  evaluate();
  await_workers();
  report_.statistics = coordinator_.statistics();
  return report_;
}

} // namespace

void set_data_options(const training_options& options) {
  own_data() = {.directory = options.data,
                .batch_size = options.batch_size,
                .on_device = !options.device.empty()};
}

training_report train_fashion_mnist(tr::runtime& rt, const training_options& options,
                                    training_listener& listener, const std::atomic<bool>& stop) {
  return run{rt, options, listener, stop}.go();
}

} // namespace tool
