#pragma once

#include <map>
#include <memory>
#include <string>

#include <caf/actor_control_block.hpp>

#include <troupe/actors/control_plane/control_event_loop.hpp>
#include <troupe/core/caf_relay.hpp>

namespace troupe {

/// Carries messages between this process's coordinator or worker and its peers on links, so that
/// both actors see ordinary messages and handles: what is sent to a relay goes out as a frame from
/// the sender's own thread, and what comes in runs the actor on the thread that received it. In the
/// order sent, a pair; nothing across.
///
/// The coordinator hears `worker_linked` before the first message of a link. Either hears
/// `link_ended` when one ends, or could not be made.
class control_plane final : private link_events {
public:
  control_plane(const environment& env, caf::actor_system& system,
                control_event_loop_options options);
  ~control_plane() override;

  /// Listens; the address that workers dial.
  result<std::string> open() { return loop_.open(); }
  /// Starts the thread, on behalf of a coordinator or a worker, which it does not keep alive.
  void start(job_kind job, const caf::strong_actor_ptr& actor);
  /// Ends all links, and the thread.
  void stop();

  /// See control_event_loop. Any thread.
  void dial(const link_owner& self, term_no term, std::string address) {
    loop_.dial(self, term, std::move(address));
  }
  void end(const link_owner& owner, duration grace) { loop_.end(owner, grace); }

private:
  void on_up(const link_owner& owner, const std::shared_ptr<control_link>& link) override;
  result<void> on_message(const link_owner& owner, link_kind kind, std::uint64_t request,
                          std::string_view bytes) override;
  void on_down(const link_owner& owner, const failure& why, bool clean) override;
  template <class Message>
  void tell_actor(const caf::strong_actor_ptr& to, Message msg);

  const environment env_;
  caf::actor_system& system_;
  job_kind job_ = job_kind::chief;
  caf::weak_actor_ptr actor_{};
  std::map<link_owner, caf::strong_actor_ptr> relays_{}; ///< of the thread: whom messages are from
  control_event_loop loop_;
  std::unique_ptr<thread_handle> running_{};
};

} // namespace troupe
