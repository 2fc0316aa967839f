#include <troupe/sim/scenarios/replica_program.hpp>

#include <algorithm>
#include <utility>

#include <troupe/sim/run_hash.hpp>
#include <troupe/strategies/checkpoint/sync_checkpoint.hpp>

namespace troupe::sim {

namespace {

constexpr const char* directory = "replicas";
constexpr std::int64_t rows_a_replica = 2;
constexpr duration trouble_max = 30s; ///< in which replicas misbehave: then all shall end

/// What a replica does wrong.
enum class misdeed : std::uint8_t { none = 0, throws, throws_late, strays, hangs, is_slow, leaves };

misdeed misdeed_of(const step_trouble& trouble, draw_stream draws) {
  const auto x = draws.below(1'000);
  std::uint64_t to = 0;
  if (x < (to += trouble.throws)) {
    constexpr misdeed kinds[] = {misdeed::throws, misdeed::throws_late, misdeed::strays};
    return kinds[draws.below(3)];
  }
  if (x < (to += trouble.hangs))
    return misdeed::hangs;
  if (x < (to += trouble.slows))
    return misdeed::is_slow;
  if (x < (to += trouble.kills))
    return misdeed::leaves;
  return misdeed::none;
}

/// What the disk of the process has shown: it excuses what a save or a restore says.
std::uint64_t disk_hits(world& w, const node_name& of) {
  std::uint64_t out = 0;
  for (auto f : {sim_disk::fault::torn_write, sim_disk::fault::io_error, sim_disk::fault::no_space,
                 sim_disk::fault::bit_flip})
    out += w.disk(of).hits(f);
  return out;
}

/// A user's own exception, which comes through with its type.
class replica_threw : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

} // namespace

/// One strategy's session: from the restored step to a failure that it does not survive, or the
/// end.
class replica_program::session {
public:
  session(replica_program& of, made_strategy s)
    : of_{of},
      with_{std::move(s)},
      s_{with_.is},
      want_{std::make_shared<const replica_audit>(of.run_.draws("gradients"),
                                                  s_.num_replicas_in_sync())},
      checkpoint_{s_, directory} {
    meet();
    call("make_variable", 8, [&] { variables_ = s_.scope(replica_variables::make); });
    call("distribute_dataset", 2, [&] {
      const auto rows = rows_a_replica * std::int64_t{s_.num_replicas_in_sync()};
      const auto all = dataset::range(std::int64_t{1} << 40).batch(rows);
      distribute_options how;
      if (of_.run_.draws("input").below(2) == 0)
        how.input = {.prefetch_to_device = true, .per_replica_buffer_size = 2};
      input_ = std::make_unique<distributed_iterator>(distribute_dataset(s_, all, how).iterate());
    });
    checkpoint_.add(variables_.all());
    checkpoint_.add_counter("step", step_);
    checkpoint_.add_position(
      "input", [this] { return input_->save_position(); },
      [this](const std::string& text) { input_->restore_position(text); });
  }

  void steps() {
    (void)restore();
    tell_begin();
    while (!all_steps()) // a failure that the strategy survives
      if (!restore())
        throw_failure(errc::not_found, "nothing was saved yet: all begins anew");
    finish();
  }

private:
  /// What a replica's function keeps: it may be left behind.
  struct replica_side {
    scenario_run& run;
    environment env;
    replica_variables variables;
    std::shared_ptr<const replica_audit> want;
    step_trouble trouble{};
    draw_stream luck{}; ///< of this worker, session and run
    duration call_max{};
    duration mean_length{}; ///< of a step's computing
    std::uint64_t session = 0;
  };

  template <class F>
  void call(std::string_view what, int calls, F f) {
    of_.run_.phase(of_.process_, what);
    of_.began(what, of_.options_.call_max * calls);
    f();
    of_.ended();
  }

  /// Which processes take part, told by each: all members of a session call it by the same number.
  void meet() {
    const auto mine = std::to_string(of_.process_.start()) + "." + std::to_string(of_.sessions_);
    std::vector<std::string> all{mine};
    if (with_.exchange)
      call("exchange", 2, [&] { all = with_.exchange(mine); });
    run_hash h;
    for (const auto& each : all) {
      h.fold(each);
      starts_ += (starts_.empty() ? "" : " ") + each.substr(0, each.find('.'));
    }
    number_ = h.value() >> 1;
  }

  void tell_begin() {
    trace(
      of_.env_, "replica.life",
      {{"life", number_}, {"starts", starts_}, {"step", step_}, {"replicas", want_->replicas()}});
  }

  /// False when there is nothing.
  bool restore() {
    auto& run = of_.run_;
    auto& shared = of_.shared_;
    const auto from = newest();
    const auto text = "restored step " + std::to_string(from ? step_ : -1) + " of "
                      + std::to_string(shared.saves_begun) + " saved, the last that returned was "
                      + std::to_string(shared.saves_returned);
    const bool excused = disk_hits(run.cluster(), of_.process_.name()) > 0;
    run.expect((from ? step_ : -1) <= shared.saves_begun, "INV-C2", text);
    run.expect((from ? step_ : -1) >= shared.saves_returned || excused, "INV-C1", text);
    if (!from) {
      step_ = 0;
      return false;
    }
    s_.set_committed_steps(step_);
    compare("after a restore");
    return true;
  }

  /// A disk that fails is asked again.
  std::optional<std::string> newest() {
    auto hits = [this] { return disk_hits(of_.run_.cluster(), of_.process_.name()); };
    for (int tries = 0;; ++tries)
      try {
        std::optional<std::string> from;
        call("restore", 16, [&] { from = checkpoint_.restore(); });
        return from;
      } catch (const error& why) {
        of_.ended();
        const auto code = why.code();
        const bool disk =
          code == errc::io_failed || code == errc::corrupt || code == errc::not_found;
        if (!disk)
          throw;
        of_.run_.expect(hits() > 0, "named-error", std::string{"restore threw "} + why.what());
        if (tries == 8) // what was torn stays so: all is lost, and not silently
          return std::nullopt;
        of_.env_.threads.spend(200ms);
      }
  }

  void compare(const char* when) {
    std::string differs;
    call("compare", 2, [&] { differs = variables_.compare(*want_, step_); });
    of_.run_.expect(differs.empty(), "INV-A1",
                    to_string(of_.process_.name()) + " " + when + " at step "
                      + std::to_string(step_) + ": " + differs);
  }

  /// False when a step failed.
  bool all_steps() {
    const auto every = 1 + static_cast<std::int64_t>(of_.run_.draws("saves").below(12));
    for (const auto k : s_.steps(of_.shared_.target)) {
      if (k % every == 0 && !save(k))
        return false;
      if (!step(k))
        return false;
      step_ = k + 1;
    }
    return true;
  }

  /// A disk that fails costs the save, not the training.
  bool save(std::int64_t k) {
    auto& shared = of_.shared_;
    shared.saves_begun = std::max(shared.saves_begun, k);
    const auto before = disk_hits(of_.run_.cluster(), of_.process_.name());
    try {
      call("save", 16, [&] { (void)checkpoint_.save(); });
      if (of_.options_.worker == 0)
        shared.saves_returned = std::max(shared.saves_returned, k);
    } catch (const error& why) {
      of_.ended();
      const bool disk = why.code() == errc::io_failed || why.code() == errc::no_space;
      if (!disk)
        throw;
      of_.run_.expect(disk_hits(of_.run_.cluster(), of_.process_.name()) > before, "named-error",
                      std::string{"save threw "} + why.what());
    }
    return true;
  }

  /// One process can go on with its strategy; several need a new one.
  bool step(std::int64_t k) {
    try {
      std::optional<distributed_batch> batch;
      call("next", 2, [&] { batch = input_->next(); });
      call("run", 40, [&] { run_step(k, *batch); });
      return true;
    } catch (const replica_threw& why) {
      of_.ended();
      if (of_.options_.workers > 1)
        throw_failure(errc::user_code, why.what());
    } catch (const error& why) {
      of_.ended();
      if (of_.options_.workers > 1 || why.code() == errc::unavailable)
        throw;
      of_.failed(why.details());
    }
    return false;
  }

  void run_step(std::int64_t k, const distributed_batch& batch) {
    auto side = std::make_shared<replica_side>(replica_side{.run = of_.run_,
                                                            .env = of_.env_,
                                                            .variables = variables_,
                                                            .want = want_,
                                                            .trouble = of_.run_.spec().plan.steps,
                                                            .luck = of_.run_.draws("misdeeds")
                                                                      .at(of_.options_.worker)
                                                                      .at(of_.process_.start())
                                                                      .at(of_.sessions_)
                                                                      .at(++runs_),
                                                            .call_max = of_.options_.call_max,
                                                            .mean_length = mean_length(),
                                                            .session = number_});
    s_.run(
      [side, k](replica_context& ctx, const element& rows) { in_replica(*side, ctx, k, rows); },
      batch);
  }

  /// All steps take about as long as faults come.
  duration mean_length() const {
    const duration lasts = of_.run_.which().fault_free ? 1s : 15s;
    return std::min(lasts / std::max<std::int64_t>(of_.shared_.target, 1),
                    of_.options_.call_max / 4); // nobody is to be missed for it
  }
  /// Up to twice the mean.
  static duration share_of(duration mean, draw_stream& draws) {
    return duration{
      static_cast<std::int64_t>(draws.below(2 * static_cast<std::uint64_t>(mean.count())))};
  }

  static void in_replica(const replica_side& at, replica_context& ctx, std::int64_t k,
                         const element& rows) {
    const auto id = ctx.replica_id_in_sync_group();
    const auto n = ctx.num_replicas_in_sync();
    auto draws = at.luck.at(static_cast<std::uint64_t>(k)).at(id);
    const auto what =
      at.run.cluster().now() < trouble_max ? misdeed_of(at.trouble, draws.at(1)) : misdeed::none;
    at.env.threads.spend(std::chrono::microseconds{100} + share_of(at.mean_length, draws));
    commit(at, ctx, what);
    auto out = replica_step(ctx, at.variables, *at.want,
                            at.run.draws("calls").at(static_cast<std::uint64_t>(k)), k);
    // every row of the batch once
    auto sum = tensor::scalar<std::int64_t>(0);
    for (const auto x : rows[0].as<std::int64_t>())
      sum.mutable_as<std::int64_t>()[0] += x;
    const auto rows_all = rows_a_replica * static_cast<std::int64_t>(n);
    const auto got = ctx.all_reduce(reduce_op::sum, sum).item<std::int64_t>();
    const auto wanted = rows_all * (k * rows_all) + rows_all * (rows_all - 1) / 2;
    at.run.expect(got == wanted, "INV-A1",
                  "the rows of step " + std::to_string(k) + " sum to " + std::to_string(got)
                    + ", expected " + std::to_string(wanted));
    at.run.expect(
      out.difference.empty(), "INV-A1",
      "replica " + std::to_string(id) + ", step " + std::to_string(k) + ": " + out.difference);
    trace(at.env, "replica.applied",
          {{"life", at.session},
           {"step", k},
           {"replica", id},
           {"got", out.got >> 1},
           {"wanted", out.wanted >> 1}});
    if (what == misdeed::throws_late)
      threw(id);
  }

  [[noreturn]] static void threw(std::uint32_t id) {
    throw replica_threw{"replica " + std::to_string(id)};
  }

  static void commit(const replica_side& at, replica_context& ctx, misdeed what) {
    if (what == misdeed::none)
      return;
    trace(at.env, "replica.misdeed", {{"kind", what}});
    switch (what) {
      case misdeed::throws: threw(ctx.replica_id_in_sync_group());
      case misdeed::strays: (void)ctx.all_gather(tensor::zeros(dtype::u8, {3, 5}), 1); return;
      case misdeed::hangs: return at.env.threads.spend(at.call_max * 4);
      case misdeed::is_slow: return at.env.threads.spend(at.call_max / 3);
      case misdeed::leaves: at.env.threads.leave_now(1);
      default: return;
    }
  }

  void finish() {
    compare("at the end");
    if (with_.barrier)
      call("barrier", 2, with_.barrier);
    of_.shared_.finished = true;
  }

  replica_program& of_;
  const made_strategy with_;
  const strategy s_;
  const std::shared_ptr<const replica_audit> want_;
  std::unique_ptr<distributed_iterator> input_{};
  sync_checkpoint checkpoint_;
  replica_variables variables_{};
  std::int64_t step_ = 0;
  std::uint64_t runs_ = 0;
  std::string starts_{};
  std::uint64_t number_ = 0;
};

replica_program::replica_program(scenario_run& run, process& p, replica_world& shared,
                                 replica_program_options options)
  : run_{run}, process_{p}, shared_{shared}, options_{std::move(options)}, env_{p.env()} {}

void replica_program::run_all() {
  while (!shared_.finished)
    one_session();
  shared_.gone.insert(options_.worker);
}

void replica_program::one_session() {
  ++sessions_;
  try {
    run_.phase(process_, "strategy");
    began("strategy", options_.start_max);
    auto s = options_.make();
    ended();
    session{*this, std::move(s)}.steps();
  } catch (const error& why) {
    ended();
    if (!shared_.finished)
      failed(why.details());
  }
}

void replica_program::began(std::string_view what, duration deadline) {
  trace(env_, "replica.begun", {{"what", what}, {"deadline", deadline.count()}});
}

void replica_program::ended() { trace(env_, "replica.ended", {}); }

void replica_program::failed(const failure& why) {
  trace(env_, "replica.failed", {{"code", why.code}, {"why", why.text}});
}

} // namespace troupe::sim
