#include <troupe/core/promise.hpp>

#include <string>
#include <thread>

#include <doctest/doctest.h>

#include <troupe/core/production_ports.hpp>
#include <troupe/transport/memory_transport.hpp>

namespace {

using namespace troupe;
using namespace std::chrono_literals;

struct world {
  std::unique_ptr<production_ports> ports = make_production_ports();
  std::unique_ptr<data_transport> transport = make_memory_transport(ports->waits());
  environment env{ports->clock(),   ports->random(), ports->storage(),
                  ports->threads(), ports->waits(),  *transport};
};

} // namespace

TEST_CASE("a promise that was kept before the wait, and one that is kept during it") {
  world w;
  promise_slot<std::string> early{w.env};
  early.set(std::string{"there"});
  CHECK(*early.wait(never, "early") == "there");

  promise_slot<int> late{w.env};
  std::thread giver{[&] { late.set(5); }};
  CHECK(*late.wait(after(w.env.clock.now(), 20s), "late") == 5);
  giver.join();
}

TEST_CASE("a promise is kept once: what comes later is ignored") {
  world w;
  promise_slot<int> slot{w.env};
  slot.set(make_failure(errc::unavailable, "gone"));
  slot.set(5);
  auto got = slot.wait(never, "slot");
  REQUIRE_FALSE(got);
  CHECK(got.error().text == "gone");
}

TEST_CASE("a promise that is not kept in time is a deadline that names what was asked") {
  world w;
  promise_slot<int> slot{w.env};
  auto got = slot.wait(after(w.env.clock.now(), 1ms), "the answer");
  REQUIRE_FALSE(got);
  CHECK(got.error().code == errc::deadline);
  CHECK(got.error().text.find("the answer") != std::string::npos);
}
