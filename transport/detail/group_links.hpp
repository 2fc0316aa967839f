#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <troupe/core/data_port.hpp>
#include <troupe/core/environment.hpp>
#include <troupe/core/fiber_safe_mutex.hpp>
#include <troupe/core/result.hpp>
#include <troupe/transport/detail/group_hello.hpp>
#include <troupe/transport/frame.hpp>

/// The channels of a group's epoch, and the messages over them beside the data.
namespace troupe::detail {

/// The two channels to one member; null at the own place.
struct peer_channels {
  std::unique_ptr<channel> control{};
  std::unique_ptr<channel> data{};
  frame_reader reader{group_frame_limits}; ///< of control
  frame_writer writer{group_frame_limits};
  group_locality locality{};
  bool gone = false; ///< control has ended
  bool answered = false;
  std::optional<group_notice> said{}; ///< the first one
};

/// Control's part of an epoch. `tell` and `wake` from any thread, the rest on the group's thread.
class group_links {
public:
  group_links(wait_port& waits, std::vector<peer_channels> peers)
    : mutex_{waits}, peers_{std::move(peers)} {}
  ~group_links();

  std::uint32_t size() const { return static_cast<std::uint32_t>(peers_.size()); }
  channel* data(std::uint32_t peer) { return peers_[peer].data.get(); }
  channel* control(std::uint32_t peer) { return peers_[peer].control.get(); }
  const group_locality& locality(std::uint32_t peer) const { return peers_[peer].locality; }

  /// Reads what came and answers; the first notice, if there is one. Marks those that are gone.
  std::optional<group_notice> listen();
  /// Whether the peer had gone at the last `listen`.
  bool is_gone(std::uint32_t peer) const { return peers_[peer].gone; }

  /// Sends `notice` to all that are there, as far as it fits now; `flush` sends the rest and
  /// returns true when all is out.
  void tell(const group_notice& notice);
  bool flush();
  void wake(std::uint32_t peer);
  /// Asks all members whether they drive an operation; `listen` takes the answers.
  void ask();
  bool has_answered(std::uint32_t peer) const { return peers_[peer].answered; }
  /// The first notice of a peer, as of the last `listen`.
  const std::optional<group_notice>& said(std::uint32_t peer) const { return peers_[peer].said; }

private:
  void heed(peer_channels& peer, std::optional<group_notice>& notice);
  void push(peer_channels& to, group_frame kind, std::string meta);

  fiber_safe_mutex mutex_; // of readers, writers and control channels
  std::vector<peer_channels> peers_;
};

/// The door of a member: its listener, and callers that nobody has taken yet. One thread.
class group_door {
public:
  struct caller {
    std::unique_ptr<channel> link{};
    frame_reader reader{group_frame_limits};
    std::optional<group_hello> claims{}; ///< until it has proved to know the token
    group_challenge asked{};
    group_challenge asks{}; ///< what the welcome has to answer
    std::optional<group_hello> said{};
    time_point since{};
  };

  /// `token`: what callers have to know; empty: nothing.
  group_door(std::unique_ptr<channel_listener> listener, std::uint64_t group, random_port& random,
             std::string token)
    : listener_{std::move(listener)}, group_{group}, random_{random}, token_{std::move(token)} {}

  std::string address() const { return listener_->address(); }
  std::uint64_t group() const { return group_; }
  const std::string& token() const { return token_; }
  group_challenge fresh_challenge();
  /// Accepts and reads; refuses strangers, and members of epochs before `epoch`. True: somebody new
  /// has said hello.
  bool pump(group_epoch epoch, time_point now, collective_counters& counters);
  /// The callers that said hello for `epoch`.
  std::vector<caller> take(group_epoch epoch);
  /// The highest epoch of those who said hello with this list of members.
  group_epoch newest(std::uint64_t members) const;
  /// Ranks that callers claimed who were refused since the last time, and why: whoever waits for
  /// them can say so.
  std::vector<std::pair<std::uint32_t, std::string>> take_refused() {
    return std::exchange(refused_, {});
  }
  static void refuse(caller who, errc code, const std::string& why, group_epoch epoch = {});
  void watch(channel_poller& poller);
  void forget(channel_poller& poller);

private:
  enum class progress : std::uint8_t { waits, moved, said_hello, refused };
  progress hear(caller& who, time_point now);

  std::unique_ptr<channel_listener> listener_;
  std::uint64_t group_;
  random_port& random_;
  const std::string token_;
  std::vector<caller> callers_{};
  std::vector<std::pair<std::uint32_t, std::string>> refused_{};
};

using wait_listener = std::function<void(const std::string& missing)>;

/// Tells a listener every few seconds whom a thread waits for. One wait, one thread.
class wait_teller {
public:
  wait_teller(const wait_listener& to, time_point begun)
    : to_{to}, next_{to ? after(begun, tell_every) : never} {}
  /// The time of the next notice; `never` without a listener.
  time_point next() const { return next_; }
  /// Tells what `missing()` returns, if it is time.
  template <class F>
  void look(time_point now, F missing) {
    if (now < next_)
      return;
    next_ = after(now, tell_every);
    to_(missing());
  }

private:
  static constexpr duration tell_every = std::chrono::seconds{5};
  const wait_listener& to_;
  time_point next_;
};

/// An epoch to be formed.
struct epoch_spec {
  group_epoch epoch{};
  std::vector<collective_member> members{};
  std::uint32_t rank = 0;
  group_locality locality{};
  bool list_is_given = false;  ///< see `group_options::lists_are_given`
  bool members_listen = false; ///< see `group_options::members_listen`
};

/// The outcome of `form_links`, which dials members of lower rank and waits for those of higher
/// rank. Waits on the calling thread. `deadline` names who is missing, and `outcome.missing` gets
/// their ranks; `fenced`: others are in a later epoch of the same list, or wait for this one there,
/// `outcome.newest`; `mismatch`: they have another list, and for given lists where it differs;
/// `wrong_peer`: another token; `peer_lost`: a member that listened refuses calls.
struct forming_outcome {
  std::vector<std::uint32_t> missing{};
  group_epoch newest{};
};
/// Forms an epoch's channels. `teller` hears who is missing while the call waits.
result<std::unique_ptr<group_links>> form_links(environment& env, group_door& door,
                                                channel_poller& poller, const epoch_spec& spec,
                                                collective_counters& counters, time_point deadline,
                                                wait_teller& teller, forming_outcome& outcome);

/// "worker:1, member 2 (id 7 at 127.0.0.1:4001)"; without the name of one that has none.
std::string name_of(const std::vector<collective_member>& members, std::uint32_t rank);

} // namespace troupe::detail
