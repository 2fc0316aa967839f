#include "network_script.hpp"

#include <chrono>
#include <set>

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>

#include <troupe/actors/membership/membership.hpp>
#include <troupe/core/promise.hpp>

#include "network_driver.hpp"
#include "network_service.hpp"

namespace compat {

using namespace troupe;
using namespace std::chrono_literals;

void script::listens(const std::string& name, address at) {
  std::lock_guard lock{mutex_};
  addresses_[name] = std::move(at);
}

script::address script::find(const std::string& name) const {
  std::lock_guard lock{mutex_};
  auto at = addresses_.find(name);
  return at == addresses_.end() ? address{} : at->second;
}

void script::outcome(std::string what, std::string how) {
  std::lock_guard lock{mutex_};
  outcomes_.emplace_back(std::move(what), std::move(how));
}

std::vector<std::pair<std::string, std::string>> script::outcomes() const {
  std::lock_guard lock{mutex_};
  return outcomes_;
}

namespace {

using ended = std::shared_ptr<promise_slot<bool>>;

template <class Actor>
ended end_of(const place& here, const Actor& actor) {
  auto out = std::make_shared<promise_slot<bool>>(here.env);
  actor->attach_functor([out] { out->set(true); });
  return out;
}

void wait(const place& here, const ended& what) {
  (void)what->wait(after(here.env.clock.now(), 5min), "script").value_or_throw();
}

/// Publishes an actor, and says where.
class publisher : public caf::event_based_actor {
public:
  publisher(caf::actor_config& cfg, caf::actor network, caf::actor what,
            std::shared_ptr<promise_slot<std::uint16_t>> port)
    : event_based_actor{cfg} {
    request(network, 10s, caf::publish_atom_v, std::uint16_t{0},
            caf::actor_cast<caf::strong_actor_ptr>(what), std::set<std::string>{}, std::string{},
            true)
      .then([port](std::uint16_t bound) { port->set(bound); },
            [port](caf::error&) { port->set(make_failure(errc::address_in_use, "publish")); });
  }

protected:
  caf::behavior make_behavior() override { return {}; }
};

std::uint16_t publish(const place& here, const caf::actor& what) {
  auto port = std::make_shared<promise_slot<std::uint16_t>>(here.env);
  auto one = here.system.spawn<publisher>(here.network, what, port);
  auto gone = end_of(here, one);
  auto out = port->wait(after(here.env.clock.now(), 20s), "publish").value_or_throw();
  caf::anon_send_exit(one, caf::exit_reason::user_shutdown);
  wait(here, gone);
  return out;
}

/// A service under `name`, until it has ended.
class served {
public:
  served(const place& here, script& shared, const std::string& name) : here_{here} {
    auto made = here.system.spawn<service>();
    gone_ = end_of(here, made);
    auto port = publish(here, made);
    shared.listens("nobody", {here.host, 1}); // no test machine listens there
    shared.listens(name, {here.host, port});
  }
  void wait_ended() { wait(here_, gone_); }

private:
  const place& here_;
  ended gone_{};
};

} // namespace

void run_beta(const place& here, script& shared) { served{here, shared, "beta"}.wait_ended(); }

void run_gamma(const place& here, script& shared) {
  auto gone = std::make_shared<promise_slot<bool>>(here.env);
  auto members = spawn_membership(
    here.system, here.env,
    {.core =
       {.cluster = "compat", .term = term_no{1}, .workers = 1, .servers = 0, .functions_hash = 0},
     .ended = gone});
  auto port = publish(here, caf::actor_cast<caf::actor>(members));
  shared.listens("membership", {here.host, port});
  served{here, shared, "gamma"}.wait_ended();
  tell_from_outside(members, end_cluster{.deadline_ms = 0});
  members = nullptr;
  wait(here, gone);
}

void run_alpha(const place& here, script& shared) {
  auto asking = here.system.spawn<driver>(here.network, std::ref(shared));
  auto gone = end_of(here, asking);
  asking = nullptr;
  wait(here, gone);
}

} // namespace compat
