#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <troupe/core/time.hpp>
#include <troupe/sim/fiber.hpp>

namespace troupe::sim {

class process_instance;

/// A thread of a simulated process: its program, a compute thread, a server event loop.
struct thread_fiber {
  thread_fiber(process_instance& o, std::uint64_t n, std::string name, std::function<void()> body)
    : owner{o}, number{n}, stack{std::move(name), std::move(body)} {}
  process_instance& owner;
  const std::uint64_t number;
  fiber stack;
  bool waiting = false;        ///< for a notification, or for `deadline`
  bool notified = false;       ///< what ended the last wait
  time_point deadline = never; ///< the world's time
  std::size_t heap_at = 0;     ///< place in `deadlines`, from 1; 0: not there
  std::uint64_t serial = 0;    ///< of equal deadlines the lower comes first
  duration next_yield{};
  std::vector<thread_fiber*> joiners{};
};

/// Threads that wait with a deadline, the earliest first.
class deadlines {
public:
  time_point next() const { return heap_.empty() ? never : heap_.front()->deadline; }
  thread_fiber& first() { return *heap_.front(); }
  void add(thread_fiber& f) {
    f.serial = ++serial_;
    heap_.push_back(&f);
    f.heap_at = heap_.size();
    rise(heap_.size() - 1);
  }
  void remove(thread_fiber& f) {
    if (f.heap_at == 0)
      return;
    auto at = f.heap_at - 1;
    f.heap_at = 0;
    auto* last = heap_.back();
    heap_.pop_back();
    if (last == &f)
      return;
    place(at, last);
    rise(at);
    sink(last->heap_at - 1);
  }

private:
  static bool before(const thread_fiber* a, const thread_fiber* b) {
    return a->deadline != b->deadline ? a->deadline < b->deadline : a->serial < b->serial;
  }
  void place(std::size_t at, thread_fiber* f) {
    heap_[at] = f;
    f->heap_at = at + 1;
  }
  void rise(std::size_t at) {
    while (at > 0 && before(heap_[at], heap_[(at - 1) / 2])) {
      auto up = (at - 1) / 2;
      auto* f = heap_[at];
      place(at, heap_[up]);
      place(up, f);
      at = up;
    }
  }
  void sink(std::size_t at) {
    for (;;) {
      auto least = at;
      for (auto child : {2 * at + 1, 2 * at + 2})
        if (child < heap_.size() && before(heap_[child], heap_[least]))
          least = child;
      if (least == at)
        return;
      auto* f = heap_[at];
      place(at, heap_[least]);
      place(least, f);
      at = least;
    }
  }
  std::vector<thread_fiber*> heap_{};
  std::uint64_t serial_ = 0;
};

} // namespace troupe::sim
