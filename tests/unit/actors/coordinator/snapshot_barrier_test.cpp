// Goal: a snapshot is taken only while nothing runs that it could show by half, an answer counts
// for the snapshot that it speaks of, and work goes on whatever the end. Method: each rule alone,
// then all short histories against a model in plain words.
#include <troupe/actors/coordinator/snapshot_barrier.hpp>

#include <algorithm>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

namespace {

using namespace troupe;
using step = snapshot_barrier::step;
using answer = snapshot_barrier::answer;

constexpr time_point start{std::chrono::seconds{7}};
constexpr term_no first_term{3};

closure_ptr open_closure(std::uint64_t seq = 1) {
  auto c = std::make_shared<closure>();
  c->id = {first_term, seq};
  c->result = std::make_shared<remote_state>();
  return c;
}

} // namespace

TEST_CASE("barrier: a snapshot waits until nothing runs and every held end is confirmed") {
  snapshot_barrier b{300};
  CHECK(b.next_step(0, 0) == step::wait); // nobody saves
  CHECK_FALSE(b.holds_back());
  b.begin(start);
  CHECK(b.holds_back());
  CHECK(b.next_step(2, 0) == step::wait);
  CHECK(b.next_step(0, 1) == step::wait);
  CHECK(b.next_step(1, 1) == step::wait);
  CHECK_FALSE(b.taking());
  CHECK(b.next_step(0, 0) == step::take);
  b.take(first_term, {0, 1});
  CHECK(b.taking());
  CHECK(b.next_step(0, 0) == step::wait); // asked once
  CHECK(b.holds_back());
}

TEST_CASE("barrier: what is partial runs to its end before the snapshot, and nothing but that") {
  snapshot_barrier b{300};
  const auto lost = open_closure(1), other = open_closure(2);
  b.note_partial(lost);
  b.note_partial(other);
  CHECK_FALSE(b.holds_back());
  b.begin(start);
  CHECK_FALSE(b.holds_back()); // it is to be sent again
  CHECK(b.next_step(0, 0) == step::run_partial);
  lost->result->status = remote_status::ready;
  CHECK(b.next_step(0, 0) == step::run_partial);
  other->result->status = remote_status::cancelled;
  CHECK(b.holds_back());
  CHECK(b.next_step(0, 0) == step::take);
}

TEST_CASE(
  "barrier: what comes back while the servers take the snapshot is not sent before the end") {
  snapshot_barrier b{300};
  b.begin(start);
  b.take(first_term, {0});
  b.note_partial(open_closure());
  CHECK(b.has_partial());
  CHECK(b.holds_back());
  b.end();
  CHECK_FALSE(b.holds_back());
}

TEST_CASE("barrier: closures that have ended are forgotten, however many come back") {
  snapshot_barrier b{300};
  std::vector<std::weak_ptr<closure>> all;
  for (std::uint64_t seq = 1; seq <= 2000; ++seq) {
    auto c = open_closure(seq);
    all.push_back(c);
    b.note_partial(c);
    if (seq != 1000)
      c->result->status = remote_status::ready;
    else
      CHECK(b.has_partial());
  }
  // before `has_partial`, which lets go of those that have ended
  CHECK(std::count_if(all.begin(), all.end(), [](const auto& c) { return !c.expired(); }) <= 512);
  CHECK(b.has_partial()); // the thousandth is open
}

TEST_CASE("barrier: ids of snapshots are new, in their term") {
  snapshot_barrier b{300};
  b.begin(start);
  const auto first = b.take(term_no{3}, {0});
  b.end();
  b.begin(start);
  const auto second = b.take(term_no{4}, {0});
  CHECK(value_of(first) == ((std::uint64_t{3} << 32) | 1));
  CHECK(value_of(second) == ((std::uint64_t{4} << 32) | 2));
}

TEST_CASE("barrier: complete once every server has taken it, failed with the first that did not") {
  snapshot_barrier b{300};
  b.begin(start);
  auto snapshot = b.take(first_term, {0, 2, 5});
  CHECK(b.answered(snapshot, 2, true) == answer::more);
  CHECK(b.answered(snapshot, 2, true) == answer::more); // said twice
  CHECK(b.answered(snapshot, 0, true) == answer::more);
  CHECK(b.answered(snapshot, 5, true) == answer::complete);
  CHECK(b.end() == snapshot);
  b.begin(start);
  snapshot = b.take(first_term, {0, 2});
  CHECK(b.answered(snapshot, 0, true) == answer::more);
  CHECK(b.answered(snapshot, 2, false) == answer::failed);
  CHECK(b.end() == snapshot);
}

TEST_CASE("barrier: a late answer says nothing of the next snapshot") {
  snapshot_barrier b{300};
  b.begin(start);
  const auto old = b.take(first_term, {0});
  b.end();
  CHECK(b.answered(old, 0, true) == answer::late); // nobody saves
  b.begin(start);
  CHECK(b.answered(old, 0, true) == answer::late); // the next one quiesces
  CHECK(b.answered(old, 0, false) == answer::late);
  const auto snapshot = b.take(first_term, {0});
  CHECK(b.answered(old, 0, true) == answer::late);
  CHECK(b.answered(old, 0, false) == answer::late);
  CHECK(b.answered(snapshot, 0, true) == answer::complete);
}

TEST_CASE("barrier: a save that ends before the servers were asked leaves nothing there") {
  snapshot_barrier b{300};
  b.begin(start);
  CHECK_FALSE(b.end().has_value());
  CHECK_FALSE(b.quiescing());
}

TEST_CASE("barrier: a timer counts in the phase that it was set in") {
  snapshot_barrier b{300};
  CHECK_FALSE(b.is_current(b.timer())); // nobody saves
  b.begin(start);
  const auto quiescing = b.timer();
  CHECK(b.is_current(quiescing));
  b.take(first_term, {0});
  const auto taking = b.timer();
  CHECK_FALSE(b.is_current(quiescing));
  CHECK(b.is_current(taking));
  b.end();
  CHECK_FALSE(b.is_current(taking));
  b.begin(start);
  CHECK_FALSE(b.is_current(quiescing));
  CHECK_FALSE(b.is_current(taking));
  CHECK(b.is_current(b.timer()));
}

TEST_CASE("barrier: the silence of steps counts from the save on") {
  snapshot_barrier b{300};
  b.begin(start);
  const std::vector<running_closure> silent{{.seq = 4, .worker = 1, .silent_ms = 9000}};
  CHECK(b.look(start + std::chrono::milliseconds{100}, silent).look_again_ms == 200);
  CHECK(b.look(start + std::chrono::milliseconds{300}, silent).overdue.size() == 1);
}

TEST_CASE("barrier: failures name whom a save waited for") {
  snapshot_barrier b{300};
  b.begin(start);
  const std::vector<running_closure> late{{.seq = 4, .worker = 1}, {.seq = 9, .worker = 0}};
  CHECK(b.no_progress(late, 0).text
        == "save: no progress for 300 ms of closures 4 on worker:1, 9 on worker:0");
  CHECK(b.no_progress({}, 3).text
        == "save: no progress for 300 ms of the servers have not confirmed that 3 closures ended, "
           "or closures that may have reached a server wait for a worker");
  const auto snapshot = b.take(first_term, {0, 1, 4});
  b.answered(snapshot, 1, true);
  CHECK(b.no_answer().text == "save: waiting for the snapshots of ps:0, ps:4 after 300 ms");
  CHECK(b.no_answer().code == errc::deadline);
}

namespace {

/// A barrier beside what it should do, in plain words. A move returns false where it is not legal.
class history {
public:
  static constexpr int move_count = 8;
  bool move(int which) {
    bool legal = false;
    switch (which) {
      case 0: legal = begin(); break;
      case 1: legal = closure_comes_back(); break;
      case 2: legal = closure_ends(); break;
      case 3: legal = all_is_quiet(); break;
      case 4: legal = latest_is_taken(0); break;
      case 5: legal = latest_is_taken(1); break;
      case 6: legal = first_speaks_again(); break;
      default: legal = save_is_over(); break;
    }
    if (legal)
      check();
    return legal;
  }

private:
  enum class phase : std::uint8_t { open, quiescing, taking };

  bool begin() {
    if (now_ != phase::open)
      return false;
    barrier_.begin(start);
    now_ = phase::quiescing;
    return true;
  }
  bool closure_comes_back() {
    if (lost_)
      return false;
    barrier_.note_partial(lost_ = open_closure());
    return true;
  }
  bool closure_ends() {
    if (!lost_)
      return false;
    lost_->result->status = remote_status::ready;
    lost_ = nullptr;
    return true;
  }
  bool all_is_quiet() {
    const auto got = barrier_.next_step(0, 0);
    if (now_ != phase::quiescing) {
      CHECK(got == step::wait);
      return false; // the shorter history goes on without it
    }
    CHECK(got == (lost_ ? step::run_partial : step::take));
    if (lost_)
      return false;
    taken_.push_back(barrier_.take(first_term, {0, 1}));
    now_ = phase::taking;
    owing_ = {0, 1};
    return true;
  }
  bool latest_is_taken(std::uint32_t server) {
    if (taken_.empty())
      return false;
    const auto got = barrier_.answered(taken_.back(), server, true);
    owing_.erase(server);
    CHECK(got
          == (now_ != phase::taking ? answer::late
              : owing_.empty()      ? answer::complete
                                    : answer::more));
    return true;
  }
  bool first_speaks_again() {
    if (taken_.size() < 2)
      return false;
    CHECK(barrier_.answered(taken_.front(), 0, true) == answer::late);
    return true;
  }
  bool save_is_over() {
    if (now_ == phase::open)
      return false;
    const auto left = barrier_.end();
    CHECK(left == (now_ == phase::taking ? std::optional{taken_.back()} : std::nullopt));
    now_ = phase::open;
    return true;
  }
  void check() {
    CHECK(barrier_.quiescing() == (now_ != phase::open));
    CHECK(barrier_.taking() == (now_ == phase::taking));
    CHECK(barrier_.has_partial() == (lost_ != nullptr));
    CHECK(barrier_.holds_back() == (now_ == phase::taking || (now_ == phase::quiescing && !lost_)));
    CHECK(barrier_.next_step(1, 0) == step::wait);
    CHECK(barrier_.next_step(0, 1) == step::wait);
  }

  snapshot_barrier barrier_{300};
  phase now_ = phase::open;
  closure_ptr lost_{}; // came back and is open
  std::vector<snapshot_id> taken_{};
  std::set<std::uint32_t> owing_{}; // an answer to the latest snapshot
};

bool play(const std::vector<int>& moves) {
  history h;
  return std::all_of(moves.begin(), moves.end(), [&](int which) { return h.move(which); });
}

int all_histories(std::vector<int>& moves, std::size_t length) {
  int played = 0;
  for (int move = 0; move < history::move_count; ++move) {
    moves.push_back(move);
    if (play(moves)) {
      ++played;
      if (moves.size() < length)
        played += all_histories(moves, length);
    }
    moves.pop_back();
  }
  return played;
}

} // namespace

TEST_CASE("barrier: all histories of seven moves follow the model") {
  std::vector<int> moves;
  CHECK(all_histories(moves, 7) > 1000);
}
