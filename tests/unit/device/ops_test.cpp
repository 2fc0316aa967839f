// The kernels through the one interface of all devices. Goal: what a user's program calls gives on
// a CPU device, and on a made-up device, exactly what the CPU kernels give; and refuses with a name
// what does not fit. The same checks run on GPUs in tests/gpu.

#include "support.hpp"

#include "../../gpu/conformance.hpp"

namespace {

using namespace device_test;

void run_all(const std::shared_ptr<device>& d) {
  conformance::rig r{d};
  for (const auto& each : conformance::families) {
    INFO(each.name);
    each.check(r);
  }
  CHECK(!d->why_failed());
}

TEST_CASE("ops: a CPU device computes what the CPU kernels compute") {
  fixture f;
  auto how = quick();
  how.hang_after = 60s;
  auto d = device::open(f.env(), make_cpu_backend(f.env()), 0, how).value_or_throw();
  run_all(d);
  CHECK(d->close(5s));
}

TEST_CASE("ops: a made-up device computes the same, later") {
  auto how = quick();
  how.hang_after = 60s;
  fixture f{{.operation = 0ns, .copy_bytes_per_s = 1'000'000'000'000}, how};
  auto d = f.open();
  {
    conformance::rig r{d};
    conformance::check_updates<float>(r);
    conformance::check_dense<float>(r);
    conformance::check_buckets(r);
  }
  f.closes_clean(d);
}

TEST_CASE("ops: what does not fit is refused by name, and ends nothing") {
  fixture f{{.devices = 2}};
  auto d = f.open(0), other = f.open(1);
  {
    conformance::rig r{d}, o{other};
    auto f4 = r.up(std::vector<float>(4)), f5 = r.up(std::vector<float>(5));
    auto i4 = r.up(std::vector<std::int32_t>(4));
    auto foreign = o.up(std::vector<float>(4));
    names(failure_of(r.ops.add(f4, f5, f4)), errc::shape_mismatch, {"add", "b", "[5]", "[4]"});
    names(failure_of(r.ops.add(f4, i4, f4)), errc::dtype_mismatch, {"add", "b", "i32", "f32"});
    names(failure_of(r.ops.add(f4, foreign, f4)), errc::invalid_argument,
          {"add", "b", "gpu:1", "gpu:0"});
    names(failure_of(r.ops.add(f4, {}, f4)), errc::invalid_argument, {"add", "b", "no value"});
    names(failure_of(r.ops.relu_forward(i4, i4)), errc::dtype_mismatch, {"relu_forward", "i32"});
    names(failure_of(r.ops.sum(f4, f5)), errc::shape_mismatch, {"sum", "out"});
    names(failure_of(r.ops.cast(f4, f4)), errc::dtype_mismatch, {"cast", "bf16"});
    auto w = r.empty(dtype::f32, {3, 2}), y = r.empty(dtype::f32, {2, 2});
    names(failure_of(r.ops.dense_forward(f4.reshaped({2, 2}), w, f4, y)), errc::shape_mismatch,
          {"dense_forward", "w", "[3, 2]", "[2, 2]"});
    names(failure_of(r.ops.softmax_cross_entropy(f4, i4, {}, r.empty(dtype::f64, {}))),
          errc::shape_mismatch, {"logits", "[batch, classes]"});
    const std::vector<device_tensor> parts{f4, f5};
    names(failure_of(r.ops.pack_bucket(parts, f4)), errc::shape_mismatch, {"bucket", "9 elements"});
    CHECK(!d->why_failed());
  }
  CHECK(d->close(2s));
  CHECK(other->close(2s));
}

TEST_CASE("ops: a label out of range breaks a CPU's stream, by name") {
  fixture f;
  auto d = device::open(f.env(), make_cpu_backend(f.env()), 0, quick()).value_or_throw();
  conformance::rig r{d};
  auto logits = r.up(std::vector<float>(4), dtype::f32, {2, 2});
  auto labels = r.up(std::vector<std::int32_t>{0, 7});
  auto loss = r.empty(dtype::f64, {});
  REQUIRE(r.ops.softmax_cross_entropy(logits, labels, {}, loss));
  names(failure_behind(*d, r.s), errc::launch_failed,
        {"cpu:0", "'softmax_cross_entropy'", "exception"});
  CHECK(!d->close(1s));
}

} // namespace
