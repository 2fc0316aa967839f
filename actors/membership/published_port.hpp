#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include <caf/actor.hpp>
#include <caf/actor_addr.hpp>
#include <caf/actor_cast.hpp>
#include <caf/atom.hpp>

#include <troupe/core/error.hpp>

namespace troupe {

/// A port of CAF's network layer where an actor is found: opened at once even while sockets of a
/// process that died there are still waiting for their end, and given back before its actor ends,
/// so that nobody finds a dead one there. Part of an actor's state; `Self` is its pointer.
template <class Self>
class published_port {
public:
  struct options {
    caf::actor network{};
    std::string who{}; ///< "the coordinator", for errors
    std::string host{};
    std::uint16_t port = 0; ///< 0: the system's choice
    std::uint64_t request_ms = 5'000;
  };

  published_port(Self self, options how) : self_{self}, how_{std::move(how)} {}

  /// Publishes `whom`. `on_open(port)` or `on_failure(why)`, once. A port that is held is asked for
  /// again for a second: whoever held it may just be going.
  /// @param retry calls `retry_open` after so many milliseconds.
  void open(caf::strong_actor_ptr whom, std::function<void(std::uint16_t)> on_open,
            std::function<void(failure)> on_failure, std::function<void(std::uint64_t)> retry) {
    whom_ = whom->address();
    on_open_ = std::move(on_open);
    on_failure_ = std::move(on_failure);
    retry_ = std::move(retry);
    ask();
  }
  void retry_open() { ask(); }

  /// Gives the port back, then `then()`; at once when none is open.
  void close(std::function<void()> then) {
    if (opened_ == 0)
      return then();
    auto finish = std::make_shared<std::function<void()>>(std::move(then));
    self_
      ->request(how_.network, std::chrono::milliseconds{close_ms_max}, caf::unpublish_atom::value,
                whom_, std::exchange(opened_, 0))
      .then([finish] { (*finish)(); }, [finish](caf::error&) { (*finish)(); });
  }

private:
  static constexpr std::uint64_t retry_ms = 100;
  static constexpr std::uint64_t close_ms_max = 1'000;
  static constexpr int tries_max = 11;

  void ask() {
    auto whom = caf::actor_cast<caf::strong_actor_ptr>(whom_);
    if (!whom)
      return;
    ++tries_;
    self_
      ->request(how_.network, std::chrono::milliseconds{how_.request_ms}, caf::publish_atom::value,
                how_.port, std::move(whom), std::set<std::string>{}, how_.host, true)
      .then(
        [this](std::uint16_t port) {
          opened_ = port;
          on_open_(port);
        },
        [this](caf::error&) {
          if (tries_ < tries_max)
            retry_(retry_ms);
          else
            on_failure_(cannot_listen());
        });
  }

  failure cannot_listen() const {
    return make_failure(
      errc::address_in_use,
      how_.who + " cannot listen on " + how_.host + ":" + std::to_string(how_.port)
        + ": another process uses that port, or this machine does not have that address; a port "
          "of a process that has just ended is free again within a minute");
  }

  Self self_;
  options how_;
  caf::actor_addr whom_{};
  std::uint16_t opened_ = 0;
  int tries_ = 0;
  std::function<void(std::uint16_t)> on_open_{};
  std::function<void(failure)> on_failure_{};
  std::function<void(std::uint64_t)> retry_{};
};

} // namespace troupe
