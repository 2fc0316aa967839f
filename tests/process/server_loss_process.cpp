// Parameter servers that die: without a second copy what they held is gone, and everyone is told by
// name, in bounded time.
#include <doctest/doctest.h>

#include "../support/scratch_folder.hpp"
#include "counting_cluster.hpp"

namespace {

/// What a call on a dead server may say: that it is not there, by its name.
void check_names_server(const tr::error& e, const std::string& server) {
  CHECK((e.code() == tr::errc::unavailable || e.code() == tr::errc::connection_lost
         || e.code() == tr::errc::connect_failed || e.code() == tr::errc::unknown_variable));
  CHECK(std::string{e.what()}.find(server) != std::string::npos);
  // "closed by the peer" told nobody what to do now
  CHECK_MESSAGE(std::string{e.what()}.find("restore() the last checkpoint") != std::string::npos,
                e.what());
}

template <class F>
void check_raises(const std::string& server, F call) {
  try {
    call();
    FAIL("the server is gone");
  } catch (const tr::error& e) {
    check_names_server(e, server);
  }
}

} // namespace

TEST_CASE("PS-P1, PS-P6, T-F14: a killed parameter server is a named error, in bounded time") {
  fixture f{1, 2};
  f.coordinator.schedule(count_step, f.counter);
  f.coordinator.join();
  f.cluster.server(0).signal(SIGKILL);
  f.cluster.server(0).wait();
  try {
    for (int i = 0; i < 3; ++i)
      f.coordinator.schedule(count_step, f.counter);
    f.coordinator.join(std::chrono::seconds{60});
    FAIL("the counter's server is gone");
  } catch (const tr::error& e) {
    CHECK((e.code() == tr::errc::unavailable || e.code() == tr::errc::connection_lost
           || e.code() == tr::errc::connect_failed));
    CHECK(std::string{e.what()}.find("ps:0") != std::string::npos);
  }
}

TEST_CASE("PS-P8, T-F7: the program's own reads and writes on a dead server raise to the caller") {
  fixture f{1, 2};
  f.cluster.server(0).signal(SIGKILL);
  f.cluster.server(0).wait();
  check_raises("ps:0", [&] { f.counter.read(); });
  check_raises("ps:0", [&] { f.counter.assign(tr::tensor::scalar(1.0f)); });
  CHECK_NOTHROW(f.coordinator.join(std::chrono::seconds{5})); // outside the closures' error channel
}

TEST_CASE("PS-P3: a server that is started again at once is noticed: its values are gone") {
  fixture f{1, 2};
  f.counter.assign(tr::tensor::scalar(7.0f));
  f.cluster.server(0).signal(SIGKILL);
  f.cluster.server(0).wait();
  auto again = f.cluster.start({.role = "ps:0"});
  CHECK_THROWS_AS(
    [&] {
      f.coordinator.schedule(count_step, f.counter);
      f.coordinator.join(std::chrono::seconds{60});
    }(),
    tr::error);
}

TEST_CASE(
  "T-F15: with all servers dead, a step on each worker fails with an error that names one") {
  fixture f{2, 2};
  for (std::size_t i : {0, 1}) {
    f.cluster.server(i).signal(SIGKILL);
    f.cluster.server(i).wait();
  }
  for (std::uint32_t worker : {0u, 1u})
    check_raises("ps:", [&] {
      f.coordinator.schedule(tr::closure_options{.worker = worker}, count_step, f.counter);
      f.coordinator.join(std::chrono::seconds{60});
    });
}

TEST_CASE("PS-P4, T-F10: a worker and a server killed at once: join raises, in bounded time") {
  fixture f{1, 2};
  shared_page::get().hold = true;
  for (int i = 0; i < 10; ++i)
    f.coordinator.schedule(held_step, f.counter);
  REQUIRE(eventually([] { return shared_page::get().entered > 0; }));
  f.cluster.server(0).signal(SIGKILL);
  f.cluster.restart_worker(0);
  shared_page::get().hold = false;
  check_raises("ps:0", [&] { f.coordinator.join(std::chrono::seconds{60}); });
}

TEST_CASE(
  "PS-P7: after a server's loss a new run restores the last checkpoint, and only later work is "
  "lost") {
  const scratch_folder folder;
  const auto directory = folder / "checkpoints";
  {
    fixture f{1, 2};
    for (int i = 0; i < 3; ++i)
      f.coordinator.schedule(count_step, f.counter);
    f.coordinator.join();
    f.coordinator.save(directory);
    f.coordinator.schedule(count_step, f.counter);
    f.coordinator.join();
    f.cluster.server(0).signal(SIGKILL);
  }
  fixture g{1, 2};
  g.coordinator.restore(directory);
  CHECK(g.count() == 3);
}

TEST_CASE("a save without one of the servers is refused by name, and the work goes on") {
  const scratch_folder folder;
  const auto directory = folder / "checkpoints";
  fixture f{1, 2};
  f.cluster.server(1).signal(SIGKILL);
  f.cluster.server(1).wait();
  REQUIRE(eventually([&] {
    try {
      return f.coordinator.statistics().servers.size() == 1;
    } catch (const tr::error&) { // asked while it died
      return false;
    }
  }));
  CHECK_THROWS_AS(f.coordinator.save(directory, {.deadline = std::chrono::seconds{30}}), tr::error);
  f.coordinator.schedule(count_step, f.counter); // on the server that lives
  f.coordinator.join(std::chrono::seconds{30});
  CHECK(f.count() == 1);
}
