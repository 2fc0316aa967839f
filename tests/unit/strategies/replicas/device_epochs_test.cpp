// Communicators of replicas. Goal: one a device for each epoch of the replicas' group, ended with
// it, whatever ends it; where the devices have none in common, all use the host. Method: made-up
// GPUs with faults on demand, which count what is asked of them.

#include "device_support.hpp"
#include "workers_support.hpp"

namespace {

using namespace replicas_test;

/// What each replica gets for its number plus one.
float sum_in(const mirrored_strategy& s) {
  return s
    .run([](replica_context& ctx) { return device_sum(ctx, static_cast<float>(id_of(ctx) + 1)); })
    .as_single();
}

TEST_CASE("SYNC-COL-J GPUs sum among themselves; with a CPU among them all sum on the host") {
  gpu_host host;
  {
    auto s = host.over({"gpu:0", "gpu:1"});
    CHECK(sum_in(s) == 3);
    CHECK(host.backend().calls("comm_all_reduce") == 2);
    CHECK(host.traced.events("replica.comm_on_host") == 0);
  }
  auto mixed = host.over({"gpu:0", "gpu:1", "cpu:0"});
  for (int i = 0; i < 3; ++i)
    CHECK(sum_in(mixed) == 6);
  auto ok = mixed.run([](replica_context& ctx) {
    auto& d = ctx.device();
    auto reducer = ctx.gradient_reducer({.op = reduce_op::mean, .bucket_bytes = 8});
    std::vector<device_tensor> gradients;
    for (int i = 0; i < 5; ++i) {
      gradients.push_back(d.put(vec<float>({static_cast<float>(id_of(ctx) * i), 3})));
      reducer.add(gradients.back());
    }
    reducer.finish();
    bool right = true;
    for (std::size_t i = 0; i < 5; ++i) {
      const auto got = d.get(gradients[i]);
      right = right && std::abs(got.as<float>()[0] - static_cast<float>(i)) < 1e-6f
              && std::abs(got.as<float>()[1] - 3) < 1e-6f;
    }
    const auto mine = uneven(id_of(ctx), 40);
    return right
           && same_bits(d.get(ctx.all_reduce(reduce_op::mean, d.put(mine))),
                        ctx.all_reduce(reduce_op::mean, mine));
  });
  for (bool each : ok)
    CHECK(each);
  CHECK(host.backend().calls("comm_all_reduce") == 2);
  CHECK(host.traced.events("replica.comm_on_host") == 3); // once an epoch
}

TEST_CASE("communicators are opened once an epoch, ended with it, and gone with the strategy") {
  gpu_host host;
  auto& backend = host.backend();
  {
    auto s = host.over({"gpu:0", "gpu:1"});
    CHECK(backend.calls("comm_open") == 0); // only when they are wanted
    for (int i = 0; i < 10; ++i)
      CHECK(sum_in(s) == 3);
    CHECK(backend.calls("comm_open") == 2);
    CHECK(backend.census().comms == 2);
    for (int epoch = 2; epoch < 5; ++epoch) {
      CHECK_THROWS_AS(s.run([](replica_context& ctx) {
        (void)device_sum(ctx, 1);
        if (id_of(ctx) == 0)
          throw std::runtime_error{"in the middle"};
        (void)device_sum(ctx, 1);
      }),
                      std::runtime_error);
      CHECK(comes_true([&] { return backend.census().comms == 0; }));
      CHECK(sum_in(s) == 3);
      CHECK(backend.calls("comm_open") == 2 * static_cast<std::uint64_t>(epoch));
    }
  }
  CHECK(comes_true([&] { return backend.census().comms == 0; }));
  host.rt = nullptr;
  CHECK(backend.census() == fake_census{});
}

TEST_CASE("an epoch that ends while gradients are on their way leaves no trace in the next") {
  gpu_host host;
  auto s = host.over({"gpu:0", "gpu:1"});
  for (int round = 0; round < 3; ++round) {
    CHECK_THROWS_AS(s.run([](replica_context& ctx) {
      auto& d = ctx.device();
      auto reducer = ctx.gradient_reducer({.bucket_bytes = 4});
      auto g = d.put(vec<float>({1}));
      if (id_of(ctx) == 0)
        reducer.add(g); // waits on its stream for the other's
      (void)ctx.all_reduce(reduce_op::sum, 1.0f);
    }),
                    error);
    auto ok = s.run([](replica_context& ctx) {
      auto& d = ctx.device();
      auto reducer = ctx.gradient_reducer({.bucket_bytes = 4});
      auto g = d.put(vec<float>({1, 2}));
      reducer.add(g);
      reducer.finish();
      return d.get(g) == vec<float>({2, 4});
    });
    CHECK(ok[0]);
    CHECK(ok[1]);
  }
}

TEST_CASE("work that hangs on one device ends the sum at the deadline, for all") {
  gpu_host host;
  auto s = host.over({"gpu:0", "gpu:1"}, {.collective_timeout = 300ms});
  CHECK(sum_in(s) == 3);
  host.backend().plant({.function = "execute:layer", .device = 1, .hang = true});
  auto why = failure_of([&] {
    s.run([](replica_context& ctx) {
      auto& d = ctx.device();
      d.enqueue(d.stream(), nothing("layer"));
      return device_sum(ctx, 1);
    });
  });
  names(why, errc::deadline, {"all_reduce sum on devices", "300 ms"});
  host.backend().release_hangs();
  CHECK(sum_in(s) == 3);
}

TEST_CASE("a device that is lost ends the others' sums; those that are left go on without it") {
  gpu_host host{3};
  {
    auto s = host.over({"gpu:0", "gpu:1", "gpu:2"});
    CHECK(sum_in(s) == 6);
    std::atomic<int> begun{0}, cancelled{0};
    auto why = failure_of([&] {
      s.run([&](replica_context& ctx) {
        if (id_of(ctx) == 1 && comes_true([&] { return begun == 2; })) {
          host.backend().lose(1);
          (void)device_sum(ctx, 1);
        }
        ++begun;
        auto other = failure_of([&] { (void)device_sum(ctx, 1); });
        cancelled += other.code == errc::cancelled ? 1 : 0;
        throw_failure(other);
      });
    });
    names(why, errc::device_lost, {"gpu:1"});
    CHECK(cancelled == 2);
    CHECK(comes_true([&] { return host.backend().census().comms == 0; }));
  }
  CHECK(sum_in(host.over({"gpu:0", "gpu:2"})) == 3);
}

TEST_CASE("without a key all go through the host; where one can't join, all are told") {
  gpu_host host;
  auto& backend = host.backend();
  {
    backend.plant({.function = "comm_get_unique_id",
                   .answer = {.status = device_status::invalid, .text = "no key today"}});
    auto s = host.over({"gpu:0", "gpu:1"});
    CHECK(sum_in(s) == 3);
    CHECK(backend.calls("comm_open") == 0);
    CHECK(host.traced.events("replica.comm_on_host") == 2);
  }
  auto s = host.over({"gpu:0", "gpu:1"});
  backend.plant({.function = "comm_open",
                 .device = 1,
                 .answer = {.status = device_status::invalid, .text = "not today"}});
  names(failure_of([&] { (void)sum_in(s); }), errc::collective_failed,
        {"replica 1", "all_reduce sum on devices", "gpu:1", "not today"});
  CHECK(comes_true([&] { return backend.census().comms == 0; }));
  CHECK(sum_in(s) == 3);
}

TEST_CASE("a communicator that breaks by itself fails the run, and the next has another") {
  gpu_host host;
  auto s = host.over({"gpu:0", "gpu:1"});
  CHECK(sum_in(s) == 3);
  host.backend().plant({.function = "comm_all_reduce",
                        .device = 0,
                        .answer = {.status = device_status::failed, .text = "remote error"},
                        .breaks = false});
  names(failure_of([&] { (void)sum_in(s); }), errc::collective_failed,
        {"replica 0", "gpu:0", "remote error"});
  CHECK(sum_in(s) == 3);
  CHECK(host.backend().calls("comm_open") == 4);
}

TEST_CASE("the first bucket is summed while later layers still compute") {
  gpu_host host;
  auto s = host.over({"gpu:0", "gpu:1"});
  host.backend().plant({.function = "execute:layer", .device = 0, .hang = true});
  host.backend().plant({.function = "execute:layer", .device = 1, .hang = true});
  std::atomic<int> summed{0};
  auto ok = s.run([&](replica_context& ctx) {
    auto& d = ctx.device();
    auto reducer = ctx.gradient_reducer({.bucket_bytes = 8});
    auto g = d.put(vec<float>({1, 2}));
    reducer.add(g);
    d.enqueue(d.stream(), nothing("layer")); // the next one, which does not end
    d.wait(d.record_event(d.stream("collectives")), 20s);
    const bool computes = !d.on()->passed(d.record_event(d.stream())).value_or_throw();
    if (++summed == 2)
      host.backend().release_hangs();
    reducer.finish();
    return computes && d.get(g) == vec<float>({2, 4});
  });
  CHECK(ok[0]);
  CHECK(ok[1]);
}

TEST_CASE(
  "SYNC-X9 two strategies on the same GPUs: one that breaks leaves the other's sums alone") {
  gpu_host host;
  std::thread breaks{[&] {
    auto s = host.over({"gpu:0", "gpu:1"});
    for (int i = 0; i < 20; ++i) {
      CHECK(sum_in(s) == 3);
      CHECK_THROWS_AS(s.run([](replica_context& ctx) {
        if (id_of(ctx) == 1)
          throw std::runtime_error{"on purpose"};
        (void)device_sum(ctx, 1);
      }),
                      std::runtime_error);
    }
  }};
  auto s = host.over({"gpu:0", "gpu:1"});
  for (int i = 0; i < 100; ++i)
    CHECK(sum_in(s) == 3);
  breaks.join();
}

// --- several processes of one host

/// What two workers' sums end with, each on its own view of a GPU.
struct two_views {
  std::array<failure, 2> why{};
  std::array<float, 2> sums{};
  std::array<std::uint64_t, 2> opened{}, on_host{};
};

two_views sum_over(std::array<std::uint64_t, 2> hardware, duration timeout) {
  const auto peers = free_addresses(2);
  two_views out;
  auto work = [&](std::uint32_t worker) {
    auto ports = make_production_ports();
    gpu_machine machine{{.devices = 1, .hardware = hardware.at(worker)},
                        make_asio_transport(ports->clock())};
    try {
      runtime rt{worker_options(peers, worker), machine.here()};
      multi_worker_mirrored_strategy s{rt,
                                       {.devices = std::vector<std::string>{"gpu:0"},
                                        .collective_timeout = timeout,
                                        .start_timeout = 20s}};
      s.run([&](replica_context& ctx) {
        out.sums.at(worker) = device_sum(ctx, static_cast<float>(worker + 1));
      });
    } catch (const error& e) {
      out.why.at(worker) = e.details();
    }
    out.opened.at(worker) = machine.backend().calls("comm_open");
    out.on_host.at(worker) = machine.traced.events("replica.comm_on_host");
  };
  std::thread other{work, 1};
  work(0);
  other.join();
  return out;
}

TEST_CASE(
  "one GPU that two processes of a host use is given no communicator: sums are the host's") {
  const auto got = sum_over({7, 7}, 20s);
  for (std::size_t worker : {0u, 1u}) {
    CAPTURE(worker);
    CHECK_MESSAGE(got.why.at(worker).code == errc::none, to_string(got.why.at(worker)));
    CHECK(got.sums.at(worker) == 3);
    CHECK(got.opened.at(worker) == 0);
    CHECK(got.on_host.at(worker) == 1);
  }
}

TEST_CASE("GPUs of two processes that are not one are given a communicator") {
  const auto got = sum_over({7, 8}, 300ms); // made-up ones meet in one process alone: nobody comes
  for (std::size_t worker : {0u, 1u}) {
    CAPTURE(worker);
    CHECK_MESSAGE(got.why.at(worker).code == errc::deadline, to_string(got.why.at(worker)));
    CHECK(got.opened.at(worker) == 1);
    CHECK(got.on_host.at(worker) == 0);
  }
}

} // namespace
