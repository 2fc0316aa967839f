#include <troupe/device/device.hpp>

#include <algorithm>
#include <utility>

#include <troupe/device/comm_set.hpp>
#include <troupe/device/detail/device_core.hpp>

namespace troupe {

// --- handles

const std::string& device_stream::name() const { return state_->name; }
native_stream device_stream::native() const { return state_->native; }
const char* stream_event::operation() const { return state_->operation; }

void device_memory::used_on(const device_stream& stream) const {
  if (!state_ || !stream || stream.native().handle == state_->block.stream.handle)
    return;
  std::lock_guard lock{state_->mutex};
  auto& all = state_->used_on;
  if (std::find(all.begin(), all.end(), stream.state_) == all.end())
    all.push_back(stream.state_);
}

std::shared_ptr<void> device_memory::owner() const { return state_; }

// --- the device

device::device(std::shared_ptr<detail::device_core> core)
  : core_{std::move(core)}, comms_{std::make_unique<comm_set>(core_)} {}

/// Waits for nothing: it may be the end of an actor.
device::~device() {
  auto& core = *core_;
  if (!core.calls.shut())
    return;
  auto why = make_failure(errc::wrong_state, to_string(core.id) + ": the device was not closed");
  core.health->fail(why);
  comms_->abandon();
  core.poller->stop(why);
  if (core.poller_thread && core.poller_thread->ended())
    core.poller_thread->join();
  else if (core.poller_thread)
    core.poller_thread->abandon();
  core.returns.shut();
  // Says nothing: the last handle may go after the environment, with an operation that never ended.
  (void)core.pool.abandon();
  (void)core.host_pool.abandon();
}

result<std::shared_ptr<device>> device::open(const environment& env,
                                             std::shared_ptr<device_backend> backend,
                                             std::uint32_t index, device_options options) {
  const device_id id{backend->kind(), index};
  auto count = backend->count();
  if (!count)
    return count.error();
  if (index >= *count)
    return make_failure(
      errc::device_unavailable,
      to_string(id) + " does not exist; number of devices of that kind: " + std::to_string(*count));
  auto facts = backend->describe(index);
  if (!facts)
    return facts.error();
  auto core = std::make_shared<detail::device_core>(env, std::move(backend), index, options);
  core->facts = std::move(*facts);
  if (auto answer = core->backend->bind(index); !answer.ok())
    return core->fail({}, "bind", answer);
  std::shared_ptr<device> out{new device{core}};
  core->next_probe = after(env.clock.now(), options.check_every);
  core->poller->also([weak = std::weak_ptr{core}](time_point now) {
    if (auto there = weak.lock())
      there->probe_streams(now);
  });
  core->poller_thread =
    env.threads.start("poll-" + to_string(id), [poller = core->poller] { poller->run(); });
  trace(env, "device.opened", {{"device", to_string(id)}, {"name", core->facts.name}});
  return out;
}

const device_id& device::id() const { return core_->id; }
const device_facts& device::facts() const { return core_->facts; }
comm_set& device::comms() { return *comms_; }
std::optional<failure> device::why_failed() const { return core_->health->why(); }
void device::on_failure(std::function<void(const failure&)> call) {
  core_->health->listen(std::move(call));
}
std::uint64_t device::heartbeats() const { return core_->poller->rounds(); }
void device::give_up(failure why) { core_->health->fail(std::move(why)); }
void device::trim() {
  const detail::call_pass pass{core_->calls};
  if (!pass || why_failed())
    return;
  core_->bind();
  core_->pool.trim();
  core_->host_pool.trim();
}

device_statistics device::statistics() const {
  device_statistics out{.memory = core_->pool.statistics(),
                        .host_memory = core_->host_pool.statistics(),
                        .operations = core_->operations.load(),
                        .events_open = core_->poller->open()};
  std::lock_guard lock{core_->mutex};
  out.streams = static_cast<std::uint32_t>(std::count_if(
    core_->streams.begin(), core_->streams.end(), [](const auto& s) { return !s->retired; }));
  return out;
}

// --- work

result<device_stream> device::make_stream(std::string name) {
  const detail::call_pass pass{core_->calls};
  if (auto why = core_->refuse("make_stream", pass))
    return std::move(*why);
  auto state = std::make_shared<detail::stream_state>();
  state->name = std::move(name);
  device_stream out;
  out.state_ = state;
  {
    std::lock_guard lock{core_->mutex};
    auto& all = core_->streams;
    auto at = std::find_if(all.begin(), all.end(), [](const auto& s) { return s->retired; });
    if (at != all.end()) {
      state->native = (*at)->native;
      *at = std::move(state);
      return out;
    }
    if (all.size() >= core_->options.streams_max)
      return make_failure(errc::out_of_range,
                          to_string(id()) + ": make_stream '" + state->name + "': there are "
                            + std::to_string(core_->options.streams_max) + " already, the maximum");
  }
  core_->bind();
  auto answer = core_->backend->make_stream(id().index, state->name, state->native);
  if (!answer.ok())
    return core_->fail(state->name, "make_stream", answer);
  std::lock_guard lock{core_->mutex};
  core_->streams.push_back(std::move(state));
  return out;
}

void device::retire(const device_stream& stream) {
  if (!stream)
    return;
  std::lock_guard lock{core_->mutex};
  stream.state_->retired = true;
}

namespace {

failure no_stream(const device_id& id, const char* what) {
  return make_failure(errc::invalid_argument,
                      to_string(id) + ": " + what + ": the stream is empty");
}

failure no_event(const device_id& id, const char* what) {
  return make_failure(errc::invalid_argument, to_string(id) + ": " + what + ": the event is empty");
}

} // namespace

result<void> device::enqueue(const device_stream& stream, const device_op& op) {
  const detail::call_pass pass{core_->calls};
  if (auto why = core_->refuse(op.name, pass))
    return std::move(*why);
  if (!stream)
    return no_stream(id(), op.name);
  core_->bind();
  core_->operations.fetch_add(1, std::memory_order_relaxed);
  auto answer = core_->backend->run(stream.native(), op);
  if (!answer.ok())
    return core_->fail(stream.name(), op.name, answer);
  return {};
}

stream_event device::event_for(const device_stream& stream, const char* operation,
                               device_answer& answer) {
  stream_event out;
  out.state_ = std::make_shared<detail::event_state>(core_, stream.state_, operation);
  answer = out.state_->record();
  return out;
}

result<stream_event> device::submit(const device_stream& stream, device_op op) {
  const detail::call_pass pass{core_->calls}; // of the event
  if (auto put = enqueue(stream, op); !put)
    return put.error();
  device_answer answer;
  auto out = event_for(stream, op.name, answer);
  if (!answer.ok())
    return core_->fail(stream.name(), op.name, answer);
  return out;
}

result<stream_event> device::copy(const device_stream& stream, void* to, const void* from,
                                  std::size_t bytes, copy_kind kind) {
  const detail::call_pass pass{core_->calls};
  if (auto why = core_->refuse("copy", pass))
    return std::move(*why);
  if (!stream)
    return no_stream(id(), "copy");
  if (bytes != 0 && (!to || !from))
    return make_failure(errc::invalid_argument, to_string(id()) + " stream '" + stream.name()
                                                  + "': copy of " + std::to_string(bytes)
                                                  + " bytes: an address is null");
  core_->bind();
  core_->operations.fetch_add(1, std::memory_order_relaxed);
  auto answer =
    bytes == 0 ? device_answer{} : core_->backend->copy(stream.native(), to, from, bytes, kind);
  stream_event out;
  if (answer.ok())
    out = event_for(stream, "copy", answer);
  if (!answer.ok())
    return core_->fail(stream.name(), "copy", answer);
  return out;
}

result<stream_event> device::record_event(const device_stream& stream) {
  const detail::call_pass pass{core_->calls};
  if (auto why = core_->refuse("record_event", pass))
    return std::move(*why);
  if (!stream)
    return no_stream(id(), "record_event");
  core_->bind();
  device_answer answer;
  auto out = event_for(stream, "record_event", answer);
  if (!answer.ok())
    return core_->fail(stream.name(), "record_event", answer);
  return out;
}

result<void> device::wait_event(const device_stream& stream, const stream_event& event) {
  const detail::call_pass pass{core_->calls};
  if (auto why = core_->refuse("wait_event", pass))
    return std::move(*why);
  if (!stream)
    return no_stream(id(), "wait_event");
  if (!event)
    return no_event(id(), "wait_event");
  if (event.state_->core->backend != core_->backend)
    return make_failure(errc::invalid_argument, to_string(id()) + ": wait_event: the event is of "
                                                  + to_string(event.state_->core->id));
  core_->bind();
  stream.state_->stand_behind(event.state_->guards);
  auto answer = core_->backend->depend(stream.native(), event.state_->native);
  if (!answer.ok())
    return core_->fail(stream.name(), event.operation(), answer);
  return {};
}

result<bool> device::passed(const stream_event& event) {
  if (!event)
    return no_event(id(), "passed");
  auto& e = *event.state_;
  if (auto why = e.core->refuse("passed"))
    return std::move(*why);
  e.core->bind();
  auto answer = e.core->backend->query(e.native);
  if (answer.status == device_status::not_ready)
    return false;
  if (!answer.ok())
    return e.core->fail(e.stream->name, e.operation, answer);
  if (auto good = e.settled(); !good)
    return good.error();
  return true;
}

result<void> device::wait(const stream_event& event, duration timeout) {
  if (!event)
    return no_event(id(), "wait");
  constexpr duration look_up = std::chrono::milliseconds{50};
  auto& e = *event.state_;
  auto& core = *e.core;
  core.bind();
  const auto deadline = after(core.env.clock.now(), timeout);
  duration waited{}; // of this thread, as long as it did not sleep through it
  for (;;) {
    if (auto why = core.refuse("wait"))
      return std::move(*why);
    const auto now = core.env.clock.now();
    const auto patience = std::min(look_up, core.options.hang_after - waited);
    auto answer = core.backend->await(e.native, std::min(deadline, after(now, patience)));
    if (auto why = e.broken())
      return std::move(*why);
    if (answer.ok())
      return e.settled();
    if (answer.status != device_status::not_ready)
      return core.fail(e.stream->name, e.operation, answer);
    const auto then = core.env.clock.now();
    waited += std::min(then - now, 2 * look_up);
    if (waited >= core.options.hang_after)
      return e.hangs();
    if (then >= deadline)
      return make_failure(errc::device_timeout, to_string(core.id) + " stream '" + e.stream->name
                                                  + "': operation '" + e.operation
                                                  + "' has not finished after "
                                                  + std::to_string(to_ms(timeout)) + " ms");
  }
}

result<void> device::notify(const stream_event& event,
                            std::function<void(const result<void>&)> call) {
  if (!event)
    return no_event(id(), "notify");
  auto& e = *event.state_;
  auto& core = *e.core; // the event's device, which need not be this one
  const detail::call_pass pass{core.calls};
  if (auto why = core.refuse("notify", pass))
    return std::move(*why);
  if (!core.poller->add({.event = event.state_, .call = std::move(call)}, core.options.notify_max))
    return make_failure(errc::try_again, to_string(core.id) + " stream '" + e.stream->name
                                           + "': notify: " + std::to_string(core.options.notify_max)
                                           + " events are open");
  // A hint only: the poller finds what passed in any case.
  core.bind();
  auto* ticket = core.poller->ticket();
  if (!core.backend->post(e.stream->native, detail::event_poller::posted, ticket).ok())
    core.poller->take_back(ticket);
  return {};
}

// --- memory

namespace {

result<device_memory> no_memory(const detail::device_core& core, std::size_t bytes, bool host,
                                const pool_statistics& pool, const device_answer& answer) {
  return make_failure(
    errc::device_memory,
    to_string(core.id) + (host ? ": pinned host memory: " : ": memory: ") + std::to_string(bytes)
      + " bytes requested, " + std::to_string(pool.bytes_in_use) + " in use, "
      + std::to_string(pool.bytes_cached) + " cached, " + std::to_string(core.facts.memory_bytes)
      + " in all: " + to_string(answer));
}

} // namespace

result<device_memory> device::allocate(std::size_t bytes, const device_stream& stream) {
  return allocate_from(false, bytes, stream);
}

result<device_memory> device::allocate_host(std::size_t bytes, const device_stream& stream) {
  return allocate_from(true, bytes, stream);
}

result<device_memory> device::allocate_from(bool host, std::size_t bytes,
                                            const device_stream& stream) {
  const detail::call_pass pass{core_->calls};
  if (auto why = core_->refuse("allocate", pass))
    return std::move(*why);
  if (!stream)
    return no_stream(id(), "allocate");
  core_->bind();
  auto& pool = host ? core_->host_pool : core_->pool;
  pool_block block;
  auto answer = pool.take(bytes, stream.native(), block);
  if (answer.status == device_status::out_of_memory)
    return no_memory(*core_, bytes, host, pool.statistics(), answer);
  if (!answer.ok())
    return core_->fail(stream.name(), "allocate", answer);
  device_memory out;
  out.state_ = std::make_shared<detail::memory_state>(core_, host, block);
  out.data_ = block.memory;
  out.bytes_ = bytes;
  return out;
}

device_memory device::adopt(std::shared_ptr<void> owner, void* data, std::size_t bytes) {
  device_memory out;
  out.state_ = std::make_shared<detail::memory_state>(core_, false, pool_block{.memory = data});
  out.state_->foreign = std::move(owner);
  out.data_ = data;
  out.bytes_ = bytes;
  return out;
}

// --- the end

result<void> device::close(duration timeout) {
  auto& core = *core_;
  if (!core.calls.shut())
    return core.health->is_well() ? result<void>{} : *core.health->why();
  const auto deadline = after(core.env.clock.now(), timeout);
  core.bind();
  // A collective that a member is missing from ends only with its communicator.
  if (comms_->open_count() != 0)
    drain(after(core.env.clock.now(), timeout / 2), false);
  if (!comms_->close(deadline))
    core.health->fail(
      make_failure(errc::device_timeout, to_string(core.id) + ": a communicator's abort hangs"));
  await_nobody(core.calls, deadline, "a running call");
  drain(deadline, true);
  stop_poller(deadline);
  core.returns.shut();
  await_nobody(core.returns, deadline, "memory being returned");
  if (auto why = core.health->why()) {
    core.abandon_all();
    return std::move(*why);
  }
  core.release_all();
  trace(core.env, "device.closed", {{"device", to_string(core.id)}});
  return {};
}

/// Waits until nobody is inside; whoever stays fails the device.
void device::await_nobody(detail::call_gate& gate, time_point deadline, const char* who) {
  auto& core = *core_;
  const auto at_least = after(core.env.clock.now(), std::chrono::milliseconds{200});
  if (core.health->is_well() && !gate.await_empty(std::max(deadline, at_least)))
    core.health->fail(
      make_failure(errc::device_timeout, to_string(core.id) + ": close: " + who + " does not end"));
}

void device::stop_poller(time_point deadline) {
  auto& core = *core_;
  core.poller->stop(core.health->is_well() ? make_failure(
                      errc::wrong_state, to_string(core.id) + ": the device was closed")
                                           : *core.health->why());
  // The poller may itself be what closes the device, or hang in a call of the driver.
  if (core.poller->await_end(
        std::max(deadline, after(core.env.clock.now(), std::chrono::milliseconds{200}))))
    core.poller_thread->join();
  else {
    core.poller_thread->abandon();
    core.health->fail(
      make_failure(errc::device_timeout, to_string(core.id) + ": the poller hangs"));
  }
}

/// Waits for what the streams still hold. `must`: what does not end fails the device.
void device::drain(time_point deadline, bool must) {
  auto& core = *core_;
  std::vector<std::shared_ptr<detail::stream_state>> streams;
  {
    std::lock_guard lock{core.mutex};
    streams = core.streams;
  }
  for (auto& s : streams) {
    if (!core.health->is_well())
      return;
    native_event event;
    auto answer = core.take_event(event);
    if (answer.ok())
      answer = core.backend->record(s->native, event);
    if (answer.ok())
      answer = core.backend->await(event, deadline);
    if (answer.status == device_status::not_ready && must)
      core.health->fail(device_failure(core.id, s->name, "close",
                                       {.status = answer.status, .text = "does not end"}));
    else if (!answer.ok() && answer.status != device_status::not_ready) {
      auto why = core.fail(s->name, "close", answer);
      if (must) // what the stream still uses can't be known
        core.health->fail(std::move(why));
    }
    core.return_event(event);
  }
}

} // namespace troupe
