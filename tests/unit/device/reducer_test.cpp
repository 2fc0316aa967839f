// Gradients summed bucket by bucket, and the perceptron that makes them. Method: two made-up GPUs,
// whose clock shows what runs beside what, and two CPU devices.

#include "support.hpp"

#include <thread>

#include <troupe/device/bucket_reducer.hpp>
#include <troupe/device/cpu_backend.hpp>
#include <troupe/device/mlp.hpp>
#include <troupe/kernels/mlp.hpp>

namespace {

using namespace device_test;

/// One member of a group of two.
struct member {
  std::shared_ptr<device> d;
  device_stream compute, reduce;
  device_comm comm;
};

std::vector<member> members_on(const environment& env,
                               const std::shared_ptr<device_backend>& backend) {
  auto how = quick();
  how.hang_after = 60s;
  std::vector<member> out(2);
  for (std::uint32_t i = 0; i < 2; ++i) {
    out[i].d = device::open(env, backend, i, how).value_or_throw();
    out[i].compute = out[i].d->make_stream("compute").value_or_throw();
    out[i].reduce = out[i].d->make_stream("reduce").value_or_throw();
  }
  auto key = out[0].d->comms().get_unique_id().value_or_throw();
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < 2; ++i)
    threads.emplace_back([&, i] {
      out[i].comm = out[i].d->comms().open(group_epoch{1}, key, 2, i, long_enough).value_or_throw();
    });
  for (auto& t : threads)
    t.join();
  return out;
}

void sums_in_buckets(const environment& env, const std::shared_ptr<device_backend>& backend,
                     bool bf16) {
  auto all = members_on(env, backend);
  const std::vector<std::size_t> sizes{1000, 1, 0, 300, 5000, 20, 30};
  std::vector<std::vector<device_tensor>> gradients(2);
  std::vector<std::unique_ptr<bucket_reducer>> reducers;
  for (std::size_t m = 0; m < 2; ++m) {
    reducers.push_back(std::make_unique<bucket_reducer>(
      all[m].d, all[m].comm, all[m].reduce,
      bucket_options{.bucket_bytes = 4096, .bf16 = bf16, .scale = 0.5f}));
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      tensor g{dtype::f32, {static_cast<std::int64_t>(sizes[i])}};
      for (std::size_t k = 0; k < sizes[i]; ++k)
        g.mutable_as<float>()[k] = static_cast<float>((m + 1) * (i + k % 7));
      gradients[m].push_back(
        device_tensor::from_host(all[m].d, all[m].compute, g).value_or_throw());
      REQUIRE(reducers[m]->add(gradients[m].back(), all[m].compute));
    }
  }
  std::vector<stream_event> events;
  for (std::size_t m = 0; m < 2; ++m)
    events.push_back(reducers[m]->finish(all[m].compute).value_or_throw());
  for (std::size_t m = 0; m < 2; ++m) {
    CHECK(reducers[m]->bucket_count() == 4); // 1000 + 1; 300; 5000; 20 + 30: each fits no more
    auto done = all[m].d->wait(events[m], long_enough);
    REQUIRE_MESSAGE(done, (done ? std::string{} : to_string(done.error())));
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      auto got = gradients[m][i].to_host(all[m].compute).value_or_throw();
      for (std::size_t k = 0; k < sizes[i]; ++k) // small integers: exact in bf16 too
        REQUIRE(got.as<float>()[k] == 1.5f * static_cast<float>(i + k % 7));
    }
  }
  events.clear();
  gradients.clear();
  reducers.clear();
  for (auto& m : all)
    CHECK(m.d->close(5s));
}

TEST_CASE("reducer: gradients of two devices become their mean, bucket by bucket") {
  fixture f{{.devices = 2}};
  sums_in_buckets(f.env(), f.backend, false);
  sums_in_buckets(f.env(), f.backend, true);
  CHECK(f.backend->census() == fake_census{});
}

TEST_CASE("reducer: the same on CPU devices, through the in-process reduction") {
  fixture f;
  sums_in_buckets(f.env(), make_cpu_backend(f.env(), {.devices = 2}), false);
  sums_in_buckets(f.env(), make_cpu_backend(f.env(), {.devices = 2}), true);
}

TEST_CASE("reducer: the first bucket is summed while later layers still compute") {
  fixture f{{.devices = 2}};
  auto all = members_on(f.env(), f.backend);
  f.backend->plant({.function = "execute:layer", .device = 0, .hang = true});
  std::vector<device_tensor> first;
  std::vector<std::unique_ptr<bucket_reducer>> reducers;
  for (auto& m : all) {
    reducers.push_back(
      std::make_unique<bucket_reducer>(m.d, m.comm, m.reduce, bucket_options{.bucket_bytes = 8}));
    first.push_back(
      device_tensor::from_host(m.d, m.compute, tensor::vector<float>({1, 2})).value_or_throw());
    REQUIRE(reducers.back()->add(first.back(), m.compute));
    REQUIRE(m.d->enqueue(m.compute, nothing("layer"))); // the next layer, which does not end
  }
  auto summed = all[0].d->record_event(all[0].reduce).value_or_throw();
  CHECK(all[0].d->wait(summed, long_enough));
  CHECK(
    !all[0].d->passed(all[0].d->record_event(all[0].compute).value_or_throw()).value_or_throw());
  f.backend->release_hangs();
  for (std::size_t i = 0; i < 2; ++i)
    CHECK(first[i].to_host(all[i].compute).value_or_throw() == tensor::vector<float>({2, 4}));
  first.clear();
  reducers.clear();
  for (auto& m : all)
    CHECK(m.d->close(5s));
}

TEST_CASE("reducer: a member that is lost ends the sum with its epoch") {
  fixture f{{.devices = 2}};
  auto all = members_on(f.env(), f.backend);
  bucket_reducer reducer{all[0].d, all[0].comm, all[0].reduce};
  auto g = device_tensor::from_host(all[0].d, all[0].compute, tensor::vector<float>({1, 2}))
             .value_or_throw();
  REQUIRE(reducer.add(g, all[0].compute));
  auto e = reducer.finish(all[0].compute).value_or_throw();
  f.backend->lose(1);
  all[0].d->comms().revoke(group_epoch{1}, "gpu:1 is lost");
  names(failure_of(all[0].d->wait(e, long_enough)), errc::revoked, {"gpu:0", "gpu:1 is lost"});
  REQUIRE(reducer.add(g, all[0].compute)); // waits for its bucket to be full
  names(failure_of(reducer.finish(all[0].compute)), errc::revoked, {"gpu:1 is lost"});
  CHECK(!all[1].d->close(1s));
  CHECK(all[0].d->close(5s));
}

TEST_CASE("mlp: a device's loss and gradients are the CPU kernels'") {
  fixture f{{.operation = 0ns}};
  auto how = quick();
  how.hang_after = 60s;
  const std::vector<std::int64_t> widths{20, 16, 5};
  const std::vector<std::size_t> sizes{20, 16, 5};
  for (auto& d : {device::open(f.env(), f.backend, 0, how).value_or_throw(),
                  device::open(f.env(), make_cpu_backend(f.env()), 0, how).value_or_throw()}) {
    auto ctx = device_context::make(d).value_or_throw();
    {
      device_mlp mlp{*ctx, widths};
      auto weights = mlp.make_weights(), gradients = mlp.make_weights();
      std::vector<tensor> host;
      for (std::size_t i = 0; i < weights.size(); ++i) {
        tensor w{dtype::f32, weights[i].shape()};
        for (std::size_t k = 0; auto& x : w.mutable_as<float>())
          x = static_cast<float>(static_cast<int>((k++ * 37 + i * 11) % 41) - 20) / 40.0f;
        for (std::int64_t row = 0; row < w.rows(); row += 3) // in blocks, as servers hold them
          mlp.put_rows(weights, i, row, w.rows(row, std::min<std::int64_t>(row + 3, w.rows())));
        host.push_back(std::move(w));
      }
      tensor x{dtype::f32, {7, 20}}, labels{dtype::i64, {7}};
      for (std::size_t k = 0; auto& each : x.mutable_as<float>())
        each = static_cast<float>(k++ % 13) / 13.0f;
      for (std::int64_t k = 0; auto& each : labels.mutable_as<std::int64_t>())
        each = k++ % 5;
      std::vector<std::size_t> order;
      auto got = mlp.gradients(weights, ctx->put(x), ctx->put(labels), gradients,
                               [&](std::size_t layer) { order.push_back(layer); });
      CHECK(order == std::vector<std::size_t>{1, 0});
      kernels::mlp_workspace<float> workspace{sizes, 7};
      std::vector<std::span<const float>> w;
      std::vector<tensor> expected;
      std::vector<std::span<float>> g;
      for (auto& each : host) {
        w.push_back(std::as_const(each).as<float>());
        expected.emplace_back(dtype::f32, each.shape());
      }
      for (auto& each : expected)
        g.push_back(each.mutable_as<float>());
      const auto right = kernels::mlp_gradients<float, std::int64_t>(
        w, std::as_const(x).as<float>(), std::as_const(labels).as<std::int64_t>(), workspace, g);
      CHECK(ctx->get(got.loss).item<double>() == doctest::Approx(right.loss));
      CHECK(ctx->get(got.correct).item<std::int64_t>() == static_cast<std::int64_t>(right.correct));
      for (std::size_t i = 0; i < expected.size(); ++i)
        CHECK(ctx->get(gradients[i]) == expected[i]);
      auto seen = mlp.evaluate(weights, ctx->put(x), ctx->put(labels));
      CHECK(ctx->get(seen.loss).item<double>() == doctest::Approx(right.loss));
      CHECK_THROWS_WITH_AS(mlp.put_rows(weights, 0, 19, host[0]), doctest::Contains("weight 0"),
                           error);
    }
    ctx = nullptr;
    CHECK(d->close(5s));
  }
}

} // namespace
