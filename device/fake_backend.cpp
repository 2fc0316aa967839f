#include <troupe/device/fake_backend.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

#include <troupe/core/execution_context.hpp>
#include <troupe/device/detail/fake_world.hpp>

namespace troupe {

using namespace detail;

namespace {

using lock_t = std::unique_lock<std::mutex>;

fake_stream& of(native_stream s) { return *static_cast<fake_stream*>(s.handle); }
fake_event& of(native_event e) { return *static_cast<fake_event*>(e.handle); }
fake_comm& of(native_comm c) { return *static_cast<fake_comm*>(c.handle); }

template <class T>
void forget(std::vector<std::unique_ptr<T>>& all, const T& which) {
  std::erase_if(all, [&](const auto& each) { return each.get() == &which; });
}

/// Moves streams on, then makes the calls that they held.
void advance(fake_world& w, lock_t& lock) {
  std::vector<std::pair<void (*)(void*), void*>> calls;
  w.advance(lock, calls);
  w.bury(lock);
  if (calls.empty())
    return;
  lock.unlock();
  for (auto& [call, argument] : calls)
    call(argument);
  lock.lock();
}

fake_options of_some_hardware(const environment& env, fake_options options) {
  while (options.hardware == 0)
    options.hardware = env.random.draw("fake_table.hardware");
  return options;
}

device_answer full() {
  return {.status = device_status::out_of_memory, .text = "simulated memory limit"};
}

device_answer unknown() { return {.status = device_status::invalid, .text = "unknown memory"}; }

} // namespace

fake_backend::fake_backend(const environment& env, fake_options options)
  : world_{std::make_unique<fake_world>(env, of_some_hardware(env, options))} {}

fake_backend::~fake_backend() = default;

// --- the tester's side

void fake_backend::plant(device_fault fault) {
  lock_t lock{world_->mutex};
  world_->faults.push_back({.what = std::move(fault)});
}

void fake_backend::lose(std::uint32_t device) {
  lock_t lock{world_->mutex};
  world_->break_device(device, {.status = device_status::lost, .text = "fell off its bus"});
  world_->bury(lock);
}

void fake_backend::release_hangs() {
  lock_t lock{world_->mutex};
  ++world_->released;
  std::erase_if(world_->faults, [](const planted_fault& f) { return f.what.hang; });
  for (auto& s : world_->streams)
    for (auto& item : s->items)
      item.hangs = false;
  world_->changed->notify_all();
}

void fake_backend::set_duration(const std::string& operation, duration d) {
  lock_t lock{world_->mutex};
  world_->durations[operation] = d;
}

std::uint64_t fake_backend::calls(const std::string& function) const {
  lock_t lock{world_->mutex};
  auto at = world_->called.find(function);
  return at == world_->called.end() ? 0 : at->second;
}

std::uint64_t fake_backend::hanging() const {
  lock_t lock{world_->mutex};
  return world_->hanging;
}

fake_census fake_backend::census() const {
  lock_t lock{world_->mutex};
  fake_census out{.streams = world_->streams.size(),
                  .events = world_->events.size(),
                  .blocks = world_->blocks.size(),
                  .host_blocks = world_->host_blocks.size(),
                  .comms = world_->comms.size()};
  for (auto& [at, b] : world_->blocks)
    out.bytes += b.size;
  return out;
}

// --- devices

device_kind fake_backend::kind() const { return world_->options.kind; }

result<std::uint32_t> fake_backend::count() {
  lock_t lock{world_->mutex};
  if (const auto* fault = world_->fault_of("count", 0))
    return make_failure(errc::device_unavailable, "count devices: " + to_string(fault->answer));
  return world_->options.devices;
}

result<device_facts> fake_backend::describe(std::uint32_t device) {
  lock_t lock{world_->mutex};
  if (auto no = world_->hit(lock, "describe", device))
    return make_failure(errc::device_unavailable,
                        to_string(device_id{kind(), device}) + ": describe: " + to_string(*no));
  return device_facts{.name = "simulated device " + std::to_string(device),
                      .arch = "none",
                      .memory_bytes = world_->options.memory_bytes,
                      .identity = {world_->options.hardware, std::uint64_t{device} + 1}};
}

device_answer fake_backend::bind(std::uint32_t device) {
  lock_t lock{world_->mutex};
  return world_->hit(lock, "bind", device).value_or(device_answer{});
}

device_answer fake_backend::health(std::uint32_t device) {
  lock_t lock{world_->mutex};
  if (auto no = world_->hit(lock, "health", device))
    return *no;
  advance(*world_, lock);
  return world_->broken[device];
}

// --- memory

device_answer fake_backend::allocate(std::uint32_t device, std::size_t bytes, void*& out) {
  lock_t lock{world_->mutex};
  if (auto no = world_->hit(lock, "allocate", device))
    return *no;
  std::uint64_t used = 0;
  for (auto& [at, b] : world_->blocks)
    used += b.device == device ? b.size : 0;
  if (bytes > world_->options.memory_bytes - used)
    return full();
  auto made = std::make_unique<std::byte[]>(bytes);
  out = made.get();
  world_->blocks[out] = {std::move(made), bytes, device};
  return {};
}

device_answer fake_backend::release(std::uint32_t device, void* memory) {
  lock_t lock{world_->mutex};
  if (auto no = world_->hit(lock, "release", device))
    return *no;
  return world_->blocks.erase(memory) == 1 ? device_answer{} : unknown();
}

// The host's memory is no device's: it is there when one of them broke.

device_answer fake_backend::allocate_host(std::size_t bytes, void*& out) {
  lock_t lock{world_->mutex};
  if (auto no = world_->hit(lock, "allocate_host", 0, true))
    return *no;
  std::uint64_t used = 0;
  for (auto& [at, b] : world_->host_blocks)
    used += b.size;
  if (bytes > world_->options.host_bytes - used)
    return full();
  auto made = std::make_unique<std::byte[]>(bytes);
  out = made.get();
  world_->host_blocks[out] = {std::move(made), bytes, 0};
  return {};
}

device_answer fake_backend::release_host(void* memory) {
  lock_t lock{world_->mutex};
  if (auto no = world_->hit(lock, "release_host", 0, true))
    return *no;
  return world_->host_blocks.erase(memory) == 1 ? device_answer{} : unknown();
}

// --- streams and events

device_answer fake_backend::make_stream(std::uint32_t device, const std::string&,
                                        native_stream& out) {
  lock_t lock{world_->mutex};
  if (auto no = world_->hit(lock, "make_stream", device))
    return *no;
  world_->streams.push_back(std::make_unique<fake_stream>());
  world_->streams.back()->device = device;
  out.handle = world_->streams.back().get();
  return {};
}

device_answer fake_backend::drop_stream(native_stream stream) {
  lock_t lock{world_->mutex};
  if (auto no = world_->hit(lock, "drop_stream", of(stream).device))
    return *no;
  for (auto& item : of(stream).items)
    world_->over.push_back(std::move(item.run));
  forget(world_->streams, of(stream));
  world_->bury(lock);
  return {};
}

device_answer fake_backend::make_event(std::uint32_t device, native_event& out) {
  lock_t lock{world_->mutex};
  if (auto no = world_->hit(lock, "make_event", device))
    return *no;
  world_->events.push_back(std::make_unique<fake_event>());
  world_->events.back()->device = device;
  out.handle = world_->events.back().get();
  return {};
}

device_answer fake_backend::drop_event(native_event event) {
  lock_t lock{world_->mutex};
  if (auto no = world_->hit(lock, "drop_event", of(event).device))
    return *no;
  forget(world_->events, of(event));
  return {};
}

device_answer fake_backend::record(native_stream stream, native_event event) {
  lock_t lock{world_->mutex};
  if (auto no = world_->hit(lock, "record", of(stream).device))
    return *no;
  auto made = std::make_shared<fake_record>();
  of(event).last = made;
  world_->put(of(stream), {.is = fake_item::what::record, .record = std::move(made)});
  return {};
}

device_answer fake_backend::depend(native_stream stream, native_event event) {
  lock_t lock{world_->mutex};
  if (auto no = world_->hit(lock, "depend", of(stream).device))
    return *no;
  if (auto on = of(event).last)
    world_->put(of(stream), {.is = fake_item::what::wait, .record = std::move(on)});
  return {};
}

namespace {

device_answer state_of(const fake_world& w, const fake_event& e) {
  if (!w.broken[e.device].ok())
    return w.broken[e.device];
  return !e.last || e.last->passed_at ? device_answer{}
                                      : device_answer{.status = device_status::not_ready};
}

} // namespace

device_answer fake_backend::query(native_event event) {
  lock_t lock{world_->mutex};
  if (auto no = world_->hit(lock, "query", of(event).device))
    return *no;
  advance(*world_, lock);
  return state_of(*world_, of(event));
}

device_answer fake_backend::await(native_event event, time_point deadline) {
  constexpr duration look_up = std::chrono::microseconds{100};
  lock_t lock{world_->mutex};
  if (auto no = world_->hit(lock, "await", of(event).device))
    return *no;
  for (;;) {
    advance(*world_, lock);
    auto answer = state_of(*world_, of(event));
    const auto now = world_->env.clock.now();
    if (answer.status != device_status::not_ready || now >= deadline)
      return answer;
    (void)world_->changed->wait_until(lock, std::min(deadline, after(now, look_up)));
    if (current_context().destructors > 0 && world_->env.clock.now() == now)
      return answer; // the process is over: its clock stands still
  }
}

// --- work

device_answer fake_backend::run(native_stream stream, const device_op& op) {
  lock_t lock{world_->mutex};
  if (auto no = world_->hit(lock, "run", of(stream).device))
    return *no;
  world_->put(of(stream), {.takes = world_->options.operation, .name = op.name, .run = op.run});
  return {};
}

device_answer fake_backend::copy(native_stream stream, void* to, const void* from,
                                 std::size_t bytes, copy_kind) {
  lock_t lock{world_->mutex};
  if (auto no = world_->hit(lock, "copy", of(stream).device))
    return *no;
  const double seconds =
    static_cast<double>(bytes) / static_cast<double>(world_->options.copy_bytes_per_s);
  world_->put(of(stream), {.takes = duration{static_cast<std::int64_t>(seconds * 1e9)},
                           .name = "copy",
                           .run = [=](const launch_site&) {
                             std::memcpy(to, from, bytes);
                             return device_answer{};
                           }});
  return {};
}

device_answer fake_backend::post(native_stream stream, void (*call)(void*), void* argument) {
  lock_t lock{world_->mutex};
  if (auto no = world_->hit(lock, "post", of(stream).device))
    return *no;
  world_->put(of(stream), {.is = fake_item::what::post, .call = call, .argument = argument});
  return {};
}

// --- collectives

device_answer fake_backend::get_unique_id(unique_id& out) {
  lock_t lock{world_->mutex};
  if (auto no = world_->hit(lock, "comm_get_unique_id", 0, true))
    return *no;
  const auto key = ++world_->keys;
  std::memcpy(out.bytes, &key, sizeof key);
  return {};
}

device_answer fake_backend::open(std::uint32_t device, const unique_id& key, std::uint32_t size,
                                 std::uint32_t rank, native_comm& out) {
  lock_t lock{world_->mutex};
  if (auto no = world_->hit(lock, "comm_open", device))
    return *no;
  auto& slot = world_->groups[std::string(reinterpret_cast<const char*>(key.bytes), sizeof key)];
  auto group = slot.lock();
  if (!group) {
    group = std::make_shared<fake_group>();
    group->size = size;
    slot = group;
  }
  if (group->size != size || !group->joined.insert(rank).second)
    return {.status = device_status::invalid, .text = "size or rank does not fit the group"};
  auto made = std::make_unique<fake_comm>();
  made->of = std::move(group);
  made->device = device;
  made->rank = rank;
  out.handle = made.get();
  world_->comms.push_back(std::move(made));
  return {.status = device_status::not_ready};
}

device_answer fake_backend::status(native_comm comm) {
  lock_t lock{world_->mutex};
  if (auto no = world_->hit(lock, "comm_status", of(comm).device))
    return *no;
  const auto& c = of(comm);
  return c.of->joined.size() == c.of->size ? device_answer{}
                                           : device_answer{.status = device_status::not_ready};
}

device_answer fake_backend::all_reduce(native_comm comm, void* data, std::uint64_t count, bool bf16,
                                       native_stream stream) {
  lock_t lock{world_->mutex};
  if (auto no = world_->hit(lock, "comm_all_reduce", of(comm).device))
    return *no;
  auto& c = of(comm);
  const auto round = c.calls++;
  auto& place = c.of->rounds[round].data;
  place.resize(c.of->size, data);
  place[c.rank] = data;
  world_->put(of(stream), {.is = fake_item::what::collective,
                           .takes = world_->options.operation,
                           .name = "all_reduce",
                           .comm = &c,
                           .round = round,
                           .count = count,
                           .bf16 = bf16});
  return {};
}

device_answer fake_backend::close(native_comm comm) { return abort(comm); }

device_answer fake_backend::abort(native_comm comm) {
  lock_t lock{world_->mutex};
  if (auto no = world_->hit(lock, "comm_abort", of(comm).device, true))
    return *no;
  of(comm).aborted = true;
  auto at = std::find_if(world_->comms.begin(), world_->comms.end(),
                         [&](const auto& c) { return c.get() == comm.handle; });
  world_->aborted_comms.push_back(std::move(*at));
  world_->comms.erase(at);
  world_->changed->notify_all();
  return {};
}

} // namespace troupe
