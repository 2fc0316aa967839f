#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <span>
#include <vector>

#include <troupe/core/time.hpp>
#include <troupe/sim/packet.hpp>

namespace troupe::sim {

class sim_poller;

/// Bytes that arrived, in their segments.
class segment_queue {
public:
  std::size_t size() const { return size_; }
  void push(std::vector<char> segment) {
    size_ += segment.size();
    segments_.push_back(std::move(segment));
  }
  void pop(std::byte* to, std::size_t n) {
    size_ -= n;
    while (n > 0) {
      auto& front = segments_.front();
      auto some = std::min(n, front.size() - taken_);
      std::memcpy(to, front.data() + taken_, some);
      to += some;
      n -= some;
      taken_ += some;
      if (taken_ == front.size()) {
        segments_.pop_front();
        taken_ = 0;
      }
    }
  }
  void clear() {
    segments_.clear();
    size_ = taken_ = 0;
  }

private:
  std::deque<std::vector<char>> segments_{};
  std::size_t taken_ = 0; // of the first
  std::size_t size_ = 0;
};

/// The threads that wait for something to happen to a channel or a listener.
class watchers {
public:
  void add(sim_poller& p) { all_.push_back(&p); }
  void remove(sim_poller& p) { std::erase(all_, &p); }
  void tell() const;

private:
  std::vector<sim_poller*> all_{};
};

/// A data-plane connection: end 0 dialled, end 1 listens.
struct data_connection {
  enum state_t : std::uint8_t { dialling, established, refused };
  struct end_point {
    process_id instance{};
    segment_queue inbox{};
    std::size_t under_way = 0; ///< bytes sent from here that have not arrived
    time_point last{};         ///< packets from here arrive in order
    bool open = true;          ///< a channel is there
    bool peer_gone = false;    ///< the peer has closed, or the connection was reset
    watchers who{};
  };
  std::uint64_t number = 0;
  state_t state = dialling;
  end_point ends[2]{};
  bool dropped = false; ///< what is under way is lost
};

} // namespace troupe::sim
