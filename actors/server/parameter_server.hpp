#pragma once

#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <troupe/actors/membership/member_client.hpp>
#include <troupe/actors/shards/shard_store.hpp>
#include <troupe/core/specs.hpp>
#include <troupe/messages/interfaces.hpp>

namespace troupe {

struct server_actor_options {
  member_options member{};
  /// The shards; shared with the server's event loop, or with the compute threads of the same
  /// process.
  std::shared_ptr<shard_store> store{};
  /// Told the incarnation once it is known, so that the data plane can refuse messages for an
  /// earlier one.
  std::function<void(const incarnation&)> on_incarnation{};
  /// A sender is fenced: its channels must go.
  std::function<void(const task_id&, std::uint32_t counter)> on_fence{};
};

/// Owns a server from its joining to its end: joins, obeys the highest term, makes shards, settles
/// ledgers, takes snapshots. Pushes and pulls never pass its mailbox: threads work on the store.
class parameter_server_state {
public:
  using interface = parameter_server_actor;
  static constexpr const char* name = "troupe.parameter_server";

  parameter_server_state(interface::pointer self, const environment& env,
                         server_actor_options options);
  ~parameter_server_state();
  interface::behavior_type make_behavior();
  void on_down(const caf::down_msg& msg) { member_.on_down(msg); }

private:
  enum timer : std::uint8_t { made_timer = 1, report_timer = 2 };
  using creation_promise = caf::typed_response_promise<creation_answer>;
  struct creation {
    std::pair<std::uint64_t, std::uint64_t> key{}; ///< the coordinator's nonce and number
    std::vector<variable_spec> specs{};
    std::vector<variable_id> dropped{}; ///< of those, meanwhile
    std::shared_ptr<shard_making> how{};
    std::vector<creation_promise> waiting{};
  };
  term_answer on_grant(grant_term& msg);
  caf::result<creation_answer> on_create(create_shards& msg);
  done_answer on_drop(drop_shards& msg);
  void on_settle(settle_closures& msg);
  done_answer on_take_snapshot(take_cut& msg);
  done_answer on_drop_snapshot(drop_cut& msg);
  server_statistics on_query(query_server& msg);
  void start_creation();
  void end_creation(failure why);
  void report_creations();
  void forget_creations(std::span<const variable_id> ids);
  void clear_store();
  void on_tick(const tick& msg);
  void learn_fences(const view& current);
  failure at_home(failure why) const;
  /// Empty when the sender is obeyed.
  std::optional<failure> check(const message_header& header);

  interface::pointer self_;
  const environment& env_;
  server_actor_options options_;
  std::deque<creation>
    creations_{}; ///< the first one is being made; bounded by the coordinator's open requests
  std::unique_ptr<thread_handle> maker_{};
  std::shared_ptr<failure> made_{};
  std::uint64_t made_bytes_ = 0; ///< by creations that have ended
  bool report_timer_set_ = false;
  member_client<interface> member_;
};

parameter_server_actor spawn_parameter_server(caf::actor_system& system, const environment& env,
                                              server_actor_options options);

} // namespace troupe
