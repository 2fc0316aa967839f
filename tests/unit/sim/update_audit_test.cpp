// The audit board finds what is lost, doubled and torn.

#include <doctest/doctest.h>

#include <troupe/sim/step_dice.hpp>
#include <troupe/sim/update_audit.hpp>

using namespace troupe;
using namespace troupe::sim;

namespace {

const audit_layout layout{.shards = 2, .cells = 3, .width = 2};

/// Cells of shard 0, then those of shard 1, each twice.
tensor cells(std::initializer_list<std::int64_t> values) {
  tensor out{dtype::i64, layout.shape()};
  auto at = out.mutable_as<std::int64_t>().begin();
  for (auto x : values)
    for (std::int64_t i = 0; i < layout.width; ++i)
      *at++ = x;
  return out;
}

audit_board board_with_one(void (audit_board::*end)(std::int64_t)) {
  audit_board out{layout};
  (out.*end)(out.take());
  return out;
}

std::size_t complaints(const audit_board& board, const tensor& counts) {
  return board.compare(counts, counts).size();
}

} // namespace

TEST_CASE("audit: a finished closure is there once on every shard") {
  auto board = board_with_one(&audit_board::finished);
  CHECK(complaints(board, cells({1, 0, 0, 1, 0, 0})) == 0);
  CHECK(complaints(board, cells({1, 0, 0, 0, 0, 0})) > 0); // lost on one
  CHECK(complaints(board, cells({1, 0, 0, 2, 0, 0})) > 0); // doubled on one
  CHECK(board.compare(cells({1, 0, 0, 1, 0, 0}), cells({0, 0, 0, 1, 0, 0})).size() == 1);
}

TEST_CASE("audit: a closure that failed may be on some shards, whole and once") {
  auto board = board_with_one(&audit_board::unfinished);
  CHECK(complaints(board, cells({1, 0, 0, 0, 0, 0})) == 0);
  CHECK(complaints(board, cells({0, 0, 0, 0, 0, 0})) == 0);
  CHECK(complaints(board, cells({2, 0, 0, 0, 0, 0})) > 0);
  auto torn = cells({1, 0, 0, 0, 0, 0});
  torn.mutable_as<std::int64_t>()[1] = 0;
  CHECK(complaints(board, torn) > 0);
}

TEST_CASE("audit: what was refused or never scheduled has no effect") {
  auto board = board_with_one(&audit_board::refused);
  CHECK(complaints(board, cells({0, 0, 0, 0, 0, 0})) == 0);
  CHECK(complaints(board, cells({1, 0, 0, 0, 0, 0})) > 0);
  CHECK(complaints(board, cells({0, 0, 1, 0, 0, 0})) > 0);
}

TEST_CASE("audit: what was open at a save is in it whole, once it finished") {
  audit_board board{layout};
  auto cell = board.take();
  auto saved = board;
  board.finished(cell);
  saved.learn(board);
  saved.reopened();
  CHECK(complaints(saved, cells({1, 0, 0, 1, 0, 0})) == 0);
  CHECK(complaints(saved, cells({0, 0, 0, 0, 0, 0})) == 0);
  CHECK(complaints(saved, cells({1, 0, 0, 0, 0, 0})) > 0);
}

TEST_CASE("audit: cells run out") {
  audit_board board{layout};
  for (std::int64_t i = 0; i < 3; ++i)
    CHECK(board.take() == i);
  CHECK(board.is_full());
  CHECK(board.take() == -1);
  std::int64_t finished = 0, taken = 0;
  board.finished(2);
  board.count_every(2, 0, finished, taken);
  CHECK(finished == 1);
  CHECK(taken == 2);
}

TEST_CASE("step dice: an attempt's fate is its own") {
  step_dice dice{.seed = 3, .throws = 100, .hangs = 100, .kills = 100, .slows = 100};
  int by_fate[5] = {};
  for (std::uint64_t seq = 1; seq <= 2'000; ++seq) {
    closure_id id{term_no{1}, seq};
    auto fate = dice.of_attempt(id, attempt_no{1});
    CHECK(fate == dice.of_attempt(id, attempt_no{1}));
    ++by_fate[static_cast<int>(fate)];
  }
  for (int fate = 1; fate < 5; ++fate)
    CHECK(by_fate[fate] == doctest::Approx(200).epsilon(0.3));
  step_dice calm{.seed = 3};
  CHECK(calm.of_attempt({term_no{1}, 1}, attempt_no{1}) == step_dice::fate::well);
}
