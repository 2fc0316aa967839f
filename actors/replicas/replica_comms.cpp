#include <troupe/actors/replicas/replica_comms.hpp>

#include <array>
#include <bit>
#include <set>
#include <utility>

#include <troupe/actors/replicas/detail/unique_id_frame.hpp>

namespace troupe {

replica_comms::replica_comms(const environment& env, replica_comms_options options)
  : env_{env}, options_{options}, places_(options.local) {}

/// What a member tells the others of its device.
struct replica_comms::replica_identity {
  std::int64_t ability = 0; ///< 0: no collectives; else another number for each kind of device
  std::array<std::int64_t, 2> identity{}; ///< of the hardware; zeros: nobody knows
};

replica_comms::replica_identity replica_comms::identity_of(std::uint32_t local, device& on) const {
  const auto kind = on.id().kind;
  if (on.comms().why_none())
    return {};
  if (kind == device_kind::cpu && !options_.one_process)
    return {};
  std::lock_guard lock{mutex_};
  for (std::uint32_t i = 0; i < options_.local; ++i) // no device is twice in a group
    if (i != local && places_[i].on && places_[i].on.get() == &on)
      return {};
  return {.ability = 1 + static_cast<std::int64_t>(kind),
          .identity = std::bit_cast<std::array<std::int64_t, 2>>(on.facts().identity)};
}

/// Whether all members have collectives of one kind, and each a device of its own.
result<bool> replica_comms::agree(std::uint32_t local, collective_group& group, device& on,
                                  const collective_options& with) const {
  const auto mine = identity_of(local, on);
  tensor all{dtype::i64, {3 * group.size()}};
  const auto told =
    tensor::vector<std::int64_t>({mine.ability, mine.identity[0], mine.identity[1]});
  if (auto sent = group.all_gather(told, all, {}, with); !sent)
    return sent.error();
  const auto identities = std::as_const(all).as<std::int64_t>();
  std::set<std::pair<std::int64_t, std::int64_t>> seen;
  for (std::size_t i = 0; i < identities.size(); i += 3) {
    if (identities[i] == 0 || identities[i] != identities[0])
      return false;
    const std::pair identity{identities[i + 1], identities[i + 2]};
    if (identity != std::pair<std::int64_t, std::int64_t>{} && !seen.insert(identity).second)
      return false;
  }
  return true;
}

result<device_comm> replica_comms::join(std::uint32_t local, collective_group& group,
                                        const std::shared_ptr<device>& on,
                                        const device_stream& stream,
                                        const collective_options& with) {
  auto& at = places_.at(local);
  const auto epoch = group.epoch();
  {
    std::lock_guard lock{mutex_};
    if (at.epoch == epoch)
      return at.comm;
  }
  revoke(local, group_epoch{static_cast<std::uint32_t>(epoch) - 1}, "a newer epoch has begun");
  // What the stream still holds of that is over: the first who asks is told, here.
  if (auto past = on->record_event(stream))
    (void)on->wait(*past, duration{});
  {
    std::lock_guard lock{mutex_};
    at.on = on; // before it is opened: `revoke` has to find it
  }
  const auto deadline = after(env_.clock.now(), with.deadline);
  auto left = [&] {
    return collective_options{.deadline = deadline - env_.clock.now(), .what = with.what};
  };
  auto alike = agree(local, group, *on, left());
  if (!alike)
    return alike.error();
  std::optional<unique_id> key;
  if (*alike && group.rank() == 0)
    if (auto drawn = on->comms().get_unique_id())
      key = *drawn;
  if (*alike) {
    auto told = detail::pack_unique_id(key);
    if (auto sent = group.broadcast(told, 0, left()); !sent)
      return sent.error();
    auto got = detail::unpack_unique_id(told);
    if (!got)
      return got.error();
    key = *got;
  }
  device_comm comm;
  if (key) {
    auto opened =
      on->comms().open(epoch, *key, group.size(), group.rank(), left().deadline, epochs_);
    if (!opened)
      return opened;
    comm = std::move(*opened);
  } else {
    trace(env_, "replica.comm_on_host", {{"replica", options_.first_id + local}});
    mark(env_, "replica.comm_on_host");
  }
  std::lock_guard lock{mutex_};
  if (at.epoch < epoch) { // else the thread was left behind, and another goes on in its place
    at.comm = comm;
    at.epoch = epoch;
  }
  return comm;
}

void replica_comms::revoke(std::uint32_t local, group_epoch epoch, const std::string& why) {
  epochs_.end(epoch); // for who is about to open one
  std::shared_ptr<device> on;
  {
    std::lock_guard lock{mutex_};
    on = places_.at(local).on;
  }
  if (on)
    on->comms().revoke(epoch, why, epochs_);
}

void replica_comms::close() {
  constexpr group_epoch last{~std::uint32_t{0}};
  epochs_.end(last);
  std::vector<std::shared_ptr<device>> all;
  {
    std::lock_guard lock{mutex_};
    for (auto& at : places_)
      if (auto on = std::exchange(at.on, nullptr))
        all.push_back(std::move(on));
  }
  for (const auto& on : all)
    on->comms().revoke(last, "the strategy has ended", epochs_);
}

} // namespace troupe
