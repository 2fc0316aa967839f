// The data plane of a process. Goal: it can be dialled as soon as it is there, and never after it
// ended. Method: a memory transport.
#include <doctest/doctest.h>

#include <troupe/actors/server/data_server.hpp>

#include "served_fixture.hpp"

using namespace parameter_test;

namespace {

struct serving {
  world w{};
  environment env = w.env();
  variables vars{1, &w.tracer};

  result<std::unique_ptr<data_server>> start(const std::string& address) {
    return data_server::start(env, {.address = address, .cluster = "test", .store = vars.stores[0]},
                              "data.0");
  }
  data_peer peer(const std::string& address, const incarnation& receiver = {}) {
    return {.address = address,
            .cluster = "test",
            .self = worker(),
            .receiver = receiver,
            .term = static_cast<term_no>(1)};
  }
  result<std::unique_ptr<data_session>> dial(const data_peer& to) {
    return data_session::open(env, to, w.in(std::chrono::seconds{20}));
  }
};

} // namespace

TEST_CASE("data server: it serves where it says, and stops as often as it is asked") {
  serving s;
  auto server = s.start("ps0:0").value_or_throw();
  CHECK_FALSE(server->address().empty());
  CHECK(s.dial(s.peer(server->address())));
  server->stop();
  server->stop();
  CHECK_FALSE(s.dial(s.peer(server->address())));
}

TEST_CASE("data server: its incarnation and its fences reach those who dial") {
  serving s;
  auto server = s.start("ps0:0").value_or_throw();
  server->set_incarnation({3, 30});
  CHECK(s.dial(s.peer(server->address(), {3, 30})));
  const auto earlier = s.dial(s.peer(server->address(), {2, 20}));
  REQUIRE_FALSE(earlier);
  CHECK(earlier.error().code == errc::unavailable);
  server->fence(worker().task, worker().inc.counter);
  const auto fenced = s.dial(s.peer(server->address(), {3, 30}));
  REQUIRE_FALSE(fenced);
  CHECK(fenced.error().code == errc::fenced);
}

TEST_CASE("data server: an address that is taken is refused, and leaves no server behind") {
  serving s;
  const auto first = s.start("ps0:7").value_or_throw();
  const auto second = s.start("ps0:7");
  REQUIRE_FALSE(second);
  CHECK(second.error().code == errc::address_in_use);
  CHECK(s.dial(s.peer(first->address())));
}
