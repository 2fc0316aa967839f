// Real processes that die, stop, come back, or don't belong: the W, D and F rows of the
// specification.
#include <doctest/doctest.h>

#include <algorithm>

#include <troupe/core/production_ports.hpp>
#include <troupe/transport/asio_transport.hpp>

#include "../support/scratch_folder.hpp"
#include "counting_cluster.hpp"

TEST_CASE("PS-W1, T-F2: a worker restarted between two batches leaves the count exact") {
  fixture f{1};
  for (int i = 0; i < 2; ++i)
    f.coordinator.schedule(count_step, f.counter);
  f.coordinator.join();
  CHECK(f.count() == 2);
  f.cluster.restart_worker(0);
  for (int i = 0; i < 2; ++i)
    f.coordinator.schedule(count_step, f.counter);
  f.coordinator.join(std::chrono::seconds{30});
  CHECK(f.count() == 4);
  CHECK(f.cluster.end() == 2);
}

TEST_CASE("PS-W2: a worker killed while running leaves the count exact") {
  fixture f{1};
  shared_page::get().hold = true;
  for (int i = 0; i < 4; ++i)
    f.coordinator.schedule(held_step, f.counter);
  REQUIRE(eventually([] { return shared_page::get().entered > 0; }));
  f.cluster.restart_worker(0);
  shared_page::get().hold = false;
  f.coordinator.join(std::chrono::seconds{30});
  CHECK(f.count() == 4);
}

TEST_CASE("PS-W3, PS-W8, T-F16: with one of two workers dead for good, join still completes") {
  fixture f{2};
  shared_page::get().hold = true;
  for (int i = 0; i < 10; ++i)
    f.coordinator.schedule(held_step, f.counter);
  REQUIRE(eventually([] { return shared_page::get().entered > 1; }));
  f.cluster.worker(0).signal(SIGKILL);
  shared_page::get().hold = false;
  f.coordinator.join(std::chrono::seconds{30});
  CHECK(f.count() == 10);
}

TEST_CASE("PS-W4, T-F8: two workers killed and restarted together lose and double nothing") {
  fixture f{2};
  shared_page::get().hold = true;
  for (int i = 0; i < 10; ++i)
    f.coordinator.schedule(held_step, f.counter);
  REQUIRE(eventually([] { return shared_page::get().entered > 1; }));
  f.cluster.worker(0).signal(SIGKILL);
  f.cluster.worker(1).signal(SIGKILL);
  f.cluster.restart_worker(0);
  f.cluster.restart_worker(1);
  shared_page::get().hold = false;
  f.coordinator.join(std::chrono::seconds{30});
  CHECK(f.count() == 10);
}

TEST_CASE("PS-W5: the same worker killed and restarted twice loses and doubles nothing") {
  fixture f{1};
  shared_page::get().hold = true;
  for (int i = 0; i < 10; ++i)
    f.coordinator.schedule(held_step, f.counter);
  for (int round = 1; round <= 2; ++round) {
    REQUIRE(eventually([&] { return shared_page::get().entered >= round; }));
    f.cluster.restart_worker(0);
  }
  shared_page::get().hold = false;
  f.coordinator.join(std::chrono::seconds{30});
  CHECK(f.count() == 10);
}

TEST_CASE(
  "PS-W6, PS-W18: closures wait while the only worker is down, done() is false, and they run when "
  "it is back") {
  fixture f{1};
  f.cluster.worker(0).signal(SIGKILL);
  f.cluster.worker(0).wait();
  for (int i = 0; i < 3; ++i)
    f.coordinator.schedule(count_step, f.counter);
  CHECK_FALSE(f.coordinator.done());
  CHECK_THROWS_AS(f.coordinator.join(std::chrono::milliseconds{200}), tr::error);
  f.cluster.restart_worker(0);
  f.coordinator.join(std::chrono::seconds{30});
  CHECK(f.coordinator.done());
  CHECK(f.count() == 3);
}

TEST_CASE(
  "PS-W12, PS-L8, T-F5: resources are rebuilt when their worker returns, iterators from the "
  "beginning") {
  fixture f{1};
  auto data = f.coordinator.create_per_worker_dataset([] { return tr::dataset::range(100); });
  auto it = data.iterator();
  auto next = [](tr::worker_context&, tr::dataset_iterator& i) {
    return i.next().item<std::int64_t>();
  };
  CHECK(f.coordinator.schedule(next, it).fetch() == 0);
  CHECK(f.coordinator.schedule(next, it).fetch() == 1);
  f.cluster.restart_worker(0);
  CHECK(f.coordinator.schedule(next, it).fetch() == 0);
}

TEST_CASE(
  "PS-D4, PS-D11, PS-D12, T-F11, T-F12: a fetched and an unfetched result outlive every worker") {
  fixture f{1};
  auto first = f.coordinator.schedule(pair_step, 1.0f);
  CHECK(first.fetch() == std::pair{1.0f, -1.0f});
  auto second = f.coordinator.schedule(pair_step, 2.0f);
  f.coordinator.join();
  f.cluster.worker(0).signal(SIGKILL);
  f.cluster.worker(0).wait();
  CHECK(first.fetch() == std::pair{1.0f, -1.0f});
  CHECK(second.fetch() == std::pair{2.0f, -2.0f});
}

TEST_CASE("PS-W19, T-F13: reading a variable while a worker is killed and restarted never fails") {
  fixture f{1};
  for (int round = 0; round < 3; ++round) {
    f.cluster.restart_worker(0);
    for (int i = 0; i < 60; ++i)
      CHECK_NOTHROW(f.counter.read());
  }
  f.coordinator.schedule(count_step, f.counter);
  f.coordinator.join(std::chrono::seconds{30});
  CHECK(f.count() == 1);
}

TEST_CASE(
  "a worker that is stopped is fenced, its closures run elsewhere, and it rejoins as a new "
  "incarnation") {
  tr::runtime_options options;
  fixture f{2, 1, options};
  shared_page::get().hold = true;
  for (int i = 0; i < 6; ++i)
    f.coordinator.schedule(held_step, f.counter);
  REQUIRE(eventually([] { return shared_page::get().entered > 1; }));
  f.cluster.worker(0).signal(SIGSTOP);
  shared_page::get().hold = false;
  f.coordinator.join(std::chrono::seconds{60}); // silence fences it: nobody waits for it
  CHECK(f.count() == 6);
  CHECK(f.coordinator.statistics().fenced == 1);
  f.cluster.worker(0).signal(SIGCONT);
  CHECK(eventually([&] {
    auto lines = f.coordinator.workers();
    return std::ranges::any_of(lines, [](auto& l) { return l.worker == 0 && l.incarnation == 2; });
  }));
  tr::closure_options there{.worker = 0};
  CHECK(f.coordinator.schedule(there, where_step).fetch() == 0);
  CHECK(f.count() == 6); // what it still had in hand when it woke changed nothing
  CHECK(f.cluster.end() == 3);
}

TEST_CASE("arguments and results over 16 KiB travel as blobs, bit for bit") {
  fixture f{1};
  tr::tensor x{tr::dtype::f32, {512, 100}};
  float n = 0;
  for (auto& v : x.mutable_as<float>())
    v = n++;
  auto y = f.coordinator.schedule(large_step, x).fetch();
  REQUIRE(y.shape() == x.shape());
  CHECK(y.as<float>()[0] == 1.0f);
  CHECK(y.as<float>()[51'199] == 51'200.0f);
}

TEST_CASE("PS-Y1: a checkpoint taken over processes restores over processes") {
  const scratch_folder folder;
  const auto directory = folder / "checkpoints";
  {
    fixture f{1, 2};
    f.counter.assign(tr::tensor::scalar(41.0f));
    f.coordinator.save(directory);
    CHECK(f.cluster.end() == 3);
  }
  fixture g{1, 1};
  g.coordinator.restore(directory);
  CHECK(g.count() == 41.0f);
  g.coordinator.schedule(count_step, g.counter);
  g.coordinator.join();
  CHECK(g.count() == 42.0f);
}

TEST_CASE("a peer with another function table is told the first function that differs") {
  fixture f{1};
  auto stranger =
    f.cluster.start({.role = "worker:1", .more = {{"TROUPE_TEST_EXTRA_FUNCTION", "1"}}});
  REQUIRE(stranger->wait_ended(patience));
  CHECK(stranger->code() == 77);
  f.coordinator.schedule(count_step, f.counter);
  f.coordinator.join(std::chrono::seconds{20});
  CHECK(f.count() == 1);
}

TEST_CASE("a peer of another cluster, or without the token, is refused; the cluster goes on") {
  tr::runtime_options options;
  fixture f{1, 1, options};
  auto stranger =
    f.cluster.start({.role = "worker:1", .more = {{"TROUPE_TEST_CLUSTER", "another"}}});
  REQUIRE(stranger->wait_ended(patience));
  CHECK(stranger->code() == 77);
  f.coordinator.schedule(count_step, f.counter);
  f.coordinator.join(std::chrono::seconds{20});
}

TEST_CASE("a second process for a live task is refused as taken") {
  fixture f{1};
  auto second = f.cluster.start({.role = "worker:0"});
  REQUIRE(second->wait_ended(patience));
  CHECK(second->code() == 77);
  f.coordinator.schedule(count_step, f.counter);
  f.coordinator.join(std::chrono::seconds{20});
  CHECK(f.count() == 1);
}

TEST_CASE("an address in use is an error that names it") {
  fixture f{1};
  auto ports = tr::make_production_ports();
  auto transport = tr::make_asio_transport(ports->clock());
  auto held = transport->listen("127.0.0.1:0").value_or_throw();
  auto second =
    f.cluster.start({.role = "worker:1", .more = {{"TROUPE_TEST_LISTEN", held->address()}}});
  REQUIRE(second->wait_ended(patience));
  CHECK(second->code() == 69);
  tr::runtime_options options;
  options.task = tr::task_id{.job = tr::job_kind::chief, .index = 0};
  options.coordinator_address = f.cluster.address();
  try {
    tr::runtime other{options};
    FAIL("the address is in use");
  } catch (const tr::error& e) {
    CHECK(e.code() == tr::errc::address_in_use);
    CHECK(std::string{e.what()}.find(f.cluster.address()) != std::string::npos);
    CHECK(std::string{e.what()}.find("free again within a minute") != std::string::npos);
  }
}

TEST_CASE("PS-J1: workers and servers end by themselves when no coordinator comes back") {
  setenv("TROUPE_TEST_LOST_MS", "1500", 1);
  shared_page::get();
  std::unique_ptr<child> worker;
  {
    auto f = std::make_unique<fixture>(1u);
    worker = f->cluster.start({.role = "worker:1"});
    REQUIRE(eventually([&] { return f->coordinator.workers().size() == 2; }));
    f.reset(); // an orderly end: everyone is told
  }
  CHECK(worker->wait_ended(patience));
  CHECK(worker->code() == 0);
  unsetenv("TROUPE_TEST_LOST_MS");
  // nobody at the address at all: given up after the deadline, with an error
  auto lonely = std::make_unique<child>(role_options{
    .role = "worker:0", .coordinator = "127.0.0.1:9", .more = {{"TROUPE_TEST_LOST_MS", "1000"}}});
  CHECK(lonely->wait_ended(patience));
  CHECK(lonely->code() == 69);
}

TEST_CASE("PS-W9, PS-W10: a worker that returned works while another is still missing") {
  fixture f{2};
  for (std::size_t i : {0, 1}) {
    f.cluster.worker(i).signal(SIGKILL);
    f.cluster.worker(i).wait();
  }
  f.cluster.restart_worker(1);
  for (int i = 0; i < 4; ++i)
    f.coordinator.schedule(count_step, f.counter);
  f.coordinator.join(std::chrono::seconds{30});
  CHECK(f.count() == 4);
}

TEST_CASE("PS-W15: a worker that died and came back before anyone looked is a new incarnation") {
  fixture f{1};
  auto it =
    f.coordinator.create_per_worker_dataset([] { return tr::dataset::range(100); }).iterator();
  CHECK(f.coordinator.schedule(next_step, it).fetch() == 0);
  f.cluster.restart_worker(0);
  CHECK(f.coordinator.schedule(next_step, it).fetch() == 0); // its own iterator, built anew
  auto lines = f.coordinator.workers();
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].incarnation == 2);
}

TEST_CASE(
  "PS-W16, PS-W13: resources made while the worker is dead, and while it dies again, are built on "
  "its return") {
  fixture f{1};
  f.cluster.worker(0).signal(SIGKILL);
  f.cluster.worker(0).wait();
  auto it =
    f.coordinator.create_per_worker_dataset([] { return tr::dataset::range(5, 100); }).iterator();
  f.cluster.restart_worker(0);
  f.cluster.restart_worker(0); // killed again, most likely while it joins or builds
  CHECK(f.coordinator.schedule(next_step, it).fetch() == 5);
}

TEST_CASE("PS-W17, T-F5: iterators rebuilt three times during an outage give no error") {
  fixture f{1};
  auto data =
    f.coordinator.create_per_worker_dataset([] { return tr::dataset::range(100).repeat(); });
  auto it = data.iterator();
  f.cluster.worker(0).signal(SIGKILL);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 3; ++i)
      f.coordinator.schedule(next_and_count_step, it, f.counter);
    if (round == 1)
      f.cluster.restart_worker(0);
    it = data.iterator();
  }
  f.coordinator.join(std::chrono::seconds{30});
  CHECK(f.count() == 9);
}

TEST_CASE(
  "PS-W7, T-F4: a failing step, a long one and a restart: raised once, and the next batch works") {
  fixture f{1};
  for (int i = 0; i < 3; ++i)
    f.coordinator.schedule(count_step, f.counter);
  f.coordinator.schedule(failing_step);
  REQUIRE(eventually([&] { return !f.coordinator.errors().empty(); }));
  CHECK_THROWS_AS(f.coordinator.join(std::chrono::seconds{30}), tr::error);
  shared_page::get().hold = true;
  auto held = f.coordinator.schedule(held_step, f.counter);
  REQUIRE(eventually([] { return shared_page::get().entered > 0; }));
  f.coordinator.schedule(failing_step);
  f.cluster.restart_worker(0); // the held one runs again, then the failing one
  shared_page::get().hold = false;
  CHECK_THROWS_AS(f.coordinator.join(std::chrono::seconds{30}), tr::error);
  auto before = f.count();
  for (int i = 0; i < 3; ++i)
    f.coordinator.schedule(count_step, f.counter);
  f.coordinator.join(std::chrono::seconds{30});
  CHECK(f.count() == before + 3);
}
