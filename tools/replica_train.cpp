#include "replica_train.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include <troupe/actors/support/wait_log.hpp>
#include <troupe/strategies/variables/optimizer_calls.hpp>

#include "preflight.hpp"
#include "replica_step.hpp"

namespace tool {

namespace {

namespace tr = troupe;
namespace k = troupe::kernels;

constexpr std::int64_t train_images = 60'000;

std::vector<std::string> replica_devices(const training_options& options) {
  if (!options.device.empty())
    return {options.device};
  std::vector<std::string> out;
  for (std::uint32_t i = 0; i < options.replicas; ++i)
    out.push_back("cpu:" + std::to_string(i));
  return out;
}

/// A strategy, and what its workers say to each other; null within one process.
struct made_strategy {
  tr::strategy is{};
  std::function<std::vector<std::string>(const std::string& mine)> exchange{};
  std::function<void()> barrier{};
  std::function<void(const std::optional<tr::failure>&)> agree{};
};

made_strategy make_strategy(tr::runtime& rt, const training_options& options) {
  const auto devices = replica_devices(options);
  if (options.strategy == "one_device")
    return {.is = tr::one_device_strategy{rt, devices[0]}};
  if (options.strategy == "mirrored")
    return {.is = tr::mirrored_strategy{rt, devices}};
  if (options.strategy == "central_storage")
    return {.is = tr::central_storage_strategy{rt, devices}};
  if (options.strategy == "tpu")
    return {.is = tr::tpu_strategy{rt, tr::tpu_options{.devices = devices}}};
  if (options.strategy == "multi_worker_mirrored") {
    const tr::multi_worker_mirrored_strategy s{rt, {.devices = devices}};
    return {.is = s,
            .exchange = [s](const std::string& mine) { return s.exchange(mine); },
            .barrier = [s] { s.barrier(); },
            .agree =
              [s](const std::optional<tr::failure>& why) {
                s.agree(why, "check the checkpoint directory");
              }};
  }
  tr::throw_failure(tr::errc::bad_config, "train: unknown strategy '" + options.strategy + "'");
}

/// What a run starts from, the stronger wish last.
enum class beginning : std::uint8_t {
  anew = 0,
  resume_if_any = 1, ///< it was interrupted, maybe before it had saved anything
  resume = 2         ///< the user says that there is a checkpoint
};

/// One strategy's training, from the variables to the report.
class replica_run {
public:
  /// `begin`: from nothing, or from the newest checkpoint as soon as one worker wants it.
  replica_run(tr::runtime& rt, const training_options& options, training_listener& listener,
              const std::atomic<bool>& stop, beginning begin)
    : options_{options},
      listener_{listener},
      stop_{stop},
      env_{rt.env()},
      beginning_{begin},
      saves_{rt.options().peer == 0},
      with_{make_strategy(rt, options)},
      strategy_{with_.is} {}

  training_report go();
  /// Steps that this strategy has done.
  std::int64_t progress() const { return steps_ - begun_at_; }
  /// The step that was saved last; -1: none.
  std::int64_t saved_at() const { return saved_at_; }

private:
  void make_weights();
  void open_input();
  void open_checkpoint();
  void go_on(beginning wish);
  void check_directory();
  std::vector<std::string> exchange(const std::string& mine) const {
    return with_.exchange ? with_.exchange(mine) : std::vector{mine};
  }
  void save();
  void train();
  void step(const tr::distributed_batch& batch);
  void follow_rate();
  void show();
  void compare();
  void evaluate();
  bool timed() const { return options_.seconds > 0; }
  bool done() const { return timed() ? elapsed() >= options_.seconds : steps_ >= total_; }
  double elapsed() const {
    return std::chrono::duration<double>(env_.clock.now() - begin_).count();
  }

  const training_options& options_;
  training_listener& listener_;
  const std::atomic<bool>& stop_;
  const tr::environment& env_;
  const beginning beginning_;
  const bool saves_; ///< its files are the checkpoint
  const made_strategy with_;
  const tr::strategy strategy_;
  tr::distributed_variables weights_{};
  /// Kept by its runs: a replica that is left behind goes on with it.
  std::shared_ptr<replica_step> replica_step_{};
  std::optional<tr::distributed_iterator> input_{};
  std::optional<tr::sync_checkpoint> checkpoint_{};
  std::int64_t steps_ = 0; ///< of all sessions
  std::int64_t begun_at_ = 0;
  std::int64_t saved_at_ = -1;
  std::int64_t total_ = 0;
  tr::time_point begin_{};
  tr::time_point show_at_{};
  double loss_sum_ = 0;
  double loss_rows_ = 0;
  training_report report_{};
};

void replica_run::make_weights() {
  const auto per_pass = (train_images + options_.batch_size - 1) / options_.batch_size;
  total_ = std::int64_t{options_.epochs} * per_pass;
  const auto last = static_cast<std::uint64_t>(total_);
  auto rate = tr::learning_rate_schedule{options_.learning_rate};
  if (!timed())
    rate = tr::linear_decay{
      .initial = options_.learning_rate, .end = 0, .begin_step = last / 2, .end_step = last};
  const tr::adam how{.learning_rate = rate};
  const auto make = [&](const char* name, tr::shape_t shape, tr::initializer_spec initial) {
    weights_.push_back(tr::make_variable({.name = name,
                                          .shape = std::move(shape),
                                          .initial = initial,
                                          .aggregation = tr::variable_aggregation::mean,
                                          .optimizer = how}));
  };
  strategy_.scope([&] {
    make("hidden/weight", {784, 128}, tr::glorot_uniform(options_.seed));
    make("hidden/bias", {128}, tr::zeros());
    make("output/weight", {128, 10}, tr::glorot_uniform(options_.seed));
    make("output/bias", {10}, tr::zeros());
  });
  replica_step_ =
    std::make_shared<replica_step>(weights_, strategy_.num_local_replicas(),
                                   options_.device.empty() ? step_place::host : step_place::device);
}

/// A run that ends at a time does not know its steps: the program leads the rate down the same
/// line. The clock is read once for all replicas, before any of them computes.
void replica_run::follow_rate() {
  const auto rate =
    learning_rate_at(options_.learning_rate, std::clamp(elapsed() / options_.seconds, 0.0, 1.0));
  for (const auto& v : weights_)
    tr::set_learning_rate(v, rate);
}

void replica_run::step(const tr::distributed_batch& batch) {
  if (timed())
    follow_rate();
  const auto out =
    strategy_.run([of = replica_step_](tr::replica_context& ctx,
                                       const tr::element& mine) { return (*of)(ctx, mine); },
                  batch);
  for (const auto& each : out) {
    loss_sum_ += each.loss_sum;
    loss_rows_ += static_cast<double>(each.rows);
  }
  ++report_.steps;
  ++steps_;
  if (checkpoint_ && options_.checkpoint_every > 0
      && steps_ % static_cast<std::int64_t>(options_.checkpoint_every) == 0)
    save();
}

void replica_run::open_input() {
  input_ = tr::distribute_dataset(strategy_, tr::fashion_mnist("train", own_data().directory)
                                               .shuffle(train_images, options_.seed)
                                               .batch(options_.batch_size))
             .iterate();
}

void replica_run::open_checkpoint() {
  if (options_.checkpoint.empty())
    return;
  checkpoint_.emplace(strategy_, options_.checkpoint);
  checkpoint_->add(weights_);
  checkpoint_->add_counter("step", steps_);
  checkpoint_->add_position(
    "input", [this] { return input_->save_position(); },
    [this](const std::string& text) { input_->restore_position(text); });
  const auto text_of = [](beginning x) { return std::to_string(static_cast<int>(x)); };
  const auto wishes = exchange(text_of(beginning_));
  auto wish = beginning::anew;
  for (const auto each : {beginning::resume_if_any, beginning::resume})
    if (std::ranges::count(wishes, text_of(each)) > 0)
      wish = each;
  if (wish != beginning::anew) // one that was started anew has lost nothing that the others have
    go_on(wish);
  check_directory();
}

void replica_run::go_on(beginning wish) {
  if (checkpoint_->restore()) {
    begun_at_ = saved_at_ = steps_;
    listener_.say("resumed at step " + std::to_string(steps_));
    return;
  }
  if (wish == beginning::resume)
    tr::throw_failure(tr::errc::not_found, no_checkpoint_text(options_.checkpoint));
  listener_.say("no checkpoint in " + options_.checkpoint + " yet; starting at step 0");
}

/// All end when the one that saves cannot: the others would wait for it.
void replica_run::check_directory() {
  std::optional<tr::failure> trouble;
  try {
    if (saves_)
      check_checkpoint_directory(env_, options_.checkpoint);
  } catch (const tr::error& why) {
    trouble = why.details();
  }
  if (with_.agree)
    with_.agree(trouble);
  else if (trouble)
    tr::throw_failure(*trouble);
}

void replica_run::save() {
  if (saved_at_ == steps_)
    return;
  (void)checkpoint_->save();
  saved_at_ = steps_;
}

void replica_run::show() {
  const auto now = env_.clock.now();
  if (now < show_at_)
    return;
  show_at_ = now + std::chrono::milliseconds{200};
  const double fraction = timed() ? elapsed() / options_.seconds : double(steps_) / double(total_);
  listener_.progress(report_.steps, std::clamp(fraction, 0.0, 1.0),
                     loss_rows_ == 0 ? 0.0 : loss_sum_ / loss_rows_);
  loss_sum_ = loss_rows_ = 0;
}

void replica_run::train() {
  begin_ = show_at_ = env_.clock.now();
  while (!done()) {
    while (!done()) {
      if (stop_)
        tr::throw_failure(tr::errc::cancelled, "train: stopped by a signal after "
                                                 + std::to_string(report_.steps) + " steps");
      auto batch = input_->try_next();
      if (!batch)
        break;
      step(*batch);
      show();
    }
    if (!done())
      input_->start_pass(input_->pass() + 1);
  }
  if (checkpoint_)
    save();
  report_.seconds = elapsed();
}

/// Every copy of every worker against the extremes of all.
void replica_run::compare() {
  const auto differing = strategy_.run([this](tr::replica_context& ctx) {
    std::uint64_t out = 0;
    for (const auto& v : weights_) {
      const auto mine = v.read();
      out += ctx.all_reduce(tr::reduce_op::min, mine) == mine ? 0 : 1;
    }
    return ctx.all_reduce(tr::reduce_op::sum, static_cast<std::int64_t>(out));
  });
  report_.differing = static_cast<std::uint64_t>(differing[0]);
}

void replica_run::evaluate() {
  std::vector<tr::tensor> values;
  for (const auto& v : weights_)
    values.push_back(v.read());
  const whole_weights in{values};
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

training_report replica_run::go() {
  check_data(env_, own_data().directory);
  make_weights();
  open_input();
  open_checkpoint();
  train();
  listener_.progress(report_.steps, 1.0, loss_rows_ == 0 ? 0.0 : loss_sum_ / loss_rows_);
  listener_.trained();
  report_.replicas = strategy_.num_replicas_in_sync();
  compare();
  evaluate();
  if (with_.barrier) // last: nobody comes back for those who have left
    with_.barrier();
  return report_;
}

} // namespace

const std::vector<std::string>& strategy_names() {
  static const std::vector<std::string> names{
    "parameter_server", "one_device", "mirrored",
    "central_storage",  "tpu",        "multi_worker_mirrored"};
  return names;
}

namespace {

/// What the loss of a worker looks like to the others. Without a checkpoint nothing is to go on
/// from.
bool goes_on(const training_options& options, const tr::error& why) {
  const auto code = why.code();
  return options.strategy == "multi_worker_mirrored" && !options.checkpoint.empty()
         && (code == tr::errc::peer_lost || code == tr::errc::deadline
             || code == tr::errc::revoked);
}

/// What became of the strategies since something was saved last.
class session_log {
public:
  explicit session_log(const tr::clock_port& clock)
    : clock_{clock}, log_{tr::wait_log{clock.now(), tell_every}} {}
  /// `saved_at`: the step, of the strategy that ended.
  void ended(const tr::failure& why, std::int64_t saved_at) {
    if (saved_at > saved_at_) {
      saved_at_ = saved_at;
      log_.emplace(clock_.now(), tell_every);
    }
    log_->ended(why);
  }
  std::string text() const {
    return "last saved step: " + std::to_string(std::max<std::int64_t>(saved_at_, 0))
           + "; since then: " + log_->text(clock_.now());
  }
  bool is_due() { return log_->due(clock_.now()).has_value(); }

private:
  static constexpr tr::duration tell_every = std::chrono::seconds{15};
  const tr::clock_port& clock_;
  std::optional<tr::wait_log> log_;
  std::int64_t saved_at_ = -1;
};

} // namespace

training_report train_on_replicas(tr::runtime& rt, const training_options& options,
                                  training_listener& listener, const std::atomic<bool>& stop) {
  constexpr int idle_sessions_max = 20; // strategies in a row that did not get a step further
  session_log sessions{rt.env().clock};
  auto begin = options.rejoins  ? beginning::resume_if_any
               : options.resume ? beginning::resume
                                : beginning::anew;
  for (int idle = 0;; ++idle) {
    std::optional<replica_run> session;
    try {
      session.emplace(rt, options, listener, stop, begin);
      return session->go();
    } catch (const tr::error& why) {
      if (session && session->progress() > 0)
        idle = 0;
      if (!goes_on(options, why) || stop)
        throw;
      sessions.ended(why.details(), session ? session->saved_at() : -1);
      if (idle == idle_sessions_max) {
        auto last = why.details();
        last.text =
          std::to_string(idle + 1) + " attempts in a row made no progress; " + sessions.text();
        tr::throw_failure(std::move(last));
      }
      listener.say(why.details().text);
      if (sessions.is_due())
        listener.say("no progress: " + sessions.text());
    }
    begin = beginning::resume_if_any;
  }
}

} // namespace tool
