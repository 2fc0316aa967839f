#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include <caf/actor_cast.hpp>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/mailbox_element.hpp>
#include <caf/typed_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <troupe/core/environment.hpp>

/// The only file that knows CAF's version. Everything here is written so that actors read as on
/// CAF 1.x.
#if CAF_VERSION < 1700 || CAF_VERSION >= 1800
#error "Troupe supports CAF 0.17 only; see core/caf_compat.hpp"
#endif

namespace troupe {

// --- signatures
// -------------------------------------------------------------------------------------------------

namespace detail {
template <class>
struct signature_of;
template <class R, class... Ts>
struct signature_of<R(Ts...)> {
  using type = typename caf::replies_to<Ts...>::template with<R>;
};
template <class... Ts>
struct signature_of<void(Ts...)> {
  using type = typename caf::reacts_to<Ts...>;
};
} // namespace detail

/// `signature<reply(request)>`, `signature<void(event)>`: a handler in a typed interface, spelled
/// as in CAF 1.x.
template <class F>
using signature = typename detail::signature_of<F>::type;

// --- actors from state classes
// ----------------------------------------------------------------------------------

/// Runs a state class (`interface`, `name`, `make_behavior()`, optional `on_down(const
/// caf::down_msg&)`) as an actor. Unknown messages are dropped; errors that others send back are
/// ignored, because CAF answers a dropped message with an error to its sender, whose built-in
/// handler would end it. Exit messages are obeyed only from this system: any peer may send one. The
/// state goes in `on_exit`, and with it its handles and promises; the event `actor.ended` then
/// tells how many messages it took, if the first argument is an environment.
template <class State>
class state_holder final : public State::interface::base {
public:
  using base = typename State::interface::base;

  template <class... Ts>
  explicit state_holder(caf::actor_config& cfg, Ts&&... xs)
    : base(cfg), env_{environment_in(xs...)} {
    this->set_default_handler(caf::drop);
    this->set_error_handler([](caf::scheduled_actor*, caf::error&) {});
    this->set_exit_handler([this](caf::exit_msg& msg) {
      if (msg.source.node() == this->node() && msg.reason)
        this->quit(std::move(msg.reason));
    });
    if constexpr (requires(State & s, caf::down_msg & msg) { s.on_down(msg); })
      this->set_down_handler([this](caf::down_msg& msg) {
        if (state_)
          state_->on_down(msg);
      });
    else
      this->set_down_handler([](caf::down_msg&) {});
    state_.emplace(static_cast<base*>(this), std::forward<Ts>(xs)...);
  }
  const char* name() const override {
    return State::name;
  } // also called after on_exit(): never through state_
  using base::consume;
  caf::invoke_message_result consume(caf::mailbox_element& x) override {
    ++taken_;
    return base::consume(x);
  }
  void on_exit() override {
    if (env_)
      trace(*env_, "actor.ended", {{"actor", State::name}, {"messages", taken_}});
    state_.reset();
  }

protected:
  typename base::behavior_type make_behavior() override { return state_->make_behavior(); }

private:
  template <class... Ts>
  static const environment* environment_in(const std::reference_wrapper<const environment>& env,
                                           const Ts&...) {
    return &env.get();
  }
  template <class... Ts>
  static const environment* environment_in(const Ts&...) {
    return nullptr;
  }

  const environment* env_;
  std::uint64_t taken_ = 0;
  std::optional<State> state_;
};

/// References go through std::ref.
template <class State, class... Ts>
typename State::interface spawn_state(caf::actor_system& host, Ts&&... xs) {
  return caf::actor_cast<typename State::interface>(
    host.spawn<state_holder<State>>(std::forward<Ts>(xs)...));
}

// --- messages
// ---------------------------------------------------------------------------------------------------

/// Boxes a message struct. Declared here, instantiated once per type in messages/registration.cpp:
/// that is where the compile time of CAF's message types goes.
template <class T>
caf::message box(T x);

template <class Handle, class T>
concept accepts = caf::response_type<typename Handle::signatures, std::decay_t<T>>::valid;

/// Sends `x` where no answer is wanted; checked against the interface at compile time.
template <class Self, class Handle, class T>
requires accepts<Handle, T>
void tell(Self* self, const Handle& to, T x) {
  if (auto* at = caf::actor_cast<caf::abstract_actor*>(to))
    at->enqueue(
      caf::make_mailbox_element(self->ctrl(), caf::make_message_id(), {}, box(std::move(x))),
      self->context());
}

/// `tell` from outside any actor: user threads and compute threads.
template <class Handle, class T>
requires accepts<Handle, T>
void tell_from_outside(const Handle& to, T x) {
  if (auto* at = caf::actor_cast<caf::abstract_actor*>(to))
    at->enqueue(caf::make_mailbox_element(nullptr, caf::make_message_id(), {}, box(std::move(x))),
                nullptr);
}

/// Sends `x` to `to` after `delay`.
template <class Self, class Handle, class T>
requires accepts<Handle, T>
void tell_after(Self* self, const Handle& to, std::chrono::milliseconds delay, T x) {
  auto at = self->clock().now() + delay;
  self->clock().schedule_message(
    at, caf::actor_cast<caf::strong_actor_ptr>(to),
    caf::make_mailbox_element(self->ctrl(), caf::make_message_id(), {}, box(std::move(x))));
}

/// The typed handle of the running actor itself.
template <class Interface>
Interface self_handle(typename Interface::pointer self) {
  return caf::actor_cast<Interface>(self->ctrl());
}

/// Asks and goes on in `on_value(reply&)` or `on_error(const std::string&)`, on the asking actor.
template <class Self, class Handle, class T, class OnValue, class OnError>
requires accepts<Handle, T>
void ask(Self* self, const Handle& to, std::chrono::milliseconds timeout, T x, OnValue on_value,
         OnError on_error) {
  using reply = caf::detail::tl_head_t<
    typename caf::response_type<typename Handle::signatures, std::decay_t<T>>::type>;
  auto& system = self->system();
  self->request(caf::actor_cast<caf::actor>(to), timeout, box(std::move(x)))
    .then([f = std::move(on_value)](reply& y) mutable { f(y); },
          [f = std::move(on_error), &system](caf::error& e) mutable { f(system.render(e)); });
}

/// In-process parts of a message (a promise, a tensor that is handed over): nothing of it crosses
/// to another process.
template <class T>
struct local_only {
  std::shared_ptr<T> value{};
  template <class Inspector>
  friend typename Inspector::result_type inspect(Inspector& f, local_only& x) {
    if constexpr (Inspector::writes_state)
      x.value = nullptr; // whatever a default constructor put there
    return f();
  }
};

// --- the system
// -------------------------------------------------------------------------------------------------

/// Adds message types to a configuration: `init_messages` (messages/registration.hpp) adds
/// Troupe's.
using message_registrar = void (*)(caf::actor_system_config&);

/// Makes `config` fit for Troupe: the types that `messages` adds, and scheduler defaults; with
/// `network` also CAF's middleman (added by the caller through `load_network`) and a node id of
/// random bits. CAF's own id hashes MACs and the pid, which repeat in containers, and a stale proxy
/// then reaches the wrong actor.
void configure_system(caf::actor_system_config& config, message_registrar messages);
void load_network(caf::actor_system_config& config);

/// CAF's network layer as an actor that speaks the protocol of `caf::io::middleman_actor`; null
/// when it isn't loaded.
caf::actor network_of(caf::actor_system& system);

} // namespace troupe
