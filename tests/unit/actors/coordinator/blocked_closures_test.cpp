// Goal: a closure waits for exactly the values that it takes, and comes out once, when one of them
// has ended. Method: each rule alone, then every state of two inputs.
#include <troupe/actors/coordinator/blocked_closures.hpp>

#include <doctest/doctest.h>

namespace {

using namespace troupe;
using inputs = blocked_closures::inputs;
using value = std::shared_ptr<remote_state>;
using seqs = std::vector<std::uint64_t>;

value make_value(remote_status status = remote_status::not_ready) {
  auto v = std::make_shared<remote_state>();
  v->status = status;
  return v;
}

queued_closure_ptr make_taker(std::uint64_t seq, std::vector<value> of) {
  closure c;
  c.id = {term_no{1}, seq};
  c.inputs = std::move(of);
  return std::make_shared<queued_closure>(std::move(c));
}

seqs seqs_of(const std::vector<queued_closure_ptr>& closures) {
  seqs out;
  for (const auto& c : closures)
    out.push_back(c->id.seq);
  return out;
}

seqs listed(const blocked_closures& b, std::uint64_t seq_max) {
  seqs out;
  b.list_up_to(seq_max, out);
  return out;
}

} // namespace

TEST_CASE("blocked: every state of two inputs") {
  const remote_status all[] = {remote_status::not_ready, remote_status::ready,
                               remote_status::failed, remote_status::cancelled,
                               remote_status::aborted};
  for (auto left : all)
    for (auto right : all) {
      blocked_closures b;
      const auto one = make_value(left), two = make_value(right);
      const auto c = make_taker(1, {one, two});
      auto is_broken = [](remote_status s) {
        return s == remote_status::failed || s == remote_status::cancelled;
      };
      const auto seen = b.add(c);
      if (is_broken(left) || is_broken(right)) {
        CHECK(seen.what == inputs::broken);
        CHECK(seen.broken == (is_broken(left) ? one.get() : two.get())); // the first one
      } else if (left == remote_status::ready && right == remote_status::ready) {
        CHECK(seen.what == inputs::complete);
      } else {
        CHECK(seen.what == inputs::missing);
      }
      const bool kept = seen.what == inputs::missing;
      CHECK(b.size() == (kept ? 1 : 0));
      CHECK((c->place == closure_place::blocked) == kept);
    }
}

TEST_CASE("blocked: what takes nothing waits for nothing") {
  blocked_closures b;
  CHECK(b.add(make_taker(1, {})).what == inputs::complete);
  CHECK_FALSE(b.has_dependents());
}

TEST_CASE("blocked: those that wait for a value come out in the order in which they came, once") {
  blocked_closures b;
  const auto wanted = make_value(), other = make_value();
  for (std::uint64_t seq : {5, 3, 9})
    b.add(make_taker(seq, {wanted}));
  b.add(make_taker(4, {other}));
  CHECK(b.has_dependents());
  CHECK(b.on_ready(*wanted).empty()); // it has not ended
  CHECK(b.size() == 4);
  wanted->status = remote_status::ready;
  const auto out = b.on_ready(*wanted);
  CHECK(seqs_of(out) == seqs{5, 3, 9});
  for (const auto& c : out)
    CHECK(c->place == closure_place::outside);
  CHECK(b.on_ready(*wanted).empty());
  CHECK(listed(b, 100) == seqs{4});
}

TEST_CASE("blocked: a value that takes part twice brings its closure out once") {
  blocked_closures b;
  const auto twice = make_value(), other = make_value();
  b.add(make_taker(1, {twice, twice}));
  b.add(make_taker(2, {twice, other, twice}));
  twice->status = remote_status::ready;
  CHECK(seqs_of(b.on_ready(*twice)) == seqs{1, 2});
}

TEST_CASE("blocked: an aborted value is waited for, a failed one lets its closures go") {
  blocked_closures b;
  const auto v = make_value();
  const auto c = make_taker(1, {v});
  b.add(c);
  v->status = remote_status::aborted;
  CHECK(b.on_ready(*v).empty());
  CHECK(b.size() == 1);
  v->status = remote_status::failed;
  CHECK(seqs_of(b.on_ready(*v)) == seqs{1});
  CHECK(b.add(c).what == inputs::broken);
}

TEST_CASE("blocked: a closure with several inputs is looked at after each of them") {
  blocked_closures b;
  const auto one = make_value(), two = make_value();
  const auto c = make_taker(1, {one, two});
  b.add(c);
  one->status = remote_status::ready;
  CHECK(seqs_of(b.on_ready(*one)) == seqs{1});
  CHECK(b.add(c).what == inputs::missing);
  one->status = remote_status::aborted; // its worker died meanwhile
  two->status = remote_status::ready;
  CHECK(seqs_of(b.on_ready(*two)) == seqs{1});
  CHECK(b.add(c).what == inputs::missing);
  one->status = remote_status::ready;
  CHECK(seqs_of(b.on_ready(*one)) == seqs{1});
  CHECK(b.add(c).what == inputs::complete);
  CHECK(b.size() == 0);
}

TEST_CASE("blocked: lists and moves are in closure order, and what was moved does not come out") {
  blocked_closures b;
  const auto v = make_value();
  for (std::uint64_t seq : {7, 2, 5, 3}) {
    const auto c = make_taker(seq, {v});
    c->unacknowledged = seq == 7 || seq == 3;
    b.add(c);
  }
  CHECK(listed(b, 5) == seqs{2, 3, 5});
  std::vector<queued_closure_ptr> out;
  b.move_unacknowledged(out);
  CHECK(seqs_of(out) == seqs{3, 7});
  CHECK(listed(b, 100) == seqs{2, 5});
  out.front()->place = closure_place::in_flight; // gone elsewhere: the value's end is not its own
  v->status = remote_status::ready;
  CHECK(seqs_of(b.on_ready(*v)) == seqs{2, 5});
  v->status = remote_status::not_ready;
  b.add(make_taker(8, {v}));
  b.add(make_taker(6, {v}));
  out.clear();
  b.move_all(out);
  CHECK(seqs_of(out) == seqs{6, 8});
  CHECK(b.size() == 0);
  CHECK_FALSE(b.has_dependents());
  v->status = remote_status::ready;
  CHECK(b.on_ready(*v).empty());
}
