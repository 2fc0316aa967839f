#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include <troupe/actors/membership/membership_core.hpp>
#include <troupe/actors/membership/published_port.hpp>
#include <troupe/core/promise.hpp>
#include <troupe/messages/interfaces.hpp>

namespace troupe {

struct membership_actor_options {
  membership_options core{};
  std::string token{};
  /// CAF's network layer, through which the actor publishes itself; null within one process.
  caf::actor network{};
  std::string listen_host{};
  std::uint16_t listen_port = 0;
  std::uint64_t publish_ms = 5'000;
  std::string link_address{}; ///< where workers find their coordinator's links; told in a welcome
  /// Called for every process that is not let in; the text names its task. On the actor's thread.
  std::function<void(const failure& why)> on_refused{};
  /// Set with the port once published, or with `address_in_use`.
  std::shared_ptr<promise_slot<std::uint16_t>> published{};
  /// Set when the cluster has ended: every member has gone, or the deadline passed.
  std::shared_ptr<promise_slot<bool>> ended{};
};

/// The author of the views: admits members, hears their heartbeats, notices loss, fences. Decisions
/// are in `membership_core`; this is its shell.
class membership_state {
public:
  using interface = membership_actor;
  static constexpr const char* name = "troupe.membership";

  membership_state(interface::pointer self, const environment& env,
                   membership_actor_options options);
  ~membership_state();
  interface::behavior_type make_behavior();
  void on_down(const caf::down_msg& msg);

private:
  enum timer : std::uint8_t { check_timer = 1, end_timer = 2, publish_timer = 3 };
  /// An admitted member, or a process that asks to be one.
  struct peer {
    task_id task{};
    incarnation inc{};
    caf::strong_actor_ptr handle{};
    bool announced = false; ///< the coordinator was told
  };
  struct waiting_hello {
    caf::typed_response_promise<hello_answer> promise{};
    caf::strong_actor_ptr handle{};
  };

  caf::result<hello_answer> on_hello(hello& msg);
  void on_heartbeat(heartbeat& msg);
  void on_leave(leave& msg);
  void on_follow();
  void on_fence(fence_member& msg);
  void on_end(end_cluster& msg);
  void on_tick(tick& msg);

  bool is_from_here() const;
  void publish();
  void act(membership_actions actions);
  void welcome(const membership_action::welcome& what);
  void refuse(const membership_action::refuse& what);
  void joined(const member& who);
  void announce(const member& who);
  void announce_if_new(const task_id& task);
  void lost(const membership_action::lost& what);
  void tell_fenced(const task_id& task, const incarnation& inc);
  void tell_views();
  template <class Message>
  void tell_member(const caf::strong_actor_ptr& to, Message msg);
  message_header header(const incarnation& receiver);
  void check_ended();
  void end();
  void later(timer what, std::uint64_t ms);

  interface::pointer self_;
  const environment& env_;
  membership_actor_options options_;
  membership_core core_;
  coordinator_actor coordinator_{};
  std::uint64_t next_hello_ = 0;
  std::uint64_t next_request_ = 0;
  std::map<hello_no, waiting_hello> waiting_{};
  std::map<task_id, peer> peers_{};
  published_port<interface::pointer> port_;
  bool ending_ = false;
  bool ended_ = false;
  failure ending_why_{}; ///< what members end with; none: in order
};

membership_actor spawn_membership(caf::actor_system& system, const environment& env,
                                  membership_actor_options options);

} // namespace troupe
