// Steps on devices. Goal: a program lists devices, its steps run on theirs, and a device that is
// lost takes its worker along while others run the closures again, each effect once. Method: a
// runtime on this machine's ports with made-up GPUs.

#include <atomic>
#include <set>

#include <doctest/doctest.h>

#include "../../../support/gpu_machine.hpp"
#include "../parameter_server/cluster_support.hpp"

namespace {

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

runtime_options on_gpus() {
  runtime_options out;
  out.workers = 2;
  out.servers = 1;
  out.devices = {"gpu:0", "gpu:1"};
  return out;
}

std::string my_device(worker_context& ctx) { return to_string(ctx.device().id()); }
TROUPE_FUNCTION(my_device);

/// 2 x on the step's device, by streams and events of its own.
float doubled(worker_context& ctx, float x) {
  auto& d = ctx.device();
  auto on_device = d.put(tensor::scalar(x));
  const auto& other = d.stream("other");
  ctx.wait_event(other, d.record_event(d.stream()));
  on_device.used_on(other);
  auto ops = d.ops_on(other);
  d.check(ops.scale(2, on_device, on_device));
  auto e = d.record_event(other);
  ctx.wait_event(d.stream(), e);
  ctx.wait(e);
  return d.get(on_device).item<float>();
}
TROUPE_FUNCTION(doubled);

float add_on_device(worker_context& ctx, const variable& w) {
  auto& d = ctx.device();
  auto one = d.put(tensor::scalar(1.0f));
  auto e = ctx.submit(d.stream(),
                      {.name = "work", .run = [](const launch_site&) { return device_answer{}; }});
  ctx.wait(e);
  auto got = d.get(one);
  w.assign_add(got);
  return got.item<float>();
}
TROUPE_FUNCTION(add_on_device);

int too_much_memory(worker_context& ctx) {
  (void)ctx.device().empty(dtype::f32, {std::int64_t{1} << 40});
  return 0;
}
TROUPE_FUNCTION(too_much_memory);

TEST_CASE("devices: a program lists what there is, and uses one itself") {
  runtime rt{{.workers = 2, .cpu_devices = 3}};
  const auto all = rt.devices();
  REQUIRE(all.size() >= 3);
  for (std::uint32_t i = 0; i < 3; ++i)
    CHECK(all[i].id == device_id{device_kind::cpu, i});
  auto d = rt.device("cpu:1");
  CHECK(to_string(d->id()) == "cpu:1");
  CHECK(d->get(d->put(tensor::scalar(3.0f))).item<float>() == 3.0f);
  auto none = failure_of([&] { (void)rt.device("cpu:3"); });
  CHECK(none.code == errc::device_unavailable);
  CHECK(says(none, "cpu:3 does not exist"));
  CHECK(says(none, "cpu:0 cpu:1 cpu:2"));
  CHECK(failure_of([&] { (void)rt.device("tpu"); }).code == errc::invalid_argument);
}

TEST_CASE("devices: a GPU that is not there ends the start, saying why") {
  runtime_options options;
  options.devices = {"gpu:99"};
  auto why = failure_of([&] { runtime rt{options}; });
  CHECK(why.code == errc::device_unavailable);
  CHECK(says(why, "gpu:99 does not exist"));
}

TEST_CASE("devices: flags name them, and a wrong name is refused") {
  auto from = [](std::vector<std::string> words) {
    words.insert(words.begin(), "program");
    std::vector<char*> argv;
    for (auto& w : words)
      argv.push_back(w.data());
    return runtime::options_from_args(static_cast<int>(argv.size()), argv.data());
  };
  CHECK(from({"--troupe-device", "gpu:1", "--troupe-device", "cpu:0"}).devices
        == std::vector<std::string>{"gpu:1", "cpu:0"});
  auto why = failure_of([&] { (void)from({"--troupe-device", "gpu"}); });
  CHECK(why.code == errc::bad_config);
  CHECK(says(why, "--troupe-device is 'gpu', expected cpu:N or gpu:N"));
}

TEST_CASE("devices: steps run on the device of their thread, CPUs unless told") {
  small_cluster c;
  CHECK(c.coordinator.schedule(doubled, 21.0f).fetch() == 42.0f);
  auto name = c.coordinator.schedule(my_device).fetch();
  CHECK(name.starts_with("cpu:"));

  gpu_machine host{2, 0};
  {
    runtime rt{on_gpus(), host.here()};
    parameter_server_strategy strategy{rt};
    cluster_coordinator coordinator{strategy};
    CHECK(rt.devices().size() == 2);
    std::set<std::string> seen;
    for (int i = 0; i < 50; ++i)
      seen.insert(coordinator.schedule(my_device).fetch());
    CHECK(coordinator.schedule(doubled, 1.5f).fetch() == 3.0f);
    for (auto& each : seen)
      CHECK(each.starts_with("gpu:"));
  }
  CHECK(host.backend().census() == fake_census{});
}

TEST_CASE("devices: a step that asks for too much memory fails by itself, and nothing else does") {
  gpu_machine host{2, 0};
  runtime rt{on_gpus(), host.here()};
  parameter_server_strategy strategy{rt};
  cluster_coordinator coordinator{strategy};
  (void)coordinator.schedule(too_much_memory);
  auto why = failure_of([&] { coordinator.join(); });
  CHECK(says(why, "device_memory"));
  CHECK(says(why, "4398046511104 bytes requested"));
  CHECK(coordinator.schedule(doubled, 1.0f).fetch() == 2.0f);
}

TEST_CASE("devices: a lost device takes its worker along, and every closure has its effect once") {
  gpu_machine host{2, 0};
  std::atomic<int> left{0};
  {
    auto options = on_gpus();
    options.on_member = [&](const task_id& task, std::uint32_t, bool joined) {
      left += !joined && task.job == job_kind::worker ? 1 : 0;
    };
    runtime rt{options, host.here()};
    parameter_server_strategy strategy{rt};
    cluster_coordinator coordinator{strategy};
    auto w = strategy.create_variable({.name = "w", .initial = tensor::scalar(0.0f)});
    constexpr int n = 200;
    for (int i = 0; i < n; ++i) {
      (void)coordinator.schedule(add_on_device, w);
      if (i == n / 2)
        host.backend().lose(0);
    }
    coordinator.join();
    CHECK(w.read().item<float>() == static_cast<float>(n));
    // On a slow machine one may be taken for lost, and come back, before that.
    CHECK_MESSAGE(comes_true([&] { return left >= 1; }), left.load() << " workers left");
    CHECK(coordinator.schedule(my_device).fetch() == "gpu:1");
    CHECK(host.traced.events("worker.device_failed") == 1);
  }
  CHECK(host.traced.events("device.abandoned") == 1);
  CHECK(host.traced.events("device.closed") == 1);
}

TEST_CASE("devices: with the last worker's device gone, who waits is told instead of waiting on") {
  gpu_machine host{2, 0};
  runtime rt{on_gpus(), host.here()};
  parameter_server_strategy strategy{rt};
  cluster_coordinator coordinator{strategy};
  auto w = strategy.create_variable({.name = "w", .initial = tensor::scalar(0.0f)});
  for (int i = 0; i < 100; ++i)
    (void)coordinator.schedule(add_on_device, w);
  host.backend().lose(0);
  host.backend().lose(1);
  auto why = failure_of([&] { coordinator.join(60s); });
  CHECK(why.code == errc::device_lost);
  CHECK(says(why, "gpu:"));
  CHECK(says(why, "the last worker of this process left"));
  why = failure_of([&] { (void)coordinator.schedule(my_device); });
  CHECK(why.code == errc::device_lost);
}

TEST_CASE("devices: a closure that breaks every device ends those who wait for it") {
  gpu_machine host{2, 0};
  host.backend().plant({.function = "execute:work",
                        .device = 0,
                        .answer = {.status = device_status::launch_failed, .text = "bad"}});
  host.backend().plant({.function = "execute:work",
                        .device = 1,
                        .answer = {.status = device_status::launch_failed, .text = "bad"}});
  runtime rt{on_gpus(), host.here()};
  parameter_server_strategy strategy{rt};
  cluster_coordinator coordinator{strategy};
  auto w = strategy.create_variable({.name = "w", .initial = tensor::scalar(0.0f)});
  (void)coordinator.schedule(add_on_device, w);
  auto why = failure_of([&] { coordinator.join(60s); });
  CHECK(why.code == errc::launch_failed);
  CHECK(says(why, "'work'"));
}

TEST_CASE("devices: an operation that breaks its device is the worker's failure, not the step's") {
  gpu_machine host{2, 0};
  host.backend().plant({.function = "execute:work",
                        .device = 1,
                        .nth = 3,
                        .answer = {.status = device_status::launch_failed, .text = "bad address"}});
  runtime rt{on_gpus(), host.here()};
  parameter_server_strategy strategy{rt};
  cluster_coordinator coordinator{strategy};
  auto w = strategy.create_variable({.name = "w", .initial = tensor::scalar(0.0f)});
  for (int i = 0; i < 100; ++i)
    (void)coordinator.schedule(add_on_device, w);
  coordinator.join();
  CHECK(w.read().item<float>() == 100.0f);
}

} // namespace
