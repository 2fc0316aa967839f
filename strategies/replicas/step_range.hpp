#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <utility>

namespace troupe {

namespace detail {
class replica_engine;
}

/// The steps of a training loop that are still to do: `for (auto step : strategy.steps(900))`
/// begins at the strategy's committed step, so a program that was restored begins where it was: a
/// checkpoint keeps the number as a counter, which is given to `set_committed_steps`. The end of an
/// iteration commits its step; one that throws, or is left by `break`, is not committed and is done
/// again by the next loop. In cross-replica context, one loop at a time; all workers run the same
/// loop.
class step_range {
public:
  /// The constructor for `strategy::steps`.
  step_range(std::shared_ptr<detail::replica_engine> of, std::int64_t end)
    : of_{std::move(of)}, end_{end} {}

  class iterator {
  public:
    using iterator_category = std::input_iterator_tag;
    using value_type = std::int64_t;
    using difference_type = std::ptrdiff_t;
    using pointer = const std::int64_t*;
    using reference = std::int64_t;
    iterator() = default;
    iterator(std::shared_ptr<detail::replica_engine> of, std::int64_t at, std::int64_t end)
      : of_{std::move(of)}, at_{at}, end_{end} {}
    std::int64_t operator*() const { return at_; }
    /// Commits the step. Throws `wrong_state`, naming both steps, when something else has moved the
    /// counter meanwhile: another loop, or `set_committed_steps`.
    iterator& operator++();
    void operator++(int) { ++*this; }
    friend bool operator==(const iterator& x, std::default_sentinel_t) { return x.at_ >= x.end_; }

  private:
    std::shared_ptr<detail::replica_engine> of_{};
    std::int64_t at_ = 0;
    std::int64_t end_ = 0;
  };
  iterator begin() const;
  std::default_sentinel_t end() const { return {}; }

private:
  std::shared_ptr<detail::replica_engine> of_;
  std::int64_t end_;
};

} // namespace troupe
