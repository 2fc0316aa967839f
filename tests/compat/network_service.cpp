#include "network_service.hpp"

#include <chrono>
#include <string>
#include <utility>

#include <caf/actor_cast.hpp>
#include <caf/exit_reason.hpp>
#include <caf/sec.hpp>
#include <caf/send.hpp>

namespace compat {

using namespace std::chrono_literals;

child::child(caf::actor_config& cfg) : event_based_actor{cfg} {
  set_default_handler(caf::drop);
  set_error_handler([](caf::scheduled_actor*, caf::error&) {});
}

caf::behavior child::make_behavior() {
  return {
    [this](const std::string& what) {
      if (what == "quit")
        quit(caf::exit_reason::user_shutdown);
      else if (what == "fail")
        quit(caf::exit_reason::unhandled_exception);
    },
    [this](const std::string& what, const caf::actor& to) {
      for (std::int32_t i = 1; i <= 3; ++i)
        send(to, what, i);
      quit(caf::exit_reason::user_shutdown);
    },
    [](std::int32_t x) { return x + 1; },
  };
}

service::service(caf::actor_config& cfg) : event_based_actor{cfg} {
  set_default_handler(caf::drop);
  set_exit_handler(
    [](caf::exit_msg&) {}); // of its children, which end with it and not it with them
  set_error_handler([](caf::scheduled_actor*, caf::error&) {});
}

/// Its children end with it, and not it with them: no links.
void service::on_exit() {
  for (auto& c : std::exchange(children_, {}))
    caf::anon_send_exit(c, caf::exit_reason::user_shutdown);
  kept_.clear();
}

caf::result<std::string> service::on_word(const std::string& what) {
  if (what == "log")
    return std::exchange(log_, {});
  if (what == "silent") {
    kept_.push_back(make_response_promise());
    return kept_.back();
  }
  if (what == "broken") {
    auto promise = make_response_promise<std::string>();
    return promise; // and nobody keeps it
  }
  if (what == "refused")
    return caf::make_error(caf::sec::invalid_argument);
  if (what == "anonymous")
    log_ += current_sender() ? "sender " : "no sender ";
  if (what == "quit")
    quit(caf::exit_reason::user_shutdown);
  return std::string{};
}

caf::behavior service::make_behavior() {
  return {
    [this](const std::string& what) { return on_word(what); },
    [this](std::int32_t x) { log_ += std::to_string(x) + " "; },
    [](const std::string& what, std::int32_t x) { return what == "twice" ? 2 * x : 0; },
    [this](const std::string&, std::int32_t, std::int32_t) -> caf::actor {
      children_.push_back(spawn<child>());
      return children_.back();
    },
    [this](const std::string&, const caf::actor& to) { send(to, std::string{"from beta"}); },
    [this](const std::string&, std::int32_t x, const caf::actor& to) {
      delegate(to, std::string{"twice"}, x);
    },
    [this](const std::string&, const caf::actor& to, std::int32_t x) -> caf::result<std::int32_t> {
      auto promise = make_response_promise<std::int32_t>();
      request(to, 5s, std::string{"twice"}, x)
        .then([promise](std::int32_t y) mutable { promise.deliver(y); },
              [promise](caf::error& why) mutable { promise.deliver(std::move(why)); });
      return promise;
    },
    [](const std::string&, const std::string& bytes) {
      return static_cast<std::int32_t>(bytes.size());
    },
  };
}

} // namespace compat
