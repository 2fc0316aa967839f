#include <troupe/device/detail/device_core.hpp>

#include <algorithm>
#include <utility>

namespace troupe::detail {

namespace {

/// Events kept for the next that is wanted.
constexpr std::size_t spare_events_max = 1'024;

pool_backend backend_of(device_core& core, bool host) {
  auto* c = &core; // the pool is a part of it
  pool_backend out;
  if (host) {
    out.allocate = [c](std::size_t bytes, void*& to) {
      return c->backend->allocate_host(bytes, to);
    };
    out.release = [c](void* memory) { return c->backend->release_host(memory); };
  } else {
    out.allocate = [c](std::size_t bytes, void*& to) {
      return c->backend->allocate(c->id.index, bytes, to);
    };
    out.release = [c](void* memory) { return c->backend->release(c->id.index, memory); };
  }
  out.record_event = [c](native_stream stream, native_event& to) {
    auto answer = c->take_event(to);
    if (answer.ok()) {
      answer = c->backend->record(stream, to);
      if (!answer.ok())
        c->return_event(std::exchange(to, {}));
    }
    return answer;
  };
  out.passed = [c](native_event event) { return c->backend->query(event); };
  out.drop = [c](native_event event) { c->return_event(event); };
  return out;
}

} // namespace

device_core::device_core(const environment& e, std::shared_ptr<device_backend> t,
                         std::uint32_t index, device_options o)
  : env{e},
    backend{std::move(t)},
    id{backend->kind(), index},
    options{o},
    pool{backend_of(*this, false), o.pool},
    host_pool{backend_of(*this, true), o.host_pool},
    poller{std::make_shared<event_poller>(e, backend, id, health, o.poll_every, o.hang_after)},
    calls{e},
    returns{e} {}

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
  if (calls.is_shut())
    return make_failure(errc::wrong_state,
                        to_string(id) + ": " + what + " after the device was closed");
  return std::nullopt;
}

std::optional<failure> device_core::refuse(const char* what, const call_pass& pass) const {
  if (pass && health->is_well())
    return std::nullopt;
  return refuse(what);
}

failure device_core::fail(const std::string& stream, const char* operation, device_answer answer) {
  // A number that the backend does not know may be a mere no of a GPU's runtime. What ends the
  // device is told by every later call.
  if (answer.status == device_status::failed && id.kind == device_kind::gpu
      && backend->health(id.index).ok())
    answer.status = device_status::invalid;
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
  auto answer = backend->make_event(id.index, out);
  if (answer.ok()) {
    std::lock_guard lock{mutex};
    ++events_made;
  }
  return answer;
}

void device_core::return_event(native_event event) {
  if (!event.handle || !health->is_well())
    return; // none, or left behind with the rest
  std::unique_lock lock{mutex};
  if (!ended && spare_events.size() < spare_events_max) {
    spare_events.push_back(event);
    return;
  }
  --events_made;
  lock.unlock();
  bind();
  (void)backend->drop_event(event);
}

void device_core::release_all() {
  pool.trim(true);
  host_pool.trim(true);
  std::vector<native_event> events;
  std::vector<std::shared_ptr<void>> released;
  std::vector<std::shared_ptr<stream_state>> gone;
  {
    std::lock_guard lock{mutex};
    ended = true;
    events = std::exchange(spare_events, {});
    gone = std::exchange(streams, {});
    released = std::exchange(kept, {});
    events_made -= events.size();
  }
  // Without the lock: a CPU stream goes once its thread has, which may be about to return an event.
  for (auto event : events)
    (void)backend->drop_event(event);
  for (auto& s : gone)
    (void)backend->drop_stream(s->native);
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

void stream_state::stand_behind(const event_guards& some) {
  std::lock_guard lock{mutex_};
  for (const auto& guard : some) {
    const bool broken = guard->broken().has_value();
    auto at = std::find_if(behind_.begin(), behind_.end(), [&](const guarded& g) {
      return g.by == guard || (broken && g.by->broken()); // one that broke stands for all
    });
    if (at == behind_.end())
      at = behind_.insert(at, {.by = guard});
    at->place = ++last_;
  }
}

event_guards stream_state::guards(std::uint64_t& place) const {
  std::lock_guard lock{mutex_};
  place = last_;
  event_guards out;
  for (const auto& g : behind_)
    out.push_back(g.by);
  return out;
}

void stream_state::settled(std::uint64_t place) {
  std::lock_guard lock{mutex_};
  std::erase_if(behind_, [&](const guarded& g) { return g.place <= place; });
}

device_answer event_state::record() {
  auto answer = core->take_event(native);
  return answer.ok() ? core->backend->record(stream->native, native) : answer;
}

std::optional<failure> event_state::broken() {
  for (auto& guard : guards)
    if (auto why = guard->broken()) {
      if (!tells_nobody)
        stream->settled(place);
      return why;
    }
  return std::nullopt;
}

result<void> event_state::settled() {
  if (tells_nobody)
    return {};
  std::optional<failure> why;
  for (auto& guard : guards)
    if (!why)
      why = guard->settled();
  stream->settled(place);
  return why ? result<void>{std::move(*why)} : result<void>{};
}

failure event_state::hangs() {
  auto why = device_failure(core->id, stream->name, operation,
                            {.status = device_status::not_ready, .text = "hangs"});
  if (guards.empty()) {
    core->health->fail(why);
    return *core->health->why();
  }
  // A member that does not come is no fault of the device's.
  for (auto& guard : guards)
    guard->end(make_failure(errc::collective_failed, why.text + ", a member may be missing"));
  return broken().value_or(why);
}

void device_core::probe_streams(time_point now) {
  const call_pass pass{calls};
  if (now < next_probe || !pass || !health->is_well())
    return;
  next_probe = troupe::after(now, options.check_every);
  std::vector<std::shared_ptr<stream_state>> all;
  {
    std::lock_guard lock{mutex};
    all = streams;
  }
  for (const auto& stream : all) {
    if (!stream->probe.expired())
      continue;
    auto e = std::make_shared<event_state>(shared_from_this(), stream, "probe");
    e->tells_nobody = true;
    auto answer = e->record();
    if (answer.ok()) {
      stream->probe = e;
      (void)poller->add({.event = std::move(e), .call = [](const result<void>&) {}},
                        ~std::uint32_t{0});
    } else if (is_final(answer.status)) {
      (void)fail(stream->name, "probe", answer);
      return;
    }
  }
}

void device_core::let_go(std::shared_ptr<void> what,
                         const std::vector<std::shared_ptr<stream_state>>& after) {
  const call_pass pass{returns};
  if (!pass || !health->is_well())
    return; // nothing runs any more
  bind();
  for (const auto& stream : after) {
    auto e = std::make_shared<event_state>(shared_from_this(), stream, "let go");
    e->guards.clear(); // a group that broke may still write there
    if (e->record().ok()) {
      // No more of them than of handles. Refused only once the streams have run out.
      (void)poller->add({.event = std::move(e), .call = [what](const result<void>&) {}},
                        ~std::uint32_t{0});
      continue;
    }
    std::lock_guard lock{mutex};
    kept.push_back(what);
  }
}

memory_state::~memory_state() {
  if (foreign) {
    core->let_go(std::move(foreign), used_on);
    return;
  }
  if (!core->health->is_well())
    return; // left behind with the rest
  auto& pool = host ? core->host_pool : core->pool;
  if (const call_pass pass{core->returns}) {
    core->bind();
    std::vector<native_stream> others;
    for (auto& s : used_on)
      others.push_back(s->native);
    if (host) // the host's own writes know no stream: not before what copies from there has ended
      others.push_back(block.stream);
    pool.give_back(block, others);
    return;
  }
  // All streams have run out.
  core->bind();
  pool.give_back({.memory = block.memory, .bytes = block.bytes, .stream = {}}, {});
  pool.trim(true);
}

} // namespace troupe::detail
