#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <troupe/core/environment.hpp>
#include <troupe/device/health.hpp>

/// The one poller of a device: turns events that passed into calls.
namespace troupe::detail {

struct event_state;

/// The poller. `run` is the body of a thread of its own; the other calls are from any thread. A
/// host callback of the device only counts and wakes; the poller then asks for the events, and
/// looks every `poll_every` in any case, since a device that failed calls nobody. An event that has
/// not passed after it was looked at for `hang_after` fails the device; one that stands behind a
/// collective ends the collective's group instead. Time in which the poller itself slept (a stopped
/// process, a machine under load) is not counted.
class event_poller : public std::enable_shared_from_this<event_poller> {
public:
  struct entry {
    std::shared_ptr<event_state> event{};
    std::function<void(const result<void>&)> call{};
    duration age{}; ///< that it was looked at
    bool seen = false;
  };

  event_poller(const environment& env, std::shared_ptr<device_backend> backend, device_id id,
               std::shared_ptr<device_health> health, duration poll_every, duration hang_after);

  /// The thread's body: until `stop`.
  void run();
  /// Ends the poller: what is still open is told `why`. Does not wait for the thread.
  void stop(const failure& why);
  bool ended() const;
  /// Rounds that began; a poller whose number stays the same hangs in a call of the driver.
  std::uint64_t rounds() const { return rounds_.load(); }
  /// Waits for the thread's body to end.
  bool await_end(time_point deadline);
  /// Adds an event to look at. False when `open_max` are open.
  bool add(entry e, std::uint32_t open_max);
  std::uint64_t open() const;
  /// Adds a check that is made at each round as well. Before `run`.
  void also(std::function<void(time_point now)> check) { checks_.push_back(std::move(check)); }
  /// Makes the next round come soon.
  void wake();
  /// The host callback that a stream calls; `argument` is a ticket from `ticket`.
  static void posted(void* argument);
  /// The argument of one call of `posted`. While some have not come the poller is kept, for good on
  /// a device that failed.
  void* ticket();
  /// Takes back a ticket whose call will not come: the device refused it.
  void take_back(void* ticket);

private:
  struct ticket_slot {
    event_poller* of = nullptr;
  };
  void round();
  /// The outcome of an entry; none: it is still open.
  std::optional<result<void>> look(const entry& e);

  const environment env_;
  const std::shared_ptr<device_backend> backend_;
  const device_id id_;
  const std::shared_ptr<device_health> health_;
  const duration poll_every_;
  const duration hang_after_;
  std::vector<std::function<void(time_point)>> checks_{};
  std::atomic<std::uint64_t> rounds_{0};
  time_point last_round_{};

  mutable std::mutex mutex_{};
  const std::unique_ptr<wait_point> changed_;
  std::vector<entry> open_{};
  std::deque<ticket_slot> tickets_{};
  std::vector<ticket_slot*> spare_tickets_{};
  std::uint64_t wakes_ = 0;
  bool stopped_ = false;
  bool ended_ = false;
  failure stop_reason_{};
};

} // namespace troupe::detail
