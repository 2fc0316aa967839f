// Goal: whatever the order of operations, the queue does what a naive model does. Method: random
// operations on both, all that can be seen compared after each.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>

#include "queue_support.hpp"

using namespace troupe;
using namespace troupe::test;

namespace {

/// A closure as the model knows it.
struct known {
  std::shared_ptr<remote_state> value{};
  closure_place place = closure_place::outside;
  remote_status status = remote_status::not_ready;
  closure_options options{};
  std::optional<std::uint32_t> tag{};
  std::vector<std::uint64_t> inputs{};
  std::uint32_t failed_attempts = 0;
  std::uint32_t attempt = 0;
  std::uint32_t worker = 0;
  bool alone = false;
  bool doubted = false;
  bool unacknowledged = false;
};

constexpr std::uint32_t worker_count = 3;

/// The specification, by scanning everything each time.
class model {
public:
  std::map<std::uint64_t, known> all{};
  std::optional<errc> error{};
  std::uint64_t recorded = 0;
  std::uint64_t put_backs = 0;
  std::uint64_t highest = 0;
  std::size_t bound = 0;
  std::uint32_t max_failed_attempts = 0;
  bool raising = false;
  std::map<std::uint64_t, std::pair<remote_status, errc>>
    unconfirmed{}; ///< what the queue has decided, and may not say

  std::size_t count(closure_place place, bool tagged) const {
    return static_cast<std::size_t>(std::count_if(all.begin(), all.end(), [&](const auto& e) {
      return e.second.place == place && e.second.tag.has_value() == tagged;
    }));
  }
  std::size_t queued() const {
    return count(closure_place::queued, false) + count(closure_place::blocked, false);
  }

  void admit(std::uint64_t seq) {
    known& c = all[seq];
    c.place = closure_place::queued;
    for (std::uint64_t input : c.inputs) {
      const remote_status status = all[input].status;
      if (status == remote_status::failed || status == remote_status::cancelled)
        return end_or_wait(seq, remote_status::failed, errc::input_failed);
      if (status != remote_status::ready)
        c.place = closure_place::blocked;
    }
  }

  void end_or_wait(std::uint64_t seq, remote_status status, errc code) {
    known& c = all[seq];
    if (!c.unacknowledged)
      return end(seq, status, code);
    c.place = closure_place::in_flight;
    c.alone = false;
    unconfirmed[seq] = {status, code};
  }

  void begin_raise() {
    raising = true;
    for (auto& [seq, c] : all)
      if (!c.tag && c.unacknowledged
          && (c.place == closure_place::queued || c.place == closure_place::blocked))
        end_or_wait(seq, remote_status::cancelled, errc::cancelled);
  }

  void end(std::uint64_t seq, remote_status status, errc code) {
    known& c = all[seq];
    c.place = closure_place::ended;
    c.status = status;
    if (status == remote_status::failed) {
      ++recorded;
      if (!c.tag && !error)
        error = code;
    }
    for (auto& [other, d] : all)
      if (!raising && d.place == closure_place::blocked
          && std::count(d.inputs.begin(), d.inputs.end(), seq) > 0)
        admit(other);
  }

  std::vector<std::uint64_t> take(std::uint32_t worker, std::size_t n, bool idle) {
    std::vector<std::uint64_t> out;
    for (const auto& [seq, c] : all)
      if (c.place == closure_place::in_flight && c.alone && c.worker == worker)
        return out;
    while (out.size() < n) {
      std::optional<std::uint64_t> best;
      for (const auto& [seq, c] : all) {
        if (c.place != closure_place::queued || (raising && !c.tag))
          continue;
        if (c.tag ? *c.tag != worker : c.options.worker && *c.options.worker != worker)
          continue;
        auto rank = [](const known& x) { return (x.tag ? 100 : 0) + x.options.priority; };
        if (!best || rank(c) > rank(all[*best]))
          best = seq;
      }
      if (!best)
        break;
      known& c = all[*best];
      c.alone = c.failed_attempts >= 2 || c.doubted;
      if (c.alone && (!idle || !out.empty()))
        break;
      c.place = closure_place::in_flight;
      c.worker = worker;
      ++c.attempt;
      highest = std::max(highest, *best);
      out.push_back(*best);
      if (c.alone)
        break;
    }
    return out;
  }

  void put_back(std::uint64_t seq, bool failed, const attempt_loss& from) {
    known& c = all[seq];
    c.failed_attempts += failed;
    c.doubted |= from.doubted;
    c.unacknowledged |= from.unacknowledged;
    const std::uint32_t limit = c.options.retries > 0 ? c.options.retries : max_failed_attempts;
    if (error && !c.tag)
      return end_or_wait(seq, remote_status::cancelled, errc::cancelled);
    if (limit > 0 && c.failed_attempts >= limit)
      return end_or_wait(seq, remote_status::failed, errc::poisoned);
    put_backs += !c.tag;
    admit(seq);
  }

  errc finish_raise() {
    for (auto& [seq, c] : all)
      if (!c.tag && (c.place == closure_place::queued || c.place == closure_place::blocked))
        end(seq, remote_status::cancelled, errc::cancelled);
    raising = false;
    return *std::exchange(error, std::nullopt);
  }

  std::vector<std::uint64_t> unsettled() const {
    std::vector<std::uint64_t> seqs;
    for (const auto& [seq, c] : all)
      if (seq <= highest && c.place != closure_place::ended)
        seqs.push_back(seq);
    return seqs;
  }
};

/// Runs random operations on a queue and on the model.
class random_run {
public:
  explicit random_run(std::uint64_t seed) : dice_{seed} {
    model_.bound = 1 + roll(12);
    model_.max_failed_attempts = static_cast<std::uint32_t>(roll(5));
    world_ = std::make_unique<queue_world>(
      closure_queue_options{.queue_len_max = model_.bound,
                            .max_failed_attempts = model_.max_failed_attempts,
                            .errors_len_max = 4});
    world_->when_cancelled = [this] {
      model_.begin_raise();
      end_all_in_flight();
    };
  }

  void step() {
    switch (roll(13)) {
      case 0:
      case 1:
      case 2:
      case 3: put(); break;
      case 4: put_tagged(); break;
      case 5:
      case 6:
      case 7: take(); break;
      case 8:
      case 9: end_one(); break;
      case 10: put_back_one(); break;
      case 11: confirm(); break;
      default: roll(4) == 0 ? wait() : done();
    }
    compare();
  }

private:
  std::uint64_t roll(std::uint64_t n) { return dice_() % n; }

  closure random_closure() {
    closure c = make_closure();
    if (roll(3) == 0)
      c.options.priority = static_cast<int>(roll(7)) - 3;
    if (roll(5) == 0)
      c.options.worker = static_cast<std::uint32_t>(roll(worker_count));
    if (roll(6) == 0)
      c.options.retries = 1 + static_cast<std::uint32_t>(roll(3));
    c.result = std::make_shared<remote_state>();
    return c;
  }

  known& learn(const closure& c) {
    const std::uint64_t seq = ++seq_;
    known& k = model_.all[seq];
    k.value = c.result;
    k.options = c.options;
    return k;
  }

  void put() {
    closure c = random_closure();
    std::vector<std::uint64_t> inputs;
    for (std::uint64_t i = roll(4) == 0 ? 1 + roll(2) : 0; i > 0 && seq_ > 0; --i) {
      const std::uint64_t from = seq_ - roll(std::min<std::uint64_t>(seq_, 8));
      inputs.push_back(from);
      c.inputs.push_back(model_.all[from].value);
    }
    const bool full = model_.queued() >= model_.bound;
    const auto expected = model_.error;
    auto value = c.result;
    auto got = world_->queue->put(c, world_->world.now());
    if (expected) {
      REQUIRE(!got);
      CHECK(got.error().code == finish_raise(*expected));
    } else if (full) {
      REQUIRE(!got);
      CHECK(got.error().code == errc::deadline);
    } else {
      REQUIRE(got);
      learn(c).inputs = inputs;
      CHECK(value->id.seq == seq_);
      model_.admit(seq_);
    }
    if (!got)
      CHECK(value->status == remote_status::cancelled);
  }

  /// What the raise must return; the model had `expected` recorded before the call.
  errc finish_raise(errc expected) {
    model_.raising = true; // without anything in flight no hook said so
    const errc raised = model_.finish_raise();
    CHECK(raised == expected);
    return raised;
  }

  void put_tagged() {
    closure c = random_closure();
    c.options.worker.reset();
    const auto worker = static_cast<std::uint32_t>(roll(worker_count));
    world_->queue->put_tagged(c, worker);
    learn(c).tag = worker;
    model_.all[seq_].place = closure_place::queued;
  }

  void take() {
    const auto worker = static_cast<std::uint32_t>(roll(worker_count));
    const std::size_t n = roll(5);
    const bool idle = roll(2) == 0;
    const auto expected = model_.take(worker, n, idle);
    seqs got;
    for (const auto& c : world_->queue->take(worker, n, idle)) {
      got.push_back(c->id.seq);
      flying_[c->id.seq] = c;
      CHECK(value_of(c->attempt) == model_.all[c->id.seq].attempt);
    }
    CHECK(got == expected);
  }

  closure_ptr pick_flying() {
    auto it = std::next(flying_.begin(), static_cast<std::ptrdiff_t>(roll(flying_.size())));
    closure_ptr c = it->second;
    flying_.erase(it);
    return c;
  }

  void end_one() {
    if (flying_.empty())
      return;
    const closure_ptr c = pick_flying();
    switch (roll(6)) {
      case 0:
        world_->fail(c);
        model_.end(c->id.seq, remote_status::failed, errc::user_code);
        break;
      case 1:
        world_->queue->mark_cancelled(c, make_failure(errc::cancelled, "by hand"));
        model_.end(c->id.seq, remote_status::cancelled, errc::cancelled);
        break;
      default: world_->finish(c); model_.end(c->id.seq, remote_status::ready, errc::none);
    }
  }

  void put_back_one() {
    if (flying_.empty())
      return;
    const closure_ptr c = pick_flying();
    const auto reason = static_cast<put_back_reason>(roll(4));
    attempt_loss from{task_id{job_kind::worker, 0}};
    from.doubted = roll(8) == 0;
    from.unacknowledged = roll(3) == 0;
    world_->queue->put_back(c, reason, from);
    model_.put_back(c->id.seq, reason == put_back_reason::worker_lost_running, from);
  }

  /// The servers have answered: what the queue has decided becomes so.
  void confirm() {
    auto ends = world_->queue->take_unconfirmed();
    CHECK(ends.size() == model_.unconfirmed.size());
    for (auto& end : ends) {
      const std::uint64_t seq = end.which->id.seq;
      REQUIRE(model_.unconfirmed.contains(seq));
      const auto [status, code] = model_.unconfirmed[seq];
      model_.unconfirmed.erase(seq);
      CHECK(end.status == status);
      CHECK(end.why.code == code);
      CHECK(model_.all[seq].value->status == remote_status::not_ready); // nobody has heard of it
      world_->queue->mark_ended({&end, 1});
      model_.end(seq, status, code);
    }
  }

  void end_all_in_flight() {
    while (!flying_.empty())
      roll(3) == 0 ? put_back_one() : end_one();
    while (!model_.unconfirmed.empty()) // one may fail what takes it, and that one waits as well
      confirm();
    // A tagged one that came back is queued again; all others have ended.
  }

  void wait() {
    const auto expected = model_.error;
    auto got = world_->queue->wait(world_->world.now());
    if (expected) {
      CHECK(got.error().code == finish_raise(*expected));
    } else {
      const bool idle = model_.queued() + model_.count(closure_place::in_flight, false) == 0;
      REQUIRE(static_cast<bool>(got) == idle);
      if (!got)
        CHECK(got.error().code == errc::deadline);
    }
  }

  void done() {
    const auto expected = model_.error;
    auto got = world_->queue->done();
    if (expected)
      CHECK(got.error().code == finish_raise(*expected));
    else
      CHECK(*got == (model_.queued() + model_.count(closure_place::in_flight, false) == 0));
  }

  void compare() {
    const auto levels = world_->queue->levels();
    CHECK(levels.queued == model_.queued());
    CHECK(levels.waiting_for_inputs == model_.count(closure_place::blocked, false));
    CHECK(levels.in_flight == model_.count(closure_place::in_flight, false));
    CHECK(levels.tagged_queued == model_.count(closure_place::queued, true));
    CHECK(levels.tagged_in_flight == model_.count(closure_place::in_flight, true));
    CHECK(levels.has_error == model_.error.has_value());
    CHECK(world_->queue->error_count() == model_.recorded);
    CHECK(world_->queue->errors().size() == std::min<std::uint64_t>(model_.recorded, 4));
    const auto counts = world_->queue->counts();
    CHECK(counts.put_back == model_.put_backs);
    CHECK(counts.scheduled
          == counts.finished + counts.failed + counts.cancelled + levels.queued + levels.in_flight);
    CHECK(world_->queue->highest_dispatched() == model_.highest);
    CHECK(world_->queue->unsettled() == model_.unsettled());
    for (const auto& [seq, c] : model_.all)
      if (c.value->status.load() != c.status)
        FAIL_CHECK("closure ", seq, " has status ", static_cast<int>(c.value->status.load()));
  }

  std::mt19937_64 dice_;
  model model_{};
  std::unique_ptr<queue_world> world_{};
  std::map<std::uint64_t, closure_ptr> flying_{};
  std::uint64_t seq_ = 0;
};

} // namespace

TEST_CASE("closure queue: random operations do what a naive model does") {
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    CAPTURE(seed);
    random_run run{seed};
    for (int i = 0; i < 150; ++i)
      run.step();
  }
}
