#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include <troupe/data/detail/position.hpp>
#include <troupe/data/iterator.hpp>

/// Rows of batches that an iterator yields, taken in any number.
namespace troupe::detail {

/// Between the iterator and what cuts its batches. One thread at a time.
class held_rows {
public:
  explicit held_rows(dataset_iterator from) : from_{std::move(from)} {}

  /// Pulls batches until `count` rows are held or there are no more; returns what is held, at most
  /// `count`.
  std::int64_t want(std::int64_t count);
  /// Pulls one batch when nothing is held; returns the rows that are left of the oldest, 0 at the
  /// end.
  std::int64_t want_batch();
  /// The first `count` rows held: a view where they lie in one batch, else a copy. @pre count > 0,
  /// so many are held
  element take(std::int64_t count);
  /// Drops the first `count` rows held. @pre so many are held
  void drop(std::int64_t count);
  /// The next element as it is, whatever it is; one without a batch dimension counts as a row.
  /// @pre nothing is held
  std::optional<element> take_whole();
  std::int64_t rows_held() const { return rows_held_; }
  /// Rows taken or dropped in this pass.
  std::uint64_t rows_gone() const { return rows_gone_; }

  void start_pass(std::uint64_t pass);
  std::uint64_t pass() const { return from_.pass(); }
  void save(position_out& out) const;
  /// Throws `corrupt` or `mismatch`; this may then be anywhere.
  void load(position_in& in);

private:
  struct batch {
    element data;
    std::int64_t rows = 0;
    std::int64_t gone = 0;
    std::string position; // of the iterator, before it
  };
  bool pull();

  dataset_iterator from_;
  std::deque<batch> held_{};
  std::int64_t rows_held_ = 0;
  std::uint64_t rows_gone_ = 0;
};

} // namespace troupe::detail
