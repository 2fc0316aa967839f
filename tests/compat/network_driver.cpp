#include "network_driver.hpp"

#include <chrono>
#include <set>

#include <caf/actor_cast.hpp>
#include <caf/exit_reason.hpp>
#include <caf/sec.hpp>
#include <caf/send.hpp>

#include <troupe/core/caf_compat.hpp>
#include <troupe/messages/interfaces.hpp>
#include <troupe/messages/membership.hpp>

namespace compat {

using namespace std::chrono_literals;

namespace {

constexpr auto step_limit = 20s;

/// Forwards what reaches it to the driver, exits too: "exit REASON".
class helper : public caf::event_based_actor {
public:
  helper(caf::actor_config& cfg, caf::actor to) : event_based_actor{cfg}, to_{std::move(to)} {
    set_default_handler(caf::drop);
    set_exit_handler([this](caf::exit_msg& msg) {
      send(to_, std::string{"heard"}, "exit " + system().render(msg.reason));
      if (msg.source == to_.address())
        quit(msg.reason);
    });
  }
  const char* name() const override { return "compat.helper"; }
  void on_exit() override { to_ = nullptr; }

protected:
  caf::behavior make_behavior() override {
    return {
      [this](const std::string& what) { send(to_, std::string{"heard"}, what); },
      [this](const std::string& what, const caf::actor& to) {
        if (what == "link")
          link_to(to);
        else
          unlink_from(to);
        return true;
      },
    };
  }

private:
  caf::actor to_;
};

} // namespace

driver::driver(caf::actor_config& cfg, caf::actor network, script& shared)
  : event_based_actor{cfg}, network_{std::move(network)}, shared_{shared} {
  set_default_handler(caf::drop);
  set_error_handler([](caf::scheduled_actor*, caf::error&) {});
  set_down_handler([this](caf::down_msg& msg) {
    if (on_down_)
      on_down_(text(msg.reason));
  });
}

void driver::on_exit() {
  steps_.clear();
  on_heard_ = {};
  on_down_ = {};
  for (auto* handle : {&network_, &beta_, &gamma_, &membership_, &child_, &helper_})
    *handle = nullptr;
}

std::string driver::text(const caf::error& why) { return system().render(why); }

caf::behavior driver::make_behavior() {
  helper_ = spawn<helper, caf::linked>(caf::actor_cast<caf::actor>(this));
  add_messages();
  add_handles();
  add_ends();
  add_connections();
  add_membership();
  add_goodbye();
  wait_for_the_others();
  return {
    [this](caf::tick_atom) { wait_for_the_others(); },
    [this](caf::tick_atom, std::uint64_t step_no) {
      if (step_no == step_no_)
        done("no end");
    },
    [this](caf::ok_atom, std::uint64_t step_no) {
      if (step_no == step_no_ && on_heard_)
        on_heard_();
    },
    [this](const std::string&, std::int32_t x) { heard_ += std::to_string(x) + " "; },
    [this](const std::string&, const std::string& what) {
      heard_ += what;
      if (on_heard_)
        on_heard_();
    },
  };
}

/// Until all listen; then the script begins.
void driver::wait_for_the_others() {
  for (const char* who : {"beta", "gamma", "membership"})
    if (shared_.find(who).port == 0)
      return delayed_send(this, 10ms, caf::tick_atom_v);
  find("beta", [this](caf::actor b) {
    beta_ = std::move(b);
    find("gamma", [this](caf::actor g) {
      gamma_ = std::move(g);
      find("membership", [this](caf::actor m) {
        membership_ = std::move(m);
        next();
      });
    });
  });
}

void driver::find(const std::string& who, std::function<void(caf::actor)> then) {
  auto at = shared_.find(who);
  request(network_, 5s, caf::connect_atom_v, at.host, at.port)
    .then([then](const caf::node_id&, const caf::strong_actor_ptr& found,
                 const std::set<std::string>&) { then(caf::actor_cast<caf::actor>(found)); },
          [this, who](caf::error& why) {
            shared_.outcome("connect to " + who, text(why));
            quit();
          });
}

void driver::next() {
  heard_.clear();
  on_heard_ = {};
  on_down_ = {};
  ++step_no_;
  if (at_ == steps_.size())
    return quit(caf::exit_reason::user_shutdown);
  waiting_ = true;
  delayed_send(this, step_limit, caf::tick_atom_v, step_no_);
  steps_[at_].second();
}

void driver::done(const std::string& how) {
  if (!std::exchange(waiting_, false))
    return;
  shared_.outcome(steps_[at_++].first, how);
  next();
}

template <class T, class... Ts>
void driver::ask(const caf::actor& to, Ts... xs) {
  request(to, 10s, std::move(xs)...)
    .then(
      [this](const T& y) {
        if constexpr (std::is_same_v<T, std::string>)
          done(y);
        else
          done(std::to_string(y));
      },
      [this](caf::error& why) { done("error " + text(why)); });
}

template <class... Ts>
void driver::with_child(std::function<void(caf::actor)> then) {
  request(beta_, 10s, std::string{"child"}, std::int32_t{0}, std::int32_t{0})
    .then([then](const caf::actor& c) { then(c); },
          [this](caf::error& why) { done("no child: " + text(why)); });
}

// --- messages

void driver::add_messages() {
  add("a request is answered", [this] { ask<std::int32_t>(beta_, std::string{"twice"}, 21); });
  add("plain messages keep their order", [this] {
    for (std::int32_t i = 1; i <= 50; ++i)
      send(beta_, i);
    ask<std::string>(beta_, std::string{"log"});
  });
  add("an error is an answer", [this] { ask<std::string>(beta_, std::string{"refused"}); });
  add("a question that nobody answers ends in time", [this] {
    request(beta_, 100ms, std::string{"silent"})
      .then([this](const std::string&) { done("an answer"); },
            [this](caf::error& why) { done(text(why)); });
  });
  add("a promise that is dropped is never answered", [this] {
    request(beta_, 100ms, std::string{"broken"})
      .then([this](const std::string&) { done("an answer"); },
            [this](caf::error& why) { done(text(why)); });
  });
  add("a question that nobody understands is an error", [this] { ask<std::string>(beta_, 1.5); });
  add("a plain message that nobody understands is no harm", [this] {
    send(beta_, 1.5);
    ask<std::int32_t>(beta_, std::string{"twice"}, 4);
  });
  add("an anonymous message has no sender", [this] {
    caf::anon_send(beta_, std::string{"anonymous"});
    delayed_send(this, 300ms, caf::ok_atom_v, step_no_);
    on_heard_ = [this] { ask<std::string>(beta_, std::string{"log"}); };
  });
  add("a large message arrives whole",
      [this] { ask<std::int32_t>(beta_, std::string{"size"}, std::string(200'000, 'x')); });
  add("delayed messages come in the order of their times", [this] {
    delayed_send(beta_, 200ms, std::int32_t{2});
    delayed_send(beta_, 20ms, std::int32_t{1});
    delayed_send(this, 500ms, caf::ok_atom_v, step_no_);
    on_heard_ = [this] { ask<std::string>(beta_, std::string{"log"}); };
  });
}

// --- handles inside messages

void driver::add_handles() {
  add("a handle in a message can be talked to", [this] {
    on_heard_ = [this] { done(heard_); };
    send(beta_, std::string{"tell"}, helper_);
  });
  add("a third party can be asked",
      [this] { ask<std::int32_t>(beta_, std::string{"call"}, gamma_, std::int32_t{20}); });
  add("a third party answers what was delegated", [this] {
    request(beta_, 10s, std::string{"delegate"}, std::int32_t{30}, gamma_)
      .then(
        [this](std::int32_t y) {
          bool third = current_sender() && current_sender()->node() == gamma_->node();
          done(std::to_string(y) + (third ? " from gamma" : " from another"));
        },
        [this](caf::error& why) { done("error " + text(why)); });
  });
  add("a handle that came back is the one that went", [this] {
    with_child([this](caf::actor c) {
      child_ = std::move(c);
      ask<std::int32_t>(child_, std::int32_t{41});
    });
  });
}

// --- ends

void driver::add_ends() {
  add("the end of a monitored actor is told with its reason", [this] {
    monitor(child_);
    on_down_ = [this](const std::string& why) { done(why); };
    send(child_, std::string{"quit"});
  });
  add("a monitor on what has ended is told too", [this] {
    monitor(child_);
    on_down_ = [this](const std::string& why) { done(why); };
  });
  add("a question to what is known to have ended is never answered", [this] {
    request(child_, 100ms, std::int32_t{1})
      .then([this](std::int32_t) { done("an answer"); },
            [this](caf::error& why) { done(text(why)); });
  });
  add("a question to what is ending comes back", [this] {
    with_child([this](const caf::actor& c) {
      send(c, std::string{"quit"});
      request(c, 5s, std::int32_t{1}) // the reason depends on how far it has come
        .then([this](std::int32_t) { done("an answer"); },
              [this](caf::error& why) {
                done(why == caf::sec::request_timeout ? "too late" : "an error in time");
              });
    });
  });
  add("a plain message to what has ended is no harm", [this] {
    send(child_, std::int32_t{1});
    ask<std::int32_t>(beta_, std::string{"twice"}, 8);
  });
  add("what was sent before the end comes before it", [this] {
    with_child([this](const caf::actor& c) {
      monitor(c);
      on_down_ = [this](const std::string& why) { done(heard_ + why); };
      send(c, std::string{"burst"}, caf::actor_cast<caf::actor>(this));
    });
  });
  add("a monitor that was taken back hears nothing", [this] {
    with_child([this](const caf::actor& c) {
      monitor(c);
      demonitor(c);
      on_down_ = [this](const std::string& why) { done("down " + why); };
      send(c, std::string{"quit"});
      delayed_send(this, 300ms, caf::ok_atom_v, step_no_);
      on_heard_ = [this] { done("nothing"); };
    });
  });
  add("an exit message ends a remote actor", [this] {
    with_child([this](const caf::actor& c) {
      monitor(c);
      on_down_ = [this](const std::string& why) { done(why); };
      send_exit(c, caf::exit_reason::user_shutdown);
    });
  });
  add("a kill ends a remote actor", [this] {
    with_child([this](const caf::actor& c) {
      monitor(c);
      on_down_ = [this](const std::string& why) { done(why); };
      send_exit(c, caf::exit_reason::kill);
    });
  });
  add("a link carries the reason over", [this] {
    with_child([this](const caf::actor& c) {
      on_heard_ = [this] { done(heard_); };
      request(helper_, 1s, std::string{"link"}, c).then([this, c](bool) {
        send(c, std::string{"quit"});
      });
    });
  });
}

// --- connections

void driver::add_connections() {
  add("two connections to a port reach the same actor", [this] {
    find("beta", [this](const caf::actor& again) { done(again == beta_ ? "same" : "another"); });
  });
  add("where nobody listens, connecting fails", [this] {
    auto at = shared_.find("nobody");
    request(network_, 5s, caf::connect_atom_v, at.host, at.port)
      .then([this](const caf::node_id&, const caf::strong_actor_ptr&,
                   const std::set<std::string>&) { done("connected"); },
            [this](caf::error& why) { // CAF adds where to the code
              done(why == caf::sec::cannot_connect_to_node ? "cannot connect" : text(why));
            });
  });
}

// --- membership: production's own refusals

void driver::hello_of(std::uint64_t nonce, const std::string& cluster,
                      std::function<void(std::string)> then) {
  troupe::hello msg;
  msg.cluster = cluster;
  msg.task = {.job = troupe::job_kind::worker, .index = 0};
  msg.nonce = nonce;
  troupe::ask(
    this, caf::actor_cast<troupe::membership_actor>(membership_), 10s, std::move(msg),
    [then](troupe::hello_answer& answer) {
      if (answer.why.code == troupe::errc::none)
        then("incarnation " + std::to_string(answer.inc.counter));
      else
        then(std::string{to_string(answer.why.code)});
    },
    [then](const std::string& why) { then("error " + why); });
}

void driver::add_membership() {
  auto say = [this](const std::string& how) { done(how); };
  add("a member is admitted", [this, say] { hello_of(7, "compat", say); });
  add("the same hello again is the same member", [this, say] { hello_of(7, "compat", say); });
  add("another cluster's member is refused", [this, say] { hello_of(9, "other", say); });
  add("a silent member's task goes to another", [this, say] { hello_of(8, "compat", say); });
  add("a fenced incarnation is refused", [this, say] { hello_of(7, "compat", say); });
}

// --- the end of a process

void driver::add_goodbye() {
  add("actors of a process that ends are down", [this] {
    monitor(beta_);
    on_down_ = [this](const std::string& why) { done(why); };
    send(beta_, std::string{"quit"});
  });
  add("a question to a process that has ended is never answered", [this] {
    delayed_send(this, 500ms, caf::ok_atom_v, step_no_);
    on_heard_ = [this] {
      request(beta_, 100ms, std::string{"twice"}, std::int32_t{1})
        .then([this](std::int32_t) { done("an answer"); },
              [this](caf::error& why) { done(text(why)); });
    };
  });
  add("the others go on", [this] { ask<std::int32_t>(gamma_, std::string{"twice"}, 50); });
  add("the last one ends too", [this] {
    monitor(gamma_);
    on_down_ = [this](const std::string& why) { done(why); };
    send(gamma_, std::string{"quit"});
  });
}

} // namespace compat
