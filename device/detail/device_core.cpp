#include <troupe/device/detail/device_core.hpp>

#include <utility>

namespace troupe::detail {

namespace {

/// Events kept for the next that is wanted.
constexpr std::size_t spare_events_max = 1'024;

pool_backend backend_of(device_core& core, bool host) {
  auto* c = &core; // the pool is a part of it
  pool_backend out;
  if (host) {
    out.allocate = [c](std::size_t bytes, void*& to) { return c->table->allocate_host(bytes, to); };
    out.release = [c](void* memory) { return c->table->release_host(memory); };
  } else {
    out.allocate = [c](std::size_t bytes, void*& to) {
      return c->table->allocate(c->id.index, bytes, to);
    };
    out.release = [c](void* memory) { return c->table->release(c->id.index, memory); };
  }
  out.mark = [c](native_stream stream, native_event& to) {
    auto answer = c->take_event(to);
    if (answer.ok()) {
      answer = c->table->record(stream, to);
      if (!answer.ok())
        c->return_event(std::exchange(to, {}));
    }
    return answer;
  };
  out.passed = [c](native_event event) { return c->table->query(event); };
  out.drop = [c](native_event event) { c->return_event(event); };
  return out;
}

} // namespace

device_core::device_core(const environment& e, std::shared_ptr<device_table> t, std::uint32_t index,
                         device_options o)
  : env{e},
    table{std::move(t)},
    id{table->kind(), index},
    options{o},
    pool{backend_of(*this, false), o.pool},
    host_pool{backend_of(*this, true), o.host_pool},
    poller{std::make_shared<event_poller>(e, table, id, health, o.poll_every, o.hang_after)} {}

device_core::~device_core() {
  // Handles of a device that was closed well may have brought memory and events since.
  if (health->is_well()) {
    bind();
    release_all();
  }
}

std::optional<failure> device_core::refuse(const char* what) const {
  if (!health->is_well())
    return health->why();
  if (closed)
    return make_failure(errc::wrong_state, to_string(id) + ": " + what + " after it was closed");
  return std::nullopt;
}

failure device_core::fail(const std::string& stream, const char* operation,
                          const device_answer& answer) {
  auto why = device_failure(id, stream, operation, answer);
  if (!is_final(answer.status) || health->fail(why))
    return why;
  return *health->why();
}

device_answer device_core::take_event(native_event& out) {
  {
    std::lock_guard lock{mutex};
    if (!spare_events.empty()) {
      out = spare_events.back();
      spare_events.pop_back();
      return {};
    }
  }
  auto answer = table->make_event(id.index, out);
  if (answer.ok()) {
    std::lock_guard lock{mutex};
    ++events_made;
  }
  return answer;
}

void device_core::return_event(native_event event) {
  if (!health->is_well())
    return; // left behind with the rest
  std::unique_lock lock{mutex};
  if (!closed && spare_events.size() < spare_events_max) {
    spare_events.push_back(event);
    return;
  }
  --events_made;
  lock.unlock();
  bind();
  (void)table->drop_event(event);
}

void device_core::release_all() {
  pool.trim(true);
  host_pool.trim(true);
  std::vector<native_event> events;
  std::vector<std::shared_ptr<stream_state>> gone;
  {
    std::lock_guard lock{mutex};
    events = std::exchange(spare_events, {});
    gone = std::exchange(streams, {});
    events_made -= events.size();
  }
  // Without the lock: a CPU stream goes once its lane has, which may be about to return an event.
  for (auto event : events)
    (void)table->drop_event(event);
  for (auto& s : gone)
    (void)table->drop_stream(std::exchange(s->native, {}));
}

void device_core::abandon_all() {
  const auto bytes = pool.abandon() + host_pool.abandon();
  std::lock_guard lock{mutex};
  trace(env, "device.abandoned",
        {{"device", to_string(id)},
         {"bytes", bytes},
         {"streams", streams.size()},
         {"events", events_made}});
  mark(env, "device.abandoned");
}

memory_state::~memory_state() {
  auto& pool = host ? core->host_pool : core->pool;
  if (!core->closed) {
    core->bind();
    if (host) // the host's own writes know no stream: not before what copies from there has ended
      used_on.push_back(block.stream);
    pool.give_back(block, used_on);
    return;
  }
  // All streams have ended, and are gone.
  pool.give_back({.memory = block.memory, .bytes = block.bytes, .stream = {}}, {});
  if (core->health->is_well()) {
    core->bind();
    pool.trim(true);
  }
}

} // namespace troupe::detail
