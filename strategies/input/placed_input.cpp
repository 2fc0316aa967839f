#include <troupe/strategies/input/detail/placed_input.hpp>

#include <utility>

#include <troupe/strategies/replicas/detail/replica_engine.hpp>

namespace troupe::detail {

std::optional<device_id> placed_input::where(std::size_t replica) const {
  const auto& parts = piece(replica).parts;
  return parts.empty() ? std::nullopt : std::optional{parts.front().where()};
}

const device_tensor* placed_input::find(std::size_t replica, const tensor& x) const {
  const auto& at = piece(replica);
  for (std::size_t i = 0; i < at.parts.size(); ++i) {
    const auto& host = at.host[i];
    if (host.bytes().data() == x.bytes().data() && host.type() == x.type()
        && host.shape() == x.shape())
      return &at.parts[i];
  }
  return nullptr;
}

result<device_feeder::target> device_feeder::target_on(device_plane& devices, const device_id& id,
                                                       std::uint32_t replica) {
  auto on = devices.open(id);
  if (!on)
    return on.error();
  auto stream = (*on)->make_stream("input." + std::to_string(replica));
  if (!stream)
    return stream.error();
  return target{std::move(*on), std::move(*stream)};
}

std::unique_ptr<device_feeder> device_feeder::make(replica_engine& of) {
  std::vector<target> targets(of.local_count());
  bool any = false;
  for (std::uint32_t i = 0; i < of.local_count(); ++i) {
    const auto id = of.hardware(i);
    if (id.kind != device_kind::gpu)
      continue;
    if (auto got = target_on(*of.services()->devices, id, of.first_id() + i)) {
      targets[i] = std::move(*got);
      any = true;
    } else {
      trace(of.env(), "input.not_placed",
            {{"device", to_string(id)}, {"why", to_string(got.error())}});
    }
  }
  if (!any)
    return nullptr;
  return std::unique_ptr<device_feeder>{new device_feeder{of.env(), std::move(targets)}};
}

device_feeder::~device_feeder() {
  for (const auto& each : targets_)
    if (each.on)
      each.on->retire(each.stream);
}

result<placed_piece> device_feeder::placed(const target& to, const element& x) const {
  placed_piece out{.host = x};
  for (const auto& part : x) {
    auto copy = device_tensor::from_host(to.on, to.stream, part);
    if (!copy)
      return copy.error();
    out.parts.push_back(std::move(*copy));
  }
  auto done = to.on->record_event(to.stream);
  if (!done)
    return done.error();
  out.done = std::move(*done);
  return out;
}

std::shared_ptr<const placed_input> device_feeder::place(
  const std::vector<input_piece>& pieces) const {
  std::vector<placed_piece> out(pieces.size());
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const auto& to = targets_.at(i);
    if (!to.on || pieces[i].empty())
      continue;
    if (auto got = placed(to, pieces[i].data))
      out[i] = std::move(*got);
    else
      trace(env_, "input.not_placed",
            {{"device", to_string(to.on->id())}, {"why", to_string(got.error())}});
  }
  return std::make_shared<const placed_input>(std::move(out));
}

} // namespace troupe::detail
