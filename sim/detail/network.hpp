#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include <troupe/sim/action.hpp>
#include <troupe/sim/detail/calendar.hpp>
#include <troupe/sim/detail/data_connection.hpp>
#include <troupe/sim/draws.hpp>
#include <troupe/sim/packet.hpp>
#include <troupe/sim/world.hpp>

namespace troupe::sim {

class process_instance;
struct machine;

/// A packet that reached a machine which is off, and what will answer it.
struct unanswered {
  packet question{};
  packet::kind_t kind = packet::finished;
};

/// A reason why nothing of a link arrives.
struct hold {
  std::uint32_t count = 0; ///< how many of its kind hold the link
  std::uint64_t round = 0; ///< counts ends: what began before is over
};

/// A direction between two machines.
struct link {
  hold cut{};     ///< partitions: systems give connections up after a while
  hold stalled{}; ///< stalls: they never do
  duration extra{};
  time_point last{};                 ///< control packets arrive in order
  std::vector<std::uint32_t> held{}; ///< packets that wait for the end of what holds it
  std::deque<std::pair<std::uint32_t, std::uint64_t>> due{}; ///< packets, and since when
  draw_stream draws{};
};

/// Links, connections and what is under way. A stream between two processes is in order and without
/// loss until it ends: faults are delay, stall, one-way loss of progress, and reset.
class network {
public:
  explicit network(world::core& w);
  void add_machine();

  // -- processes --
  std::uint64_t route(process_instance& from, const process_id& to);
  void send(packet&& p);
  /// Tells that `l` has ended: its peers hear of it as `flags` (crash_flag) say.
  void process_gone(process_instance& l, std::int64_t flags);

  // -- faults --
  void block(std::uint32_t from, std::uint32_t to, duration length);
  void stall(std::uint32_t from, std::uint32_t to, duration length);
  void delay(std::uint32_t from, std::uint32_t to, duration extra, duration length);
  bool heal(std::uint32_t from, std::uint32_t to);
  bool reset(std::uint32_t a, std::uint32_t b, bool channels_only);
  void release_held(std::uint32_t machine);
  /// Turns a machine on again: answers what came meanwhile.
  void machine_on(machine& m);
  bool is_blocked(std::uint32_t from, std::uint32_t to) { return at(from, to).cut.count > 0; }

  // -- the world's loop --
  struct due_link {
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    std::uint64_t since = 0; ///< of the first packet
  };
  /// Makes a packet due, whose time has come.
  void become_due(std::uint32_t index, std::uint64_t since);
  /// Links that have a packet to deliver, in the order in which they had.
  const std::vector<due_link>& due() const { return due_; }
  /// Delivers the first packet of `due()[i]`.
  void deliver_due(std::size_t i);

  // -- the data plane --
  std::shared_ptr<data_connection> open_channel(process_instance& from, std::uint32_t to,
                                                std::uint16_t port);
  /// The number of `bytes` that travel in one piece: sometimes less than could.
  std::size_t segment_size(std::size_t bytes);
  void send_data(data_connection& c, int end, packet::kind_t kind, std::vector<char> bytes = {});

  std::uint64_t arrived = 0;
  std::uint64_t bytes_arrived = 0;

private:
  struct connection {
    process_id a{}, b{};
    bool dropped = false; ///< what is under way is lost
    const process_id& other(std::uint32_t machine) const { return a.machine == machine ? b : a; }
  };

  link& at(std::uint32_t from, std::uint32_t to) { return links_[from][to]; }
  void arrive(std::uint32_t index);
  void put(std::uint32_t index);
  duration travel_time(link& l, const packet& p);
  time_point& last_of(const packet& p, link& l);
  void start(hold link::*kind, std::uint32_t from, std::uint32_t to, duration length);
  bool lasts(hold link::*kind, std::uint32_t from, std::uint32_t to, std::uint64_t round);
  void end(hold link::*kind, std::uint32_t from, std::uint32_t to);
  void give_up(std::uint32_t from, std::uint32_t to);
  void give_up(const packet& p);
  void wait_for_machine(machine& m, const packet& p, packet::kind_t kind);
  void dispatch(packet& p);
  void dispatch_control(process_instance* to, packet& p);
  void dispatch_data(process_instance* to, packet& p);
  void on_dial(process_instance* to, packet& p);
  void on_dialed(process_instance& to, packet& p);
  void on_data_dial(process_instance* to, packet& p);
  void lose(process_instance& side, std::uint32_t peer);
  void answer(const packet& p, packet::kind_t kind);
  std::uint64_t open(const process_id& a, const process_id& b);
  process_instance* up_at(std::uint32_t machine);

  world::core& world_;
  std::vector<std::vector<link>> links_{};
  slots<packet> packets_{};
  std::vector<connection> connections_{1};
  std::vector<std::shared_ptr<data_connection>> channels_{1}; ///< by number
  draw_stream segments_;
  std::vector<due_link> due_{};
};

} // namespace troupe::sim
