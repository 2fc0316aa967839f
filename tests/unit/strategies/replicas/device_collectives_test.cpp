// Collectives of device tensors. Goal: values, bits, types and errors are the host's, whether they
// stay on the devices or go through the host, and gradients are summed in buckets. Method: replicas
// on CPU devices of this process, and of several workers.

#include "device_support.hpp"
#include "workers_support.hpp"

namespace {

using namespace replicas_test;

TEST_CASE("sums and means of device tensors have the bits of the host's") {
  for (std::uint32_t n : {1u, 2u, 3u, 4u}) {
    auto s = mirrored_over(n);
    auto right = s.run([](replica_context& ctx) {
      auto& d = ctx.device();
      bool all = true;
      for (auto op : {reduce_op::sum, reduce_op::mean}) {
        const auto mine = uneven(id_of(ctx), 1000);
        const auto on_device = d.put(mine);
        const auto got = ctx.all_reduce(op, on_device);
        all = all && got.on() == d.on() && same_bits(d.get(got), ctx.all_reduce(op, mine));
        all = all && same_bits(d.get(on_device), mine); // the argument stays
      }
      return all;
    });
    for (bool each : right)
      CHECK_MESSAGE(each, n << " replicas");
  }
}

/// Whether `op` of device tensors is `op` of the same in host memory.
bool as_on_host(replica_context& ctx, const reduction& op, const tensor& x,
                const collective_options& options = {}) {
  auto& d = ctx.device();
  return same_bits(d.get(ctx.all_reduce(op, d.put(x), options)), ctx.all_reduce(op, x, options));
}

TEST_CASE("all operators and types give what they give in host memory") {
  const user_reduction twice{"twice", [](std::byte* into, const std::byte* with, std::size_t n) {
                               for (std::size_t i = 0; i < n; ++i)
                                 reinterpret_cast<float*>(into)[i] +=
                                   2 * reinterpret_cast<const float*>(with)[i];
                             }};
  auto right = mirrored_over(3).run([&](replica_context& ctx) {
    const auto k = static_cast<int>(id_of(ctx)) + 2;
    tensor half{dtype::bf16, {3}};
    for (auto& each : half.mutable_bytes())
      each = std::byte{0x3f};
    std::vector<bool> out;
    for (auto op : {reduce_op::min, reduce_op::max, reduce_op::prod})
      out.push_back(as_on_host(ctx, op, uneven(k, 50)));
    for (auto op : {reduce_op::sum, reduce_op::mean, reduce_op::max})
      out.push_back(as_on_host(ctx, op, vec<std::int32_t>({k, -k, 7})));
    for (auto op : {reduce_op::sum, reduce_op::mean})
      out.push_back(as_on_host(ctx, op, half));
    out.push_back(as_on_host(ctx, reduction{twice}, uneven(k, 50)));
    out.push_back(
      as_on_host(ctx, reduce_op::sum, uneven(k, 50), {.wire = kernels::encoding::bf16}));
    out.push_back(as_on_host(ctx, reduce_op::sum, tensor{dtype::f32, {0, 4}}));
    auto& d = ctx.device();
    out.push_back(ctx.all_reduce(reduce_op::mean, d.put(vec<int>({1}))).type() == dtype::f64);
    return out;
  });
  for (const auto& each : right)
    CHECK(each == std::vector<bool>(12, true));
}

TEST_CASE("gathers and broadcasts of device tensors end on the replica's device") {
  for (std::uint32_t n : {1u, 3u}) {
    auto s = mirrored_over(n);
    auto ok = s.run([n](replica_context& ctx) {
      auto& d = ctx.device();
      const auto mine = uneven(id_of(ctx), 2 * (id_of(ctx) + 1)).reshaped({id_of(ctx) + 1, 2});
      const auto all = ctx.all_gather(d.put(mine), 0);
      const auto last = ctx.broadcast(d.put(uneven(id_of(ctx), 5)), n - 1);
      return std::vector<bool>{all.on() == d.on(), d.get(all) == ctx.all_gather(mine, 0),
                               last.on() == d.on(), same_bits(d.get(last), uneven(n - 1, 5))};
    });
    for (const auto& each : ok)
      CHECK(each == std::vector<bool>(4, true));
  }
}

TEST_CASE("tensors of no device, or of another's, are refused before anything is sent") {
  auto s = mirrored_over(2);
  auto sums = s.run([](replica_context& ctx) {
    auto other = shared_runtime().device(id_of(ctx) == 0 ? "cpu:1" : "cpu:0");
    const auto there = other->put(tensor::scalar(1.0f));
    const auto me = "replica " + std::to_string(id_of(ctx));
    names(failure_of([&] { (void)ctx.all_reduce(reduce_op::sum, there); }), errc::invalid_argument,
          {"all_reduce", me.c_str(), "cpu:0", "cpu:1"});
    names(failure_of([&] { (void)ctx.all_gather(there); }), errc::invalid_argument, {"all_gather"});
    names(failure_of([&] { (void)ctx.broadcast(device_tensor{}); }), errc::invalid_argument,
          {"broadcast", "no value"});
    auto reducer = ctx.gradient_reducer();
    names(failure_of([&] { reducer.add(there); }), errc::invalid_argument, {"gradient_reducer"});
    names(failure_of([&] { reducer.add(ctx.device().put(vec<int>({1}))); }), errc::dtype_mismatch,
          {"gradient_reducer", "i32"});
    names(failure_of([&] { (void)ctx.gradient_reducer({.op = reduce_op::max}); }),
          errc::invalid_argument, {"gradient_reducer", "max"});
    return device_sum(ctx, 1);
  });
  CHECK(sums.as_single() == 2);
}

TEST_CASE("SYNC-ARD-12 a device tensor where others have a host tensor is a mismatch") {
  auto s = mirrored_over(2);
  for (int first : {0, 1}) {
    auto why = failure_of([&] {
      s.run([first](replica_context& ctx) {
        if (id_of(ctx) == first)
          (void)ctx.all_reduce(reduce_op::sum, vec<float>({1, 2}));
        else
          (void)ctx.all_reduce(reduce_op::sum, ctx.device().put(vec<float>({1, 2})));
      });
    });
    names(why, errc::mismatch,
          {"replica 0", "replica 1", "all_reduce sum f32[2]", "all_reduce sum on devices f32[2]"});
    auto shapes = failure_of([&] {
      s.run([](replica_context& ctx) {
        (void)ctx.all_reduce(reduce_op::sum, ctx.device().put(uneven(0, 2 + id_of(ctx))));
      });
    });
    names(shapes, errc::mismatch, {"on devices f32[2]", "on devices f32[3]"});
    CHECK(s.run([](replica_context& ctx) { return device_sum(ctx, 3); }).as_single() == 6);
  }
}

TEST_CASE("a replica that throws ends the others' sums, and the next run sums again") {
  auto s = mirrored_over(3);
  for (int round = 0; round < 5; ++round) {
    std::atomic<int> cancelled{0}, summed{0};
    CHECK_THROWS_WITH_AS(s.run([&](replica_context& ctx) {
      (void)device_sum(ctx, 1);
      ++summed;
      if (id_of(ctx) == 1 && comes_true([&] { return summed == 3; }))
        throw std::runtime_error{"in the middle"};
      auto why = failure_of([&] { (void)device_sum(ctx, 1); });
      cancelled += why.code == errc::cancelled ? 1 : 0;
      throw_failure(why);
    }),
                         "in the middle", std::runtime_error);
    CHECK(cancelled == 2);
    CHECK(s.run([](replica_context& ctx) { return device_sum(ctx, 2); }).as_single() == 6);
  }
}

TEST_CASE("who does not come to a sum on devices is named after the deadline") {
  auto s = mirrored_over(2, {.collective_timeout = 200ms});
  CHECK(s.run([](replica_context& ctx) { return device_sum(ctx, 1); }).as_single() == 2);
  for (bool gradients : {false, true}) {
    std::atomic<bool> over{false};
    auto why = failure_of([&] {
      s.run([&, gradients](replica_context& ctx) {
        if (id_of(ctx) == 1)
          return (void)comes_true([&] { return over.load(); });
        auto late = failure_of([&] {
          auto reducer = ctx.gradient_reducer();
          if (gradients)
            reducer.add(ctx.device().put(vec<float>({1})));
          if (gradients)
            reducer.finish();
          else
            (void)device_sum(ctx, 1);
        });
        over = true;
        throw_failure(late);
      });
    });
    names(why, errc::deadline,
          {"replica 0", gradients ? "finish_gradients sum on devices" : "all_reduce sum on devices",
           "200 ms", "waits for {1}"});
    CHECK(s.run([](replica_context& ctx) { return device_sum(ctx, 1); }).as_single() == 2);
  }
}

TEST_CASE("a replica that is left behind keeps its streams, and the next has others") {
  auto s = mirrored_over(2, {.grace_ms = 50});
  static std::atomic<bool> begun{false}, go{false}, gone{false};
  CHECK_THROWS_AS(s.run([](replica_context& ctx) {
    (void)device_sum(ctx, 1);
    if (id_of(ctx) == 0 && comes_true([] { return begun.load(); }))
      throw std::runtime_error{"first"};
    auto mine = ctx.device().put(tensor::scalar(7.0f));
    begun = true;
    while (!go)
      std::this_thread::yield();
    gone = ctx.device().get(mine).item<float>() == 7;
  }),
                  std::runtime_error);
  for (int i = 0; i < 20; ++i)
    CHECK(s.run([](replica_context& ctx) { return device_sum(ctx, 1); }).as_single() == 2);
  go = true;
  CHECK(comes_true([] { return gone.load(); }));
}

TEST_CASE("a replica that first asks for its device when it was left behind gets none") {
  auto s = mirrored_over(2, {.grace_ms = 50});
  static std::atomic<bool> begun{false}, go{false}, gone{false};
  static failure told;
  CHECK_THROWS_AS(s.run([](replica_context& ctx) {
    if (id_of(ctx) == 0 && comes_true([] { return begun.load(); }))
      throw std::runtime_error{"first"};
    begun = true;
    while (!go)
      std::this_thread::yield();
    told = failure_of([&] { (void)ctx.device(); });
    gone = true;
  }),
                  std::runtime_error);
  const device_context* successors = nullptr;
  s.run([&](replica_context& ctx) {
    (void)device_sum(ctx, 1);
    if (id_of(ctx) == 1)
      successors = &ctx.device();
  });
  go = true;
  REQUIRE(comes_true([] { return gone.load(); }));
  names(told, errc::cancelled, {"replica 1", "exceeded its grace period"});
  s.run([&](replica_context& ctx) {
    CHECK(device_sum(ctx, 1) == 2);
    if (id_of(ctx) == 1)
      CHECK(&ctx.device() == successors);
  });
}

// --- gradients

TEST_CASE(
  "gradients become the host's sums, bucket by bucket, and means by the number of replicas") {
  auto s = mirrored_over(4);
  const std::vector<std::int64_t> sizes{1000, 1, 0, 300, 5000, 20, 30};
  auto ok = s.run([&](replica_context& ctx) {
    auto& d = ctx.device();
    bool right = true;
    for (int step = 0; step < 3; ++step)
      for (auto op : {reduce_op::sum, reduce_op::mean})
        for (bool bf16 : {false, true}) {
          auto reducer = ctx.gradient_reducer({.op = op, .bucket_bytes = 4096, .bf16 = bf16});
          std::vector<tensor> host;
          std::vector<device_tensor> gradients;
          for (auto n : sizes) {
            host.push_back(uneven(id_of(ctx) + step, n));
            gradients.push_back(d.put(host.back()));
            reducer.add(gradients.back());
          }
          reducer.finish();
          right = right && reducer.bucket_count() == 4;
          const auto wire = bf16 ? kernels::encoding::bf16 : kernels::encoding::plain;
          const auto sums = ctx.all_reduce(op, host, {.wire = wire});
          for (std::size_t i = 0; i < sizes.size(); ++i) // of four: 1 / n is exact
            right = right && same_bits(d.get(gradients[i]), sums[i]);
        }
    return right;
  });
  for (bool each : ok)
    CHECK(each);
}

TEST_CASE("one replica's gradients stay what they are") {
  auto s = mirrored_over(1);
  CHECK(s.run([](replica_context& ctx) {
    auto& d = ctx.device();
    auto reducer = ctx.gradient_reducer({.op = reduce_op::mean, .bucket_bytes = 4});
    auto g = d.put(uneven(0, 9));
    reducer.add(g);
    reducer.finish();
    return same_bits(d.get(g), uneven(0, 9))
           && same_bits(d.get(ctx.all_reduce(reduce_op::mean, g)), uneven(0, 9));
  })[0]);
}

TEST_CASE("SYNC-ARD-12 replicas whose gradients differ are told so before the bucket goes") {
  auto s = mirrored_over(2);
  auto differ = [&](auto f) {
    return failure_of([&] {
      s.run([&](replica_context& ctx) {
        auto reducer = ctx.gradient_reducer({.bucket_bytes = 8});
        reducer.add(ctx.device().put(uneven(0, 2)));
        f(ctx, reducer);
        reducer.finish();
      });
    });
  };
  names(differ([](replica_context& ctx, gradient_reducer& reducer) {
          reducer.add(ctx.device().put(uneven(0, 2 + id_of(ctx))));
        }),
        errc::mismatch, {"reduce_gradients sum on devices f32[2]", "on devices f32[3]"});
  names(differ([](replica_context& ctx, gradient_reducer& reducer) {
          if (id_of(ctx) == 1)
            reducer.add(ctx.device().put(uneven(0, 2)));
        }),
        errc::mismatch, {"reduce_gradients", "finish_gradients"});
  names(differ([](replica_context& ctx, gradient_reducer&) {
          auto other = ctx.gradient_reducer({.bf16 = id_of(ctx) == 1});
          other.add(ctx.device().put(uneven(0, 2)));
          other.finish();
        }),
        errc::mismatch, {"f32[2]", "bf16[2]"});
  CHECK(s.run([](replica_context& ctx) { return device_sum(ctx, 1); }).as_single() == 2);
}

TEST_CASE("a replica without data takes part in what the others do on their devices") {
  auto s = mirrored_over(3);
  auto input = distribute_dataset(s, dataset::range(4, 6).batch(3)).iterate(); // {4, 5, -}
  auto got = s.run(
    [](replica_context& ctx, const element& x) {
      auto& d = ctx.device();
      const auto mine = static_cast<float>(x.only().as<std::int64_t>()[0]);
      auto one = d.put(tensor::scalar(mine));
      auto reducer = ctx.gradient_reducer({.op = reduce_op::mean});
      auto g = d.put(vec<float>({mine, 1}));
      reducer.add(g);
      auto sum = d.get(ctx.all_reduce(reduce_op::sum, one)).item<float>();
      auto mean = d.get(ctx.all_reduce(reduce_op::mean, one)).item<float>();
      auto most = d.get(ctx.all_reduce(reduce_op::max, one)).item<float>();
      auto rows = ctx.all_gather(d.put(vec<float>({mine}))).size();
      auto first = d.get(ctx.broadcast(one, 0)).item<float>();
      reducer.finish();
      const auto mean_gradient = d.get(g);
      return std::vector<float>{sum,
                                mean,
                                most,
                                static_cast<float>(rows),
                                first,
                                mean_gradient.as<float>()[0],
                                mean_gradient.as<float>()[1]};
    },
    input.next());
  const std::vector<float> right{9, 4.5f, 5, 2, 4, 4.5f, 1};
  for (std::size_t i : {0, 1})
    for (std::size_t k = 0; k < right.size(); ++k)
      CHECK(got[i].at(k) == right[k]);
}

// --- many at once

TEST_CASE("SYNC-X9 sums of two strategies on the same devices, many at once, are right") {
  auto many = [](float x) {
    auto s = mirrored_over(2);
    for (int round = 0; round < 10; ++round) {
      auto ok = s.run([&](replica_context& ctx) {
        auto& d = ctx.device();
        auto reducer = ctx.gradient_reducer({.bucket_bytes = 64});
        std::vector<device_tensor> gradients;
        bool right = true;
        for (int i = 0; i < 20; ++i) {
          const auto value = x * static_cast<float>(i + 1);
          gradients.push_back(d.put(vec<float>({value, 2 * value})));
          reducer.add(gradients.back());
          if (i % 5 == 0) // between buckets on the way
            right = right && device_sum(ctx, value) == 2 * value;
        }
        reducer.finish();
        for (int i = 0; i < 20; ++i) {
          const auto value = 2 * x * static_cast<float>(i + 1);
          right = right && d.get(gradients[static_cast<std::size_t>(i)]) == vec({value, 2 * value});
        }
        return right;
      });
      CHECK(ok[0]);
      CHECK(ok[1]);
    }
  };
  std::thread other{[&] { many(3); }};
  many(1);
  other.join();
}

// --- several workers

TEST_CASE("device tensors of several workers' CPUs go through the host, and mismatches are named") {
  on_workers(2, [](std::uint32_t, runtime& rt) {
    auto s = strategy_over(rt);
    auto got = s.run([](replica_context& ctx) {
      auto& d = ctx.device();
      auto reducer = ctx.gradient_reducer({.op = reduce_op::mean});
      auto g = d.put(uneven(id_of(ctx), 10));
      reducer.add(g);
      reducer.finish();
      return same_bits(d.get(g), ctx.all_reduce(reduce_op::mean, uneven(id_of(ctx), 10)))
             && as_on_host(ctx, reduce_op::sum, uneven(id_of(ctx), 10))
             && as_on_host(ctx, reduce_op::mean, uneven(id_of(ctx), 10));
    });
    CHECK(got[0]);
  });
  for (const auto& why : outcomes_of(2, [](std::uint32_t worker, runtime&rt) {
         auto s = strategy_over(rt);
         s.run([worker](replica_context& ctx) {
           (void)device_sum(ctx, 1);
           if (worker == 0)
             (void)ctx.all_reduce(reduce_op::sum, tensor::scalar(1.0f));
           else
             (void)device_sum(ctx, 1);
         });
       }))
    names(why, errc::mismatch, {"all_reduce sum f32[]", "all_reduce sum on devices f32[]"});
}

} // namespace
