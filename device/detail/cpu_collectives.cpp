#include <troupe/device/detail/cpu_collectives.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

namespace troupe::detail {

namespace {

/// How long members wait for each other; whoever opens a communicator gives up long before.
constexpr duration meet_max = std::chrono::seconds{60};
/// An abort waits for so long at most: connecting cannot be interrupted.
constexpr duration form_max = std::chrono::seconds{5};
/// Of a sum: who waits for it, and the device's own watch, end the group long before.
constexpr duration sum_max = std::chrono::minutes{10};

constexpr device_answer broken{.status = device_status::failed, .text = "the group failed"};
constexpr device_answer ended{.status = device_status::failed, .text = "the group was ended"};

} // namespace

cpu_collectives::cpu_collectives(const environment& env, push run)
  : env_{env}, run_{std::move(run)} {}

cpu_collectives::~cpu_collectives() {
  while (!members_.empty())
    (void)abort({reinterpret_cast<void*>(members_.begin()->first)});
}

device_answer cpu_collectives::get_unique_id(unique_id& out) {
  for (std::size_t at = 0; at < 16; at += 8) {
    const auto bits = env_.random.draw("device.comm_key");
    std::memcpy(out.bytes + at, &bits, sizeof bits);
  }
  return {};
}

auto cpu_collectives::room_of(const unique_id& key, std::uint32_t size) -> std::shared_ptr<room> {
  const std::string name(reinterpret_cast<const char*>(key.bytes), sizeof key.bytes);
  std::lock_guard lock{mutex_};
  std::erase_if(rooms_, [](const auto& r) { return r.second.expired(); });
  auto& slot = rooms_[name];
  auto out = slot.lock();
  if (!out) {
    out = std::make_shared<room>();
    out->changed = env_.waits.make_point();
    out->members.resize(size);
    out->missing = size;
    slot = out;
  }
  return out;
}

device_answer cpu_collectives::open(std::uint32_t, const unique_id& key, std::uint32_t size,
                                    std::uint32_t rank, native_comm& out) {
  if (rank >= size)
    return {.status = device_status::invalid, .text = "the rank is not in the group"};
  auto who = std::make_shared<member>();
  who->at = room_of(key, size);
  who->rank = rank;
  if (who->at->members.size() != size)
    return {.status = device_status::invalid, .text = "members disagree on the size of the group"};
  std::uint64_t word = 0;
  std::memcpy(&word, key.bytes, sizeof word);
  auto name = "devices-" + std::to_string(word);
  {
    std::lock_guard lock{mutex_};
    members_.emplace(++last_, who);
    out.handle = reinterpret_cast<void*>(last_);
  }
  auto thread = env_.threads.start("form", [this, who, name] { form(env_, name, *who); });
  std::lock_guard lock{who->mutex};
  who->forming = std::move(thread);
  return {.status = device_status::not_ready};
}

/// On its own thread: says where it is, waits for the others, connects.
void cpu_collectives::form(environment& env, const std::string& name, member& m) {
  auto end = [&m](device_answer answer) {
    std::lock_guard lock{m.mutex};
    m.answer = answer;
  };
  auto group = collective_group::make(env, m.rank + 1, {.name = name, .locality = this_locality()});
  if (!group)
    return end(broken);
  auto& at = *m.at;
  std::vector<collective_member> all;
  {
    std::unique_lock lock{at.mutex};
    auto& mine = at.members[m.rank];
    if (!mine.address.empty())
      return end({.status = device_status::invalid, .text = "two members have the same rank"});
    mine = {.id = m.rank + 1u, .address = (*group)->address()};
    if (--at.missing == 0)
      at.changed->notify_all();
    auto aborted = [&m] {
      std::lock_guard inner{m.mutex};
      return m.aborted;
    };
    wait_for(*at.changed, lock, after(env.clock.now(), meet_max),
             [&] { return at.missing == 0 || aborted(); });
    if (at.missing != 0)
      return end(ended);
    all = at.members;
  }
  auto* formed = group->get();
  {
    std::lock_guard lock{m.mutex};
    if (m.aborted)
      return;
    m.group = std::move(*group);
  }
  auto done = formed->form(group_epoch{1}, std::move(all), form_max);
  end(done ? device_answer{} : broken);
}

auto cpu_collectives::find(native_comm comm) -> std::shared_ptr<member> {
  std::lock_guard lock{mutex_};
  auto at = members_.find(reinterpret_cast<std::uintptr_t>(comm.handle));
  return at == members_.end() ? nullptr : at->second;
}

device_answer cpu_collectives::status(native_comm comm) {
  auto who = find(comm);
  if (!who)
    return ended;
  std::lock_guard lock{who->mutex};
  return who->answer;
}

device_answer cpu_collectives::all_reduce(native_comm comm, void* data, std::uint64_t count,
                                          bool bf16, native_stream stream) {
  auto who = find(comm);
  if (auto answer = status(comm); !answer.ok())
    return answer;
  auto op = [who, data, count, bf16](const launch_site&) {
    {
      std::lock_guard lock{who->mutex};
      if (who->aborted || !who->answer.ok())
        return device_answer{}; // the communicator is broken, not the stream
    }
    tensor x{bf16 ? dtype::bf16 : dtype::f32,
             {static_cast<std::int64_t>(count)},
             nullptr,
             static_cast<std::byte*>(data)};
    if (!who->group->all_reduce(x, reduce_op::sum, {.deadline = sum_max})) {
      std::lock_guard lock{who->mutex};
      who->answer = broken;
    }
    return device_answer{};
  };
  return run_(stream, {.name = "all_reduce", .run = std::move(op)});
}

/// Waits for what runs in the group to notice.
device_answer cpu_collectives::abort(native_comm comm) {
  std::shared_ptr<member> who;
  {
    std::lock_guard lock{mutex_};
    auto at = members_.find(reinterpret_cast<std::uintptr_t>(comm.handle));
    if (at == members_.end())
      return {.status = device_status::invalid, .text = "unknown communicator"};
    who = std::move(at->second);
    members_.erase(at);
  }
  auto& m = *who;
  collective_group* group = nullptr;
  std::unique_ptr<thread_handle> forming;
  {
    std::lock_guard lock{m.mutex};
    m.aborted = true;
    m.answer = ended;
    group = m.group.get();
    forming = std::move(m.forming);
  }
  if (group)
    group->revoke("the communicator was aborted");
  {
    std::lock_guard lock{m.at->mutex};
    m.at->changed->notify_all();
  }
  if (forming)
    forming->join();
  return {};
}

} // namespace troupe::detail
