// What Troupe's devices cost on a GPU, beside a program written by hand on CUDA's streams with the
// same kernels: bandwidth of kernels against the device's own copy, a pipeline of copies, computing
// and a reduction, and what one operation costs to enqueue.
#include <functional>
#include <memory>
#include <vector>

#include <troupe/troupe.hpp>

#include "detail/bench.hpp"

namespace {

/// Says of every row why there is no number.
int not_measured(bench::report& report, const std::string& why) {
  for (const char* kernel : {"add", "scale", "relu", "cast_bf16", "sum", "l2_norm", "sgd",
                             "momentum", "adam", "pack_bucket"})
    report.add({.name = std::string{"bandwidth_"} + kernel, .unmeasured = why});
  for (const char* row :
       {"overlap_pipeline", "overlap_against_serial", "launch_enqueue", "launch_submit"})
    report.add({.name = row, .unmeasured = why});
  return report.finish();
}

} // namespace

#ifdef TROUPE_HAS_CUDA

#include <cuda_runtime_api.h>

#include <troupe/kernels/cuda.hpp>

namespace tr = troupe;
namespace cuda = troupe::kernels::cuda;

namespace {

void ok(int code) {
  if (code != 0) {
    std::fprintf(stderr, "gpu_overlap: CUDA says %d\n", code);
    std::exit(1);
  }
}

cudaStream_t native(const tr::device_stream& s) {
  return static_cast<cudaStream_t>(s.native().handle);
}

/// Seconds a call of what was enqueued `times`, by the host's clock.
double time_of(int times, const std::function<void()>& enqueue, const std::function<void()>& wait) {
  enqueue();
  wait();
  const auto begin = bench::steady::now();
  for (int i = 0; i < times; ++i)
    enqueue();
  wait();
  return bench::seconds_since(begin) / times;
}

/// Kernels of one pass over large arrays, in GB/s, beside the device's copy of as many bytes.
void bandwidth(bench::report& report, tr::device_context& d) {
  const auto n = static_cast<std::int64_t>(report.scaled(std::size_t{1} << 26));
  auto a = d.empty(tr::dtype::f32, {n}), b = d.empty(tr::dtype::f32, {n}),
       c = d.empty(tr::dtype::f32, {n}), e = d.empty(tr::dtype::f32, {n}),
       half = d.empty(tr::dtype::bf16, {n}), one = d.empty(tr::dtype::f32, {}),
       two = d.empty(tr::dtype::f64, {});
  for (auto* x : {&a, &b, &c, &e})
    d.check(d.ops().fill(0.5, *x));
  const auto stream = native(d.stream());
  const double f = static_cast<double>(n) * sizeof(float);
  auto wait = [&] { d.wait(); };
  auto row = [&](const char* name, double bytes, const std::function<tr::result<void>()>& run) {
    if (!report.wants(name))
      return;
    const auto copied = static_cast<std::size_t>(bytes / 2);
    auto copy = [&] { // within the four arrays' sizes: at most 3.5 of them move
      for (std::size_t left = copied; left > 0;) {
        const auto now = std::min(left, a.size_bytes());
        ok(cudaMemcpyAsync(b.data(), a.data(), now, cudaMemcpyDeviceToDevice, stream));
        left -= now;
      }
    };
    auto samples = report.interleave({[&] {
                                        return bytes
                                               / time_of(
                                                 20, [&] { d.check(run()); }, wait)
                                               * 1e-9;
                                      },
                                      [&] { return bytes / time_of(20, copy, wait) * 1e-9; }});
    report.add({.name = std::string{"bandwidth_"} + name,
                .params = {{"elements", std::to_string(n)}},
                .unit = "GB/s",
                .direction = bench::better::more,
                .ours = samples[0],
                .peer = "device copy",
                .peers = samples[1]});
  };
  auto& ops = d.ops();
  row("add", 3 * f, [&] { return ops.add(a, b, c); });
  row("scale", 2 * f, [&] { return ops.scale(1, a, b); });
  row("relu", 2 * f, [&] { return ops.relu_forward(a, b); });
  row("cast_bf16", 1.5 * f, [&] { return ops.cast(a, half); });
  row("sum", f, [&] { return ops.sum(a, one); });
  row("l2_norm", f, [&] { return ops.l2_norm(a, two); });
  row("sgd", 3 * f, [&] { return ops.sgd_update(a, b, {.learning_rate = 1e-9}); });
  row("momentum", 5 * f, [&] { return ops.momentum_update(a, c, b, {.learning_rate = 1e-9}); });
  row("adam", 7 * f, [&] { return ops.adam_update(a, c, e, b, 10, {.learning_rate = 1e-9}); });
  std::vector<tr::device_tensor> parts;
  for (std::int64_t at = 0; at + (1 << 20) <= n; at += 1 << 20)
    parts.push_back(
      tr::device_tensor::wrap(d.on(), tr::dtype::f32, {1 << 20}, a.owner(), a.as<float>() + at));
  auto bucket = tr::device_tensor::wrap(
    d.on(), tr::dtype::f32, {static_cast<std::int64_t>(parts.size()) << 20}, c.owner(), c.data());
  row("pack_bucket", 2.0 * static_cast<double>(bucket.size_bytes()),
      [&] { return ops.pack_bucket(parts, bucket); });
}

/// Chunks that go to the device, are computed on, reduced on a stream of their own, and come back:
/// four streams, ordered by events.
struct pipeline {
  static constexpr int chunks = 16;
  static constexpr int passes = 24;
  std::int64_t n;
  std::vector<float*> in{}, out{}, on_device{}, reduced{};
};

void overlap(bench::report& report, tr::device_context& d) {
  if (!report.wants("overlap"))
    return;
  pipeline p{.n = static_cast<std::int64_t>(report.scaled(std::size_t{1} << 22))};
  const auto bytes = static_cast<std::size_t>(p.n) * sizeof(float);
  auto& dev = *d.on();
  const auto &up = d.stream("up"), &compute = d.stream(), &reduce = d.stream("reduce"),
             &down = d.stream("down");
  std::vector<tr::device_memory> keep;
  for (int i = 0; i < pipeline::chunks; ++i) {
    for (auto* to : {&p.in, &p.out}) {
      keep.push_back(dev.allocate_host(bytes, up).value_or_throw());
      to->push_back(static_cast<float*>(keep.back().data()));
      std::fill_n(to->back(), p.n, 1.0f);
    }
    for (auto* to : {&p.on_device, &p.reduced}) {
      keep.push_back(dev.allocate(bytes, up).value_or_throw());
      to->push_back(static_cast<float*>(keep.back().data()));
    }
  }
  const auto n = static_cast<std::size_t>(p.n);
  auto ours = [&] {
    for (int i = 0; i < pipeline::chunks; ++i) {
      auto* x = p.on_device[static_cast<std::size_t>(i)];
      auto* sum = p.reduced[static_cast<std::size_t>(i)];
      auto here =
        dev.copy(up, x, p.in[static_cast<std::size_t>(i)], bytes, tr::copy_kind::host_to_device)
          .value_or_throw();
      d.wait_event(compute, here);
      for (int k = 0; k < pipeline::passes; ++k)
        d.enqueue(compute, {.name = "scale", .run = [=](const tr::launch_site& at) {
                              return tr::cuda_answer(cuda::scale(1.0f, x, x, n, at.stream));
                            }});
      d.wait_event(reduce, d.record_event(compute));
      auto done = d.submit(reduce, {.name = "add", .run = [=](const tr::launch_site& at) {
                                      return tr::cuda_answer(cuda::add(x, x, sum, n, at.stream));
                                    }});
      d.wait_event(down, done);
      (void)dev
        .copy(down, p.out[static_cast<std::size_t>(i)], sum, bytes, tr::copy_kind::device_to_host)
        .value_or_throw();
    }
  };
  std::vector<cudaEvent_t> events(3);
  for (auto& e : events)
    ok(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
  auto by_hand = [&] {
    for (int i = 0; i < pipeline::chunks; ++i) {
      auto* x = p.on_device[static_cast<std::size_t>(i)];
      auto* sum = p.reduced[static_cast<std::size_t>(i)];
      ok(cudaMemcpyAsync(x, p.in[static_cast<std::size_t>(i)], bytes, cudaMemcpyHostToDevice,
                         native(up)));
      ok(cudaEventRecord(events[0], native(up)));
      ok(cudaStreamWaitEvent(native(compute), events[0], 0));
      for (int k = 0; k < pipeline::passes; ++k)
        ok(cuda::scale(1.0f, x, x, n, native(compute)));
      ok(cudaEventRecord(events[1], native(compute)));
      ok(cudaStreamWaitEvent(native(reduce), events[1], 0));
      ok(cuda::add(x, x, sum, n, native(reduce)));
      ok(cudaEventRecord(events[2], native(reduce)));
      ok(cudaStreamWaitEvent(native(down), events[2], 0));
      ok(cudaMemcpyAsync(p.out[static_cast<std::size_t>(i)], sum, bytes, cudaMemcpyDeviceToHost,
                         native(down)));
    }
  };
  auto wait = [&] { ok(cudaStreamSynchronize(native(down))); };
  auto samples = report.interleave({[&] { return 1e3 * time_of(3, ours, wait); },
                                    [&] { return 1e3 * time_of(3, by_hand, wait); }});
  report.add(
    {.name = "overlap_pipeline",
     .params = {{"chunks", std::to_string(pipeline::chunks)}, {"bytes", std::to_string(bytes)}},
     .unit = "ms",
     .ours = samples[0],
     .peer = "by hand",
     .peers = samples[1]});
  auto serial = [&] { // the same, each chunk after the other: what overlap saves
    for (int i = 0; i < pipeline::chunks; ++i) {
      auto* x = p.on_device[static_cast<std::size_t>(i)];
      auto* sum = p.reduced[static_cast<std::size_t>(i)];
      const auto s = native(down);
      ok(cudaMemcpyAsync(x, p.in[static_cast<std::size_t>(i)], bytes, cudaMemcpyHostToDevice, s));
      for (int k = 0; k < pipeline::passes; ++k)
        ok(cuda::scale(1.0f, x, x, n, s));
      ok(cuda::add(x, x, sum, n, s));
      ok(
        cudaMemcpyAsync(p.out[static_cast<std::size_t>(i)], sum, bytes, cudaMemcpyDeviceToHost, s));
    }
  };
  auto against = report.interleave(
    {[&] { return 1e3 * time_of(3, ours, wait); }, [&] { return 1e3 * time_of(3, serial, wait); }});
  report.add({.name = "overlap_against_serial",
              .unit = "ms",
              .ours = against[0],
              .peer = "one stream",
              .peers = against[1]});
  for (auto e : events)
    ok(cudaEventDestroy(e));
}

/// Nanoseconds to enqueue one tiny kernel, by the host's clock alone.
void overhead(bench::report& report, tr::device_context& d) {
  auto x = d.empty(tr::dtype::f32, {1});
  auto* at = x.as<float>();
  constexpr int ops = 500; // fewer than the driver queues before it makes the host wait
  auto row = [&](const char* name, const std::function<void()>& ours,
                 const std::function<void()>& by_hand) {
    if (!report.wants(name))
      return;
    auto sample = [&](const std::function<void()>& one) {
      d.wait();
      const auto begin = bench::steady::now();
      for (int i = 0; i < ops; ++i)
        one();
      const double took = bench::seconds_since(begin);
      d.wait();
      return took / ops * 1e9;
    };
    auto samples =
      report.interleave({[&] { return sample(ours); }, [&] { return sample(by_hand); }});
    report.add(
      {.name = name, .unit = "ns", .ours = samples[0], .peer = "by hand", .peers = samples[1]});
  };
  const auto stream = native(d.stream());
  const tr::device_op fill{.name = "fill", .run = [at](const tr::launch_site& site) {
                             return tr::cuda_answer(cuda::fill(1.0f, at, 1, site.stream));
                           }};
  row(
    "launch_enqueue", [&] { d.enqueue(d.stream(), fill); },
    [&] { ok(cuda::fill(1.0f, at, 1, stream)); });
  cudaEvent_t event = nullptr;
  ok(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  row(
    "launch_submit", [&] { (void)d.submit(fill); },
    [&] {
      ok(cuda::fill(1.0f, at, 1, stream));
      ok(cudaEventRecord(event, stream));
    });
  ok(cudaEventDestroy(event));
}

} // namespace

int main(int argc, char** argv) try {
  bench::report report{"gpu_overlap", argc, argv};
  tr::runtime rt{{.workers = 1, .servers = 1}};
  std::shared_ptr<tr::device_context> d;
  try {
    d = rt.device("gpu:0");
  } catch (const tr::error& e) {
    if (e.code() != tr::errc::device_unavailable)
      throw;
    return not_measured(report, e.what());
  }
  std::printf("%s, %s\n", d->facts().name.c_str(), d->facts().arch.c_str());
  bandwidth(report, *d);
  overlap(report, *d);
  overhead(report, *d);
  d = nullptr;
  return report.finish();
} catch (const tr::error& e) {
  std::fprintf(stderr, "gpu_overlap: %s\n", e.what());
  return 1;
}

#else

int main(int argc, char** argv) {
  bench::report report{"gpu_overlap", argc, argv};
  return not_measured(report, "built without CUDA");
}

#endif
