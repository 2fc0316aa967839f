// A replica's input on its device.

#include <utility>

#include <troupe/device/context.hpp>
#include <troupe/strategies/input/detail/placed_input.hpp>
#include <troupe/strategies/replicas/strategy.hpp>

namespace troupe {

namespace {

/// The host's memory as a CPU device's own: `x` keeps it alive.
device_tensor seen_by(device_context& cpu, const tensor& x) {
  auto owner = std::make_shared<tensor>(x);
  auto* data = const_cast<std::byte*>(x.bytes().data()); // read only, as `on_device` says
  auto out = device_tensor::wrap(cpu.on(), x.type(), x.shape(), std::move(owner), data);
  out.used_on(cpu.stream());
  return out;
}

} // namespace

device_tensor replica_context::on_device(const tensor& x) {
  check_current("on_device");
  auto& here = device();
  for (const auto& each : placed_)
    if (const auto* there = each->find(local_, x)) {
      here.wait_event(here.stream(), each->piece(local_).done);
      there->used_on(here.stream());
      return *there;
    }
  if (here.id().kind == device_kind::cpu && x.size() != 0)
    return seen_by(here, x);
  return here.put(x);
}

} // namespace troupe
