#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <troupe/actors/server/server_event_loop_options.hpp>
#include <troupe/actors/support/channel_loop.hpp>
#include <troupe/actors/support/tensor_pool.hpp>
#include <troupe/core/environment.hpp>

namespace troupe {

class server_admission;
class server_session;

/// The event loop of a parameter server: accepts channels, reads frames, works on the store,
/// answers. All state machines run on the thread that calls `run`; `stop`, `fence` and
/// `set_incarnation` are for any thread.
///
/// A push is staged whole, in memory of its own or in the channel's, and applied only once all of
/// it is there and its frame's checksum held, so one that is cut short changes nothing. Frames of
/// one channel are served in order, a turn at a time. What there is no memory for fails that one
/// call, as `out_of_memory`; the channel goes on. Marks: server.push_cut_short,
/// server.fenced_refused, server.out_of_memory.
class server_event_loop {
public:
  server_event_loop(const environment& env, server_event_loop_options options);
  ~server_event_loop();
  server_event_loop(const server_event_loop&) = delete;
  server_event_loop& operator=(const server_event_loop&) = delete;

  /// Listens; the address that peers dial. Once, before `run`.
  result<std::string> open();
  /// Serves until `stop`; then closes all channels and the listener.
  void run();

  /// Ends `run`. Also before it.
  void stop();
  /// Sets this server's incarnation: a hello for another incarnation is `unavailable`. Before that,
  /// one for any incarnation in particular is told `try_again`.
  void set_incarnation(const incarnation& self);
  /// Refuses incarnations of `task` up to `counter`, closes their channels. Returns at once; the
  /// store's own fence is what keeps their pushes out.
  void fence(const task_id& task, std::uint32_t counter);
  /// Open channels, for statistics and tests.
  std::size_t channel_count() const { return channels_.count(); }

private:
  void turn();
  void check_again();

  const environment env_;
  const server_event_loop_options options_;
  const std::unique_ptr<server_admission> admission_;
  tensor_pool pool_{}; // what comes and goes is staged in it
  channel_loop<server_session> channels_;
  std::atomic<bool> stopped_{false};
  std::atomic<bool> check_again_{false}; ///< whom to admit has changed
};

} // namespace troupe
