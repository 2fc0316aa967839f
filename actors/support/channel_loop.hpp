#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include <troupe/core/data_port.hpp>
#include <troupe/core/time.hpp>

namespace troupe {

template <class Session>
class channel_loop;

/// A channel's part that its loop works on.
class served_channel {
public:
  /// The loop closes and drops it after this turn, and gives it no other.
  bool ended = false;

private:
  template <class Session>
  friend class channel_loop;
  bool watched_ = false;
  bool watched_send_ = false;
};

/// What a channel waits for until its next turn.
struct channel_wait {
  bool watched = true;      ///< false: for the time alone; it has no use for what comes now
  bool send = false;        ///< until it can take bytes again, too
  time_point until = never; ///< its turn comes then at the latest
};

/// The channels that one thread serves: accepts those that are dialled, gives each its turn, and
/// waits for all of them at once. What is said on a channel, and who may say it, is the owner's.
///
/// `Session` is a `served_channel` with `channel& wire()` and `void close()`. A session's place in
/// the order of turns is that in which they were added. All calls are for the thread that serves,
/// but `count`, and `wake` of the poller.
template <class Session>
class channel_loop {
public:
  explicit channel_loop(std::shared_ptr<channel_poller> poller) : poller_{std::move(poller)} {}
  ~channel_loop() { close(); }
  channel_loop(const channel_loop&) = delete;
  channel_loop& operator=(const channel_loop&) = delete;

  /// Takes what is dialled there from now on.
  void listen(std::unique_ptr<channel_listener> listener) { listener_ = std::move(listener); }
  bool listens() const { return listener_ != nullptr; }

  /// Hands each channel that was dialled to `take`, which calls `add`, up to `count_max` sessions:
  /// more wait until one ends, and nobody wakes for them.
  template <class Take>
  void accept(std::size_t count_max, Take take) {
    if (!listener_)
      return;
    while (sessions_.size() < count_max) {
      auto wire = listener_->try_accept();
      if (!wire) {
        if (!std::exchange(listening_watched_, true))
          poller_->watch(*listener_);
        return;
      }
      take(std::move(wire));
    }
    if (std::exchange(listening_watched_, false))
      poller_->forget(*listener_);
  }

  Session& add(std::unique_ptr<Session> session) {
    auto& added = *sessions_.emplace_back(std::move(session));
    count_.store(sessions_.size());
    return added;
  }

  /// A turn for each: `serve` tells whether it has more to do without waiting, `wait_of` what it
  /// waits for unless it has ended. Drops those that have ended; then waits, unless there is more
  /// to do or there is room for a channel that may wait to be accepted.
  template <class Serve, class WaitOf>
  void turn(Serve serve, WaitOf wait_of) {
    const auto [more, deadline] = serve_each(serve, wait_of);
    const bool room = drop_ended() && listener_ && !listening_watched_;
    if (!more && !room)
      poller_->wait(deadline);
  }

  /// Serves until all have ended; accepts none. Waits for those that have a time by which they end.
  template <class Serve, class WaitOf>
  void finish(Serve serve, WaitOf wait_of) {
    while (drop_ended(), !sessions_.empty()) {
      const auto deadline = serve_each(serve, wait_of).second;
      if (deadline != never)
        poller_->wait(deadline);
    }
  }

  /// Closes all channels and the listener.
  void close() {
    for (auto& s : sessions_)
      s->ended = true;
    drop_ended();
    if (listener_ && std::exchange(listening_watched_, false))
      poller_->forget(*listener_);
    listener_.reset();
  }

  const std::vector<std::unique_ptr<Session>>& sessions() const { return sessions_; }
  /// How many there are. Any thread.
  std::size_t count() const { return count_.load(); }
  const std::shared_ptr<channel_poller>& poller() const { return poller_; }

private:
  template <class Serve, class WaitOf>
  std::pair<bool, time_point> serve_each(Serve& serve, WaitOf& wait_of) {
    bool more = false;
    auto deadline = never;
    for (auto& s : sessions_) {
      more = serve(*s) || more;
      if (s->ended)
        continue;
      const channel_wait wait = wait_of(*s);
      watch(*s, wait);
      deadline = std::min(deadline, wait.until);
    }
    return {more, deadline};
  }

  void watch(Session& s, const channel_wait& wait) {
    served_channel& state = s;
    if (!wait.watched) {
      if (std::exchange(state.watched_, false))
        poller_->forget(s.wire());
    } else if (!state.watched_ || state.watched_send_ != wait.send) {
      poller_->watch(s.wire(), wait.send);
      state.watched_ = true;
      state.watched_send_ = wait.send;
    }
  }

  /// True when one was dropped.
  bool drop_ended() {
    for (auto& s : sessions_)
      if (s->ended) {
        if (static_cast<served_channel&>(*s).watched_)
          poller_->forget(s->wire());
        s->close();
      }
    const bool dropped = std::erase_if(sessions_, [](const auto& s) { return s->ended; }) > 0;
    if (dropped)
      count_.store(sessions_.size());
    return dropped;
  }

  std::shared_ptr<channel_poller> poller_; ///< shared: what wakes it may outlive the loop
  std::unique_ptr<channel_listener> listener_{};
  bool listening_watched_ = false;
  std::vector<std::unique_ptr<Session>> sessions_{};
  std::atomic<std::size_t> count_{0};
};

} // namespace troupe
