#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <troupe/actors/coordinator/closure.hpp>

/// The queues in which closures wait to be taken: one queue a priority class, for all workers and
/// for each worker alone. Plain data without a lock; `closure_queue` guards it.
namespace troupe {

inline constexpr int priority_min = -3;
inline constexpr int priority_max = 3;

/// The place of a closure. Each closure is in exactly one place.
enum class closure_place : std::uint8_t {
  outside = 0,   ///< not admitted
  blocked = 1,   ///< waits for values that it takes
  queued = 2,    ///< may be taken
  in_flight = 3, ///< taken and not ended
  ended = 4
};

/// A closure with what the queue knows of it. Every closure that `closure_queue` hands out is one.
struct queued_closure : closure {
  closure_place place = closure_place::outside;
  bool tagged = false;      ///< builds a resource: not part of any batch
  bool alone = false;       ///< was handed out alone
  std::uint32_t worker = 0; ///< that took it last
  std::uint32_t slot = 0;   ///< index among those in flight
  explicit queued_closure(closure c) : closure{std::move(c)} {}
};

using queued_closure_ptr = std::shared_ptr<queued_closure>;

/// The queues of one audience. Each is in closure order at all times: a closure that comes back, or
/// whose inputs arrived, goes to its own place and not to an end. Near the front that costs a few
/// moves.
class closure_priority_queue {
public:
  void insert(queued_closure_ptr c);
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  /// Classes that hold something, bit `priority - priority_min`.
  std::uint32_t classes() const { return classes_; }
  const queued_closure_ptr& front(int class_index) const {
    return queues_[index(class_index)].front();
  }
  queued_closure_ptr pop(int class_index);
  /// Empties all queues into `to`, highest class first.
  void move_all(std::vector<queued_closure_ptr>& to);
  /// Moves those that are `unacknowledged` there; the others stay, in order.
  void move_unacknowledged(std::vector<queued_closure_ptr>& to);
  /// Appends the sequence numbers up to `seq_max`.
  void list_up_to(std::uint64_t seq_max, std::vector<std::uint64_t>& to) const;

private:
  static std::size_t index(int class_index) { return static_cast<std::size_t>(class_index); }
  static constexpr std::size_t class_count = priority_max - priority_min + 1;
  std::array<std::deque<queued_closure_ptr>, class_count> queues_{};
  std::uint32_t classes_ = 0;
  std::size_t size_ = 0;
};

/// All queues of a coordinator.
class closure_priority_queues {
public:
  /// Puts a closure into the queue of its `tagged` and `options.worker`. @pre place is not
  /// `queued`, and the priority is in its domain.
  void insert(queued_closure_ptr c);
  /// The next one for `worker`, tagged ones first, then the highest class, then the lowest id; null
  /// when there is none. Looks only; `pop` takes what the last `peek` for that worker showed.
  const queued_closure* peek(std::uint32_t worker, bool tagged_only);
  queued_closure_ptr pop(std::uint32_t worker, bool tagged_only);
  /// The highest class that `worker` could take from, tagged ones left out.
  std::optional<int> top_priority(std::uint32_t worker) const;
  /// Number of closures, without the tagged ones.
  std::size_t size() const { return size_; }
  std::size_t tagged_size() const { return tagged_size_; }
  /// Closures that one worker alone may run, by worker, without the tagged ones: "2 for worker:1
  /// alone". Empty when there are none.
  std::string tied_text() const;
  /// Empties all but the tagged queues.
  std::vector<queued_closure_ptr> move_all();
  /// Takes out those that are `unacknowledged`, tagged ones left out.
  std::vector<queued_closure_ptr> move_unacknowledged();
  std::vector<queued_closure_ptr> move_tagged();
  std::vector<queued_closure_ptr> move_tagged(std::uint32_t worker);
  void list_up_to(std::uint64_t seq_max, std::vector<std::uint64_t>& to) const;

private:
  struct own_queues {
    closure_priority_queue affine{};
    closure_priority_queue tagged{};
  };
  struct spot {
    closure_priority_queue* queue = nullptr;
    int class_index = 0;
  };
  spot find(std::uint32_t worker, bool tagged_only);
  closure_priority_queue shared_{};
  std::map<std::uint32_t, own_queues> own_{};
  std::size_t size_ = 0;
  std::size_t tagged_size_ = 0;
};

} // namespace troupe
