#include <troupe/device/detail/fake_world.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

#include <troupe/core/thrown.hpp>
#include <troupe/device/health.hpp>
#include <troupe/kernels/casts.hpp>

namespace troupe::detail {

fake_world::fake_world(const environment& e, fake_options o)
  : env{e}, options{o}, changed{e.waits.make_point()}, broken(o.devices) {}

const device_fault* fake_world::fault_of(const std::string& function, std::uint32_t device) {
  const device_fault* out = nullptr;
  for (auto& f : faults) {
    if (f.what.function != function || (f.what.device && *f.what.device != device))
      continue;
    ++f.seen;
    if (!out && f.seen >= f.what.nth && f.seen - f.what.nth < f.what.times)
      out = &f.what;
  }
  return out;
}

std::optional<device_answer> fake_world::hit(std::unique_lock<std::mutex>& lock,
                                             const std::string& function, std::uint32_t device,
                                             bool works_when_broken) {
  bury(lock);
  ++called[function];
  if (device >= options.devices)
    return device_answer{.status = device_status::unavailable, .text = "no such device"};
  if (!broken[device].ok() && !works_when_broken)
    return broken[device];
  const auto* fault = fault_of(function, device);
  if (!fault)
    return std::nullopt;
  const auto answer = fault->answer;
  const bool breaks = fault->breaks;
  if (fault->hang) {
    const auto before = released;
    ++hanging;
    wait_for(*changed, lock, never, [&] { return released != before; });
    --hanging;
    return std::nullopt;
  }
  if (breaks && is_final(answer.status))
    break_device(device, answer);
  return answer;
}

void fake_world::break_device(std::uint32_t device, device_answer why) {
  if (!broken[device].ok())
    return;
  broken[device] = why;
  for (auto& s : streams)
    if (s->device == device)
      for (auto& item : std::exchange(s->items, {})) // none of them will ever run
        over.push_back(std::move(item.run));
  changed->notify_all();
}

void fake_world::bury(std::unique_lock<std::mutex>& lock) {
  if (over.empty())
    return;
  auto gone = std::exchange(over, {});
  lock.unlock();
  gone.clear();
  lock.lock();
}

void fake_world::put(fake_stream& s, fake_item item) {
  item.submitted = env.clock.now();
  if (auto at = durations.find(item.name); at != durations.end())
    item.takes = at->second;
  s.items.push_back(std::move(item));
  changed->notify_all();
}

void fake_world::advance(std::unique_lock<std::mutex>& lock,
                         std::vector<std::pair<void (*)(void*), void*>>& calls) {
  const auto now = env.clock.now();
  for (bool moved = true; std::exchange(moved, false);)
    for (std::size_t i = 0; i < streams.size(); ++i) // a step may add streams and take them away
      while (i < streams.size() && !streams[i]->items.empty() && broken[streams[i]->device].ok()
             && step(lock, *streams[i], now, calls))
        moved = true;
}

/// True when the stream's first item is over.
bool fake_world::step(std::unique_lock<std::mutex>& lock, fake_stream& s, time_point now,
                      std::vector<std::pair<void (*)(void*), void*>>& calls) {
  auto& item = s.items.front();
  const auto start = std::max(s.free_at, item.submitted);
  switch (item.is) {
    case fake_item::what::operation:
      if (!step_operation(lock, s, item, now))
        return false;
      break;
    case fake_item::what::collective:
      if (!step_collective(s, item, now))
        return false;
      break;
    case fake_item::what::record:
      item.record->passed_at = start;
      s.free_at = start;
      changed->notify_all();
      break;
    case fake_item::what::wait:
      if (!item.record->passed_at)
        return false;
      s.free_at = std::max(start, *item.record->passed_at);
      break;
    case fake_item::what::post: calls.emplace_back(item.call, item.argument); break;
  }
  if (item.run)
    over.push_back(std::move(item.run));
  s.items.pop_front();
  return true;
}

bool fake_world::run_unlocked(std::unique_lock<std::mutex>& lock, fake_stream& s, fake_item& item,
                              device_answer& answer) {
  const auto no = item.run_no = ++runs;
  auto run = std::move(item.run);
  const launch_site site{.device = {options.kind, s.device}, .stream = nullptr};
  lock.unlock();
  try { // a user's operation
    answer = run(site);
  } catch (...) {
    if (ends_the_thread())
      throw;
    answer = {.status = device_status::launch_failed, .text = "the operation threw an exception"};
  }
  lock.lock();
  for (auto& each : streams)
    if (each.get() == &s && !s.items.empty() && s.items.front().run_no == no) {
      item.run = std::move(run); // let go of with the others
      return true;
    }
  over.push_back(std::move(run));
  return false;
}

bool fake_world::step_operation(std::unique_lock<std::mutex>& lock, fake_stream& s, fake_item& item,
                                time_point now) {
  if (item.run_no != 0)
    return false; // another thread is at it
  if (!std::exchange(item.counted, true))
    if (const auto* fault = fault_of(std::string{"execute:"} + item.name, s.device)) {
      item.hangs = fault->hang;
      if (!fault->hang) {
        break_device(s.device, fault->answer);
        return false;
      }
    }
  const auto end = after(std::max(s.free_at, item.submitted), item.takes);
  if (item.hangs || end > now)
    return false;
  if (item.run) {
    device_answer answer;
    if (!run_unlocked(lock, s, item, answer))
      return false;
    if (!answer.ok()) {
      answer.status = device_status::launch_failed;
      answer.blame = item.name;
      break_device(s.device, answer);
      return false;
    }
  }
  s.free_at = end;
  return true;
}

namespace {

/// Sums the members' vectors in rank order, for all of them.
void sum_all(const fake_round& round, std::uint64_t count, bool bf16) {
  for (std::uint64_t i = 0; i < count; ++i) {
    float sum = 0;
    for (void* data : round.data)
      sum += bf16 ? kernels::f32_from_bf16(static_cast<std::uint16_t*>(data)[i])
                  : static_cast<float*>(data)[i];
    for (void* data : round.data)
      if (bf16)
        static_cast<std::uint16_t*>(data)[i] = kernels::bf16_from_f32(sum);
      else
        static_cast<float*>(data)[i] = sum;
  }
}

} // namespace

bool fake_world::step_collective(fake_stream& s, fake_item& item, time_point now) {
  auto& comm = *item.comm;
  const auto start = std::max(s.free_at, item.submitted);
  if (comm.aborted) { // its kernel goes, whatever the others do
    s.free_at = start;
    return true;
  }
  auto& round = comm.of->rounds[item.round];
  round.arrived.emplace(comm.rank, start);
  if (round.arrived.size() < comm.of->size)
    return false;
  auto end = start;
  for (auto& [rank, at] : round.arrived)
    end = std::max(end, at);
  end = after(end, item.takes);
  if (end > now)
    return false;
  if (!std::exchange(round.done, true))
    sum_all(round, item.count, item.bf16);
  s.free_at = end;
  return true;
}

} // namespace troupe::detail
