#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include <troupe/core/time.hpp>

namespace troupe::sim {

/// The events to come in the world, by time; equal times in the order of planning.
class calendar {
public:
  enum kind_t : std::uint8_t { packet_arrives, call };
  struct entry {
    time_point at{};
    std::uint64_t seq = 0;
    std::uint32_t index = 0; ///< of a packet or of a call
    kind_t kind = call;
  };

  bool empty() const { return heap_.empty(); }
  time_point next() const { return heap_.empty() ? never : heap_.front().at; }
  void push(time_point at, kind_t kind, std::uint32_t index) {
    heap_.push_back({at, ++seq_, index, kind});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  entry pop() {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    auto out = heap_.back();
    heap_.pop_back();
    return out;
  }

private:
  static bool later(const entry& a, const entry& b) {
    return a.at != b.at ? a.at > b.at : a.seq > b.seq;
  }
  std::vector<entry> heap_{};
  std::uint64_t seq_ = 0;
};

/// Numbered slots that are used again.
template <class T>
class slots {
public:
  std::uint32_t put(T what) {
    if (free_.empty()) {
      all_.push_back(std::move(what));
      return static_cast<std::uint32_t>(all_.size() - 1);
    }
    auto at = free_.back();
    free_.pop_back();
    all_[at] = std::move(what);
    return at;
  }
  T take(std::uint32_t at) {
    free_.push_back(at);
    return std::move(all_[at]);
  }
  T& operator[](std::uint32_t at) { return all_[at]; }

private:
  std::vector<T> all_{};
  std::vector<std::uint32_t> free_{};
};

} // namespace troupe::sim
