// Goal: the invariants INV-M1 to INV-M5 under every short sequence of inputs, and in a random
// cluster with slow networks, killed and stopped processes and a judge that falls asleep.
#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <set>

#include "membership_support.hpp"

using namespace troupe;
using namespace troupe::test;
namespace act = troupe::membership_action;

namespace {

/// Watches the views of one judge: nothing may live twice, shrink or come back.
class view_watch {
public:
  void look(const view& v, const membership_actions& to) {
    const bool told = count_of<act::new_view>(to) == 1;
    const bool grown = v.epoch > last_.epoch;
    ok_ &= told == grown && count_of<act::new_view>(to) <= 1 && v.epoch >= last_.epoch;
    ok_ &= value_of(v.epoch) <= value_of(last_.epoch) + 1;
    std::set<task_id> seen;
    std::map<task_id, std::uint32_t> fences;
    for (const auto& f : v.fences)
      fences[f.task] = f.counter;
    for (const auto& m : v.members) {
      ok_ &= seen.insert(m.task).second;       // INV-M1
      ok_ &= m.inc.counter > fences[m.task];   // INV-M3
      ok_ &= !gone_.contains({m.task, m.inc}); // INV-M3
      std::uint32_t& top = top_[m.task];
      ok_ &= m.inc.counter >= top && m.inc.counter <= top + 1; // INV-M2
      top = m.inc.counter;
    }
    for (const auto& f : last_.fences)
      ok_ &= fences[f.task] >= f.counter;
    for (const auto& m : last_.members)
      if (std::none_of(v.members.begin(), v.members.end(),
                       [&](const member& x) { return x.task == m.task && x.inc == m.inc; })) {
        gone_.insert({m.task, m.inc});
        ok_ &= fences[m.task] >= m.inc.counter; // who is out is fenced
      }
    last_ = v;
  }
  bool ok() const { return ok_; }

private:
  view last_{};
  std::map<task_id, std::uint32_t> top_{};
  std::set<std::pair<task_id, incarnation>> gone_{};
  bool ok_ = true;
};

// -- every short sequence ------------------------------------------------------------------------

constexpr int input_count = 10;

membership_actions give(judge& j, int input) {
  const task_id task = worker(0);
  // What a process with that nonce believes itself to be: the first or the second session.
  const incarnation a{1, 5};
  const incarnation b{2, 6};
  switch (input) {
    case 0: return j.say_hello(task, 5);
    case 1: return j.say_hello(task, 6);
    case 2: return j.beat(task, a);
    case 3: return j.beat(task, b);
    case 4: return j.core.on_lost_socket(task, a, j.now);
    case 5: return j.core.on_left(task, b, j.now);
    case 6: return j.core.on_launcher_says_dead(task, j.now);
    case 7: return j.core.on_hello_gone(j.last_request(), j.now);
    case 8: return j.run(ms(600));
    default: j.now += ms(1500); return {}; // asleep
  }
}

/// Every hello is answered at most once, and at once unless there is a contest.
struct answer_watch {
  std::set<std::uint64_t> answered{};
  bool ok = true;
  void look(const membership_actions& to) {
    for (const auto& one : to) {
      if (const auto* w = std::get_if<act::welcome>(&one))
        ok &= answered.insert(value_of(w->to)).second;
      if (const auto* r = std::get_if<act::refuse>(&one))
        ok &= answered.insert(value_of(r->to)).second;
    }
  }
};

std::size_t explore(const judge& j, const view_watch& views, const answer_watch& answers, int depth,
                    std::string path) {
  if (depth == 0)
    return 1;
  std::size_t leaves = 0;
  for (int input = 0; input < input_count; ++input) {
    judge next = j;
    view_watch seen = views;
    answer_watch told = answers;
    const auto to = give(next, input);
    if (input == 8) {
      // Several ticks in one: the view may have changed more than once, its last one counts.
      membership_actions once;
      if (count_of<act::new_view>(to) > 0)
        once.push_back(act::new_view{});
      seen.look(next.core.current(), once);
    } else {
      seen.look(next.core.current(), to);
    }
    told.look(to);
    const std::string here = path + std::to_string(input);
    if (!seen.ok() || !told.ok) {
      FAIL_CHECK("after the inputs ", here);
      return leaves;
    }
    leaves += explore(next, seen, told, depth - 1, here);
  }
  return leaves;
}

} // namespace

TEST_CASE(
  "membership: every sequence of five inputs keeps the views sound and answers each hello once") {
  CHECK(explore(judge{}, {}, {}, 5, "") == 100'000);
}

// -- a random cluster ----------------------------------------------------------------------------

namespace {

/// A process: beats every 100 ms while it runs.
struct process {
  std::uint64_t nonce = 0;
  incarnation inc{};
  bool dead = false;
  time_point stopped_until{};
  time_point next_beat{};
  time_point last_sent{}; ///< heard at the latest one network delay later
};

/// Three workers, a network of up to 80 ms, a judge that handles its mailbox in order and sleeps
/// now and then.
class random_cluster {
public:
  explicit random_cluster(std::uint64_t seed)
    : dice_{seed}, now_{ms(1000)}, next_tick_{now_ + ms(100)} {
    for (std::uint32_t i = 0; i < 3; ++i)
      start(i);
  }

  void run(int steps) {
    for (int i = 0; i < steps && ok_; ++i)
      step();
  }
  bool ok() const { return ok_ && views_.ok(); }
  const std::string& wrong() const { return wrong_; }
  int losses() const { return losses_; }
  int sleeps() const { return sleeps_; }

private:
  enum class kind { hello, beat, socket };
  struct letter {
    time_point arrives{};
    kind what = kind::beat;
    std::uint32_t worker = 0;
    std::uint64_t nonce = 0;
    incarnation inc{};
  };

  std::uint64_t roll(std::uint64_t n) { return dice_() % n; }

  void start(std::uint32_t i) {
    processes_[i] = {.nonce = ++nonces_, .next_beat = now_};
    send(kind::hello, i, 1 + roll(80));
  }

  void send(kind what, std::uint32_t i, std::uint64_t delay_ms) {
    process& p = processes_[i];
    time_point at = now_ + ms(static_cast<std::int64_t>(delay_ms));
    at = std::max(at, in_order_[i]); // one connection keeps its order
    in_order_[i] = at;
    mail_.insert({at, letter{at, what, i, p.nonce, p.inc}});
    p.last_sent = now_;
  }

  void step() {
    now_ += ms(10);
    for (auto& [i, p] : processes_)
      live(i, p);
    if (now_ < asleep_until_)
      return;
    if (roll(2000) == 0) {
      ++sleeps_;
      asleep_until_ = now_ + ms(static_cast<std::int64_t>(roll(20'000)));
      slept_ += asleep_until_ - now_;
      return;
    }
    // A tick that is due may stand anywhere among the letters that arrived.
    std::size_t before_tick = now_ >= next_tick_ ? roll(4) : 1'000'000;
    while (!mail_.empty() && mail_.begin()->first <= now_) {
      if (before_tick-- == 0)
        tick();
      const letter l = mail_.begin()->second;
      mail_.erase(mail_.begin());
      deliver(l);
    }
    if (now_ >= next_tick_)
      tick();
    check_silent();
  }

  void live(std::uint32_t i, process& p) {
    if (p.dead) {
      if (roll(100) == 0)
        start(i);
      return;
    }
    if (now_ < p.stopped_until)
      return;
    if (roll(3000) == 0) {
      p.dead = true;
      if (roll(2) == 0 && p.inc.counter != 0)
        send(kind::socket, i, 1);
      return;
    }
    if (roll(3000) == 0) {
      p.stopped_until = now_ + ms(static_cast<std::int64_t>(roll(8000)));
      return;
    }
    if (now_ >= p.next_beat && p.inc.counter != 0) {
      p.next_beat = now_ + ms(100);
      send(kind::beat, i, 1 + roll(80));
    }
  }

  void deliver(const letter& l) {
    switch (l.what) {
      case kind::hello: {
        const hello_no request{++requests_};
        asked_[request] = {l.worker, l.nonce};
        handle(core_.on_hello(judge::hello_of(worker(l.worker), l.nonce), request, now_));
        break;
      }
      case kind::beat:
        heard_[l.worker] = {l.inc, now_, slept_};
        handle(core_.on_heartbeat(worker(l.worker), l.inc, now_));
        break;
      case kind::socket: handle(core_.on_lost_socket(worker(l.worker), l.inc, now_)); break;
    }
  }

  void tick() {
    next_tick_ = now_ + ms(100);
    handle(core_.on_tick(now_));
  }

  void handle(const membership_actions& to) {
    for (const auto& one : to) {
      if (const auto* w = std::get_if<act::welcome>(&one)) {
        const auto [i, nonce] = asked_[w->to];
        heard_[i] = {w->inc, now_, slept_};
        if (processes_[i].nonce == nonce)
          processes_[i].inc = w->inc;
      } else if (const auto* r = std::get_if<act::refuse>(&one)) {
        const auto [i, nonce] = asked_[r->to];
        if (processes_[i].nonce == nonce)
          processes_[i].dead = true; // and comes back later
      } else if (const auto* f = std::get_if<act::fence>(&one)) {
        process& p = processes_[f->task.index];
        if (p.inc == f->inc && !p.dead && now_ >= p.stopped_until)
          start(f->task.index);
      } else if (const auto* l = std::get_if<act::lost>(&one)) {
        ++losses_;
        judge_loss(*l);
      }
    }
    views_.look(core_.current(), to);
  }

  /// INV-M4: a process that runs and has run for the last second is not fenced for silence.
  void judge_loss(const act::lost& l) {
    const process& p = processes_[l.who.task.index];
    const bool silent = l.reason.find("silent") != std::string::npos;
    if (silent && p.inc == l.who.inc && !p.dead && now_ - p.stopped_until > ms(1000))
      fail("a live worker was fenced: " + l.reason);
  }

  /// INV-M5: nobody in the view was silent for longer than the longest patience, a tick, and what
  /// the judge slept.
  void check_silent() {
    for (const auto& m : core_.current().members) {
      const auto& h = heard_[m.task.index];
      if (h.inc == m.inc && now_ - h.at > ms(10'000 + 200) + (slept_ - h.slept))
        fail("a silent worker is still a member");
    }
  }

  void fail(std::string why) {
    ok_ = false;
    wrong_ = std::move(why);
  }

  struct sign {
    incarnation inc{};
    time_point at{};
    duration slept{};
  };
  std::mt19937_64 dice_;
  time_point now_;
  time_point next_tick_;
  membership_core core_{judge::options(), now_};
  std::map<std::uint32_t, process> processes_{};
  std::map<std::uint32_t, time_point> in_order_{};
  std::multimap<time_point, letter> mail_{};
  std::map<hello_no, std::pair<std::uint32_t, std::uint64_t>> asked_{};
  std::map<std::uint32_t, sign> heard_{};
  view_watch views_{};
  time_point asleep_until_{};
  duration slept_{0};
  std::uint64_t nonces_ = 0;
  std::uint64_t requests_ = 0;
  int losses_ = 0;
  int sleeps_ = 0;
  bool ok_ = true;
  std::string wrong_{};
};

} // namespace

TEST_CASE("membership: in random clusters live ones stay, silent ones go, and no view is unsound") {
  int losses = 0;
  int sleeps = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    random_cluster cluster{seed};
    cluster.run(20'000);
    CHECK(cluster.wrong() == "");
    CHECK(cluster.ok());
    losses += cluster.losses();
    sleeps += cluster.sleeps();
  }
  CHECK(losses > 300); // the runs are not idle
  CHECK(sleeps > 100);
}

TEST_CASE(
  "membership: a silent worker is found within 1 s and two ticks when its heartbeats were "
  "regular") {
  for (int phase = 0; phase < 100; phase += 7) {
    judge j;
    j.say_hello(worker(0), 5);
    for (int i = 0; i < 80; ++i) {
      j.beat(worker(0), {1, 5});
      j.now += ms(phase);
      j.core.on_tick(j.now);
      j.now += ms(100 - phase);
    }
    const time_point last = j.now - ms(100);
    while (j.core.current().members.size() == 1)
      j.run(ms(100));
    CHECK(j.now - last >= ms(1000));
    CHECK(j.now - last <= ms(1200));
  }
}
