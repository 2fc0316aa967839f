#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include <caf/abstract_actor.hpp>
#include <caf/actor_control_block.hpp>
#include <caf/mailbox_element.hpp>
#include <caf/message.hpp>

#include <troupe/core/caf_compat.hpp>

/// Tools to carry messages between actor systems on a way of our own beside CAF's network layer,
/// and to run the actor that a message wakes on the thread that brought it: a hand-over to a
/// sleeping thread costs ten times what most handlers do.
namespace troupe {

/// Carries what is sent to a relay. Any thread; never waits.
class relay_way {
public:
  virtual ~relay_way() = default;
  /// `number`: of the request or its answer; 0 for a plain message. False: it can't go, and nobody
  /// will tell.
  virtual bool take(std::uint64_t number, caf::message& what) = 0;
};

/// Stands in this process for an actor of another one: what is sent to it goes to `way`, in the
/// order sent. A request that can't go comes back as an error. Holds `way`.
caf::strong_actor_ptr make_relay(caf::actor_system& system, std::shared_ptr<relay_way> way);

/// Whether `configure_system` made the configuration of `system`.
bool is_ours(const caf::actor_system& system);

/// Puts `what` in the mailbox of `at`. When nobody runs that actor, it handles its first few
/// messages right here and goes to the scheduler with the rest; a system that was not made by
/// `configure_system` (a simulator's) schedules it as ever. Actors that it wakes go to the
/// scheduler.
/// @pre the caller is no actor's handler and holds nothing that a handler may want.
void run_here(caf::abstract_actor& at, caf::mailbox_element_ptr what);

/// A message that a relay's other end sent: plain with `number` 0, else a request or an answer.
void deliver_here(const caf::strong_actor_ptr& to, caf::strong_actor_ptr from, std::uint64_t number,
                  caf::message what);

/// Whether `number`, from a peer, can be that of a request; of an answer.
bool is_request_number(std::uint64_t number);
bool is_answer_number(std::uint64_t number);

/// `tell_from_outside`, but see `run_here`.
template <class Handle, class T>
requires accepts<Handle, T>
void tell_here(const Handle& to, T x) {
  if (auto* at = caf::actor_cast<caf::abstract_actor*>(to))
    run_here(*at,
             caf::make_mailbox_element(nullptr, caf::make_message_id(), {}, box(std::move(x))));
}

} // namespace troupe
