#include <troupe/device/comm_set.hpp>

#include <algorithm>
#include <utility>

#include <troupe/device/detail/device_core.hpp>

namespace troupe {

namespace detail {

struct comm_table;

struct comm_state final : event_guard, std::enable_shared_from_this<comm_state> {
  group_epoch epoch{};
  comm_epochs of{};
  std::uint32_t rank = 0;
  std::uint32_t size = 0;
  native_comm native{};
  std::weak_ptr<comm_table> table{};
  std::uint64_t calls = 0; ///< of the table, under way; under the table's lock
  mutable std::mutex mutex{};
  std::optional<failure> why{}; ///< set: it ends, and the table must not be asked
  std::optional<failure> broken() const override {
    std::lock_guard lock{mutex};
    return why;
  }
  std::optional<failure> settled() override;
  void end(failure late) override;
  bool is_over() const { return of.has_ended(epoch); }
};

/// Shared with the threads that abort, which may outlive the device.
struct comm_table : std::enable_shared_from_this<comm_table> {
  explicit comm_table(std::shared_ptr<device_core> c)
    : core{c.get()},
      hold{c},
      env{c->env},
      functions{c->backend},
      id{c->id},
      changed{c->env.waits.make_point()} {}

  struct ending {
    std::shared_ptr<comm_state> comm{};
    std::unique_ptr<thread_handle> thread{};
    time_point deadline{};
    bool ended = false;
  };

  std::string name_of(const comm_state& c) const {
    return to_string(id) + " communicator of epoch " + std::to_string(value_of(c.epoch)) + ", rank "
           + std::to_string(c.rank) + " of " + std::to_string(c.size);
  }
  void end(const std::shared_ptr<comm_state>& c, failure why);
  void look(time_point now);
  /// Calls the table for a communicator, without a lock: the call may wait. `not_ready` for one
  /// that ends: it may be gone already.
  template <class Call>
  device_answer ask(comm_state& c, Call call) {
    {
      std::lock_guard lock{mutex};
      if (c.broken() || !c.native.handle)
        return {.status = device_status::not_ready};
      ++c.calls;
    }
    auto answer = call(*functions->collectives());
    std::lock_guard lock{mutex};
    if (--c.calls == 0)
      changed->notify_all();
    return answer;
  }
  device_answer status(comm_state& c) {
    return ask(c, [&](collective_backend& t) { return t.status(c.native); });
  }
  /// Waits until an abort may begin. A GPU's library must not be called beside it; on CPUs it is
  /// what frees a call that waits for a queue.
  bool may_abort(const comm_state& c, time_point deadline) {
    if (functions->kind() == device_kind::cpu)
      return true;
    std::unique_lock lock{mutex};
    return wait_for(*changed, lock, deadline, [&] { return c.calls == 0; });
  }
  std::shared_ptr<device_core> alive() const { return hold.lock(); }

  device_core* const core; ///< only under `alive`
  const std::weak_ptr<device_core> hold;
  const environment env;
  const std::shared_ptr<device_backend> functions;
  const device_id id;
  mutable std::mutex mutex{};
  const std::unique_ptr<wait_point> changed;
  std::vector<std::shared_ptr<comm_state>> open{};
  std::vector<std::shared_ptr<ending>> endings{};
  comm_epochs own{}; ///< of who brings none
  bool closing = false;
};

/// Marks it broken and has it aborted; the first reason stays.
void comm_table::end(const std::shared_ptr<comm_state>& c, failure why) {
  {
    std::lock_guard lock{c->mutex};
    if (c->why)
      return;
    c->why = std::move(why);
  }
  auto core_now = alive();
  const auto abort_max = core_now ? core_now->options.abort_max : duration{};
  auto job = std::make_shared<ending>();
  job->comm = c;
  job->deadline = after(env.clock.now(), abort_max);
  {
    std::lock_guard lock{mutex};
    std::erase(open, c);
    endings.push_back(job);
  }
  mark(env, "device.comm_aborted");
  auto body = [self = shared_from_this(), job] {
    if (!self->may_abort(*job->comm, job->deadline))
      return; // `look` gives the device up
    (void)self->functions->bind(self->id.index);
    (void)self->functions->collectives()->abort(job->comm->native);
    std::lock_guard lock{self->mutex};
    job->ended = true;
    self->changed->notify_all();
  };
  auto thread = env.threads.start("abort-" + to_string(id), std::move(body));
  std::lock_guard lock{mutex};
  if (std::find(endings.begin(), endings.end(), job) == endings.end())
    thread->abandon(); // the device was dropped meanwhile
  job->thread = std::move(thread);
}

/// The poller's round: communicators that broke by themselves, aborts that ended or hang.
void comm_table::look(time_point now) {
  std::vector<std::shared_ptr<comm_state>> all;
  std::vector<std::shared_ptr<ending>> over, hang;
  {
    std::lock_guard lock{mutex};
    all = open;
    std::erase_if(endings, [&](const std::shared_ptr<ending>& e) {
      if (!e->thread || !(e->ended || now >= e->deadline))
        return false;
      (e->ended ? over : hang).push_back(e);
      return true;
    });
  }
  for (auto& c : all)
    if (auto answer = status(*c); !answer.ok() && answer.status != device_status::not_ready)
      end(c, make_failure(errc::collective_failed, name_of(*c) + ": " + to_string(answer)));
  for (auto& e : over)
    e->thread->join();
  for (auto& e : hang) {
    e->thread->abandon();
    if (auto core_now = alive())
      core_now->health->fail(
        make_failure(errc::device_timeout, name_of(*e->comm) + ": the communicator's abort hangs"));
  }
}

std::optional<failure> comm_state::settled() {
  if (auto t = table.lock())
    if (auto answer = t->status(*this); !answer.ok() && answer.status != device_status::not_ready)
      t->end(shared_from_this(),
             make_failure(errc::collective_failed, t->name_of(*this) + ": " + to_string(answer)));
  return broken();
}

void comm_state::end(failure late) {
  if (auto t = table.lock()) {
    late.text = t->name_of(*this) + ": " + late.text;
    t->end(shared_from_this(), std::move(late));
  }
}

} // namespace detail

group_epoch device_comm::epoch() const { return state_->epoch; }
std::uint32_t device_comm::rank() const { return state_->rank; }
std::uint32_t device_comm::size() const { return state_->size; }
std::optional<failure> device_comm::broken() const { return state_->broken(); }

void comm_epochs::end(group_epoch epoch) const {
  const auto below = static_cast<std::uint64_t>(epoch) + 1;
  auto now = ended_->load();
  while (now < below && !ended_->compare_exchange_weak(now, below))
    ;
}

comm_set::comm_set(std::shared_ptr<detail::device_core> core)
  : table_{std::make_shared<detail::comm_table>(core)} {
  if (core->backend->collectives())
    core->poller->also([weak = std::weak_ptr{table_}](time_point now) {
      if (auto t = weak.lock())
        t->look(now);
    });
}

comm_set::~comm_set() = default;

std::optional<failure> comm_set::why_none() const {
  if (table_->functions->collectives())
    return std::nullopt;
  return make_failure(errc::device_unavailable, to_string(table_->id) + ": collectives: "
                                                  + table_->functions->why_no_collectives());
}

result<unique_id> comm_set::get_unique_id() {
  if (auto why = why_none())
    return std::move(*why);
  auto* functions = table_->functions->collectives();
  unique_id out;
  if (auto answer = functions->get_unique_id(out); !answer.ok())
    return make_failure(
      errc::collective_failed,
      to_string(table_->id) + ": create a unique id for a communicator: " + to_string(answer));
  return out;
}

namespace {

/// Asks until the communicator is ready; looks up often enough that a revoke is seen soon.
result<void> await_ready(detail::comm_table& t, detail::comm_state& c, time_point deadline) {
  for (;;) {
    auto answer = t.status(c);
    if (auto why = c.broken())
      return std::move(*why);
    if (answer.ok())
      return {};
    if (answer.status != device_status::not_ready)
      return make_failure(errc::collective_failed, t.name_of(c) + ": " + to_string(answer));
    const auto now = t.env.clock.now();
    if (now >= deadline)
      return make_failure(errc::deadline, t.name_of(c) + ": deadline exceeded waiting for members");
    std::unique_lock lock{t.mutex};
    (void)t.changed->wait_until(lock,
                                std::min(deadline, after(now, std::chrono::microseconds{200})));
  }
}

} // namespace

result<device_comm> comm_set::open(group_epoch epoch, const unique_id& key, std::uint32_t size,
                                   std::uint32_t rank, duration timeout) {
  return open(epoch, key, size, rank, timeout, table_->own);
}

result<device_comm> comm_set::open(group_epoch epoch, const unique_id& key, std::uint32_t size,
                                   std::uint32_t rank, duration timeout, const comm_epochs& of) {
  auto& core = *table_->core;
  auto* functions = core.backend->collectives();
  const detail::call_pass pass{core.calls};
  if (auto why = core.refuse("open a communicator", pass))
    return std::move(*why);
  if (auto why = why_none())
    return std::move(*why);
  if (size == 0 || rank >= size)
    return make_failure(errc::invalid_argument, to_string(core.id) + ": communicator: rank is "
                                                  + std::to_string(rank) + " of "
                                                  + std::to_string(size));
  auto state = std::make_shared<detail::comm_state>();
  state->epoch = epoch;
  state->of = of;
  state->rank = rank;
  state->size = size;
  state->table = table_;
  {
    std::lock_guard lock{table_->mutex};
    if (state->is_over())
      return make_failure(errc::revoked, table_->name_of(*state) + ": the epoch has ended");
    if (table_->open.size() + table_->endings.size() >= core.options.comms_max)
      return make_failure(errc::out_of_range, to_string(core.id) + ": "
                                                + std::to_string(core.options.comms_max)
                                                + " communicators are open");
  }
  core.bind();
  auto answer = functions->open(core.id.index, key, size, rank, state->native);
  if (!answer.ok() && answer.status != device_status::not_ready)
    return make_failure(errc::collective_failed,
                        table_->name_of(*state) + ": " + to_string(answer));
  bool too_late = false;
  {
    std::lock_guard lock{table_->mutex};
    too_late = state->is_over() || table_->closing;
    table_->open.push_back(state);
  }
  auto ready =
    too_late
      ? result<void>{make_failure(errc::revoked, table_->name_of(*state) + ": the epoch has ended")}
      : await_ready(*table_, *state, after(core.env.clock.now(), timeout));
  if (!ready) {
    table_->end(state, ready.error());
    return ready.error();
  }
  device_comm out;
  out.state_ = std::move(state);
  return out;
}

result<stream_event> comm_set::all_reduce(const device_comm& comm, const device_stream& stream,
                                          void* data, std::uint64_t count, dtype type) {
  auto& core = *table_->core;
  const detail::call_pass pass{core.calls};
  if (auto why = core.refuse("all_reduce", pass))
    return std::move(*why);
  if (!comm || !stream)
    return make_failure(errc::invalid_argument,
                        to_string(core.id) + ": all_reduce: no communicator or no stream");
  if (type != dtype::f32 && type != dtype::bf16)
    return make_failure(errc::dtype_mismatch, to_string(core.id) + ": all_reduce: type is "
                                                + to_string(type) + ", expected f32 or bf16");
  if (auto why = comm.broken())
    return std::move(*why);
  core.bind();
  ++core.operations;
  stream.state_->stand_behind({comm.state_});
  auto answer = table_->ask(*comm.state_, [&](collective_backend& t) {
    return t.all_reduce(comm.state_->native, data, count, type == dtype::bf16, stream.native());
  });
  if (answer.status == device_status::not_ready) {
    auto ready =
      await_ready(*table_, *comm.state_, after(core.env.clock.now(), core.options.hang_after));
    if (!ready) {
      table_->end(comm.state_, ready.error());
      return ready.error();
    }
  } else if (!answer.ok()) {
    if (is_final(answer.status) && !core.backend->health(core.id.index).ok())
      return core.fail(stream.name(), "all_reduce", answer);
    auto why = make_failure(errc::collective_failed,
                            table_->name_of(*comm.state_) + ": all_reduce: " + to_string(answer));
    table_->end(comm.state_, why);
    return comm.broken().value_or(why); // it may have been ended meanwhile
  }
  return record_event(comm, stream);
}

result<stream_event> comm_set::record_event(const device_comm& comm, const device_stream& stream) {
  auto& core = *table_->core;
  const detail::call_pass pass{core.calls};
  if (auto why = core.refuse("all_reduce", pass))
    return std::move(*why);
  stream.state_->stand_behind({comm.state_});
  stream_event out;
  out.state_ =
    std::make_shared<detail::event_state>(core.shared_from_this(), stream.state_, "all_reduce");
  if (auto made = out.state_->record(); !made.ok())
    return core.fail(stream.name(), "all_reduce", made);
  return out;
}

void comm_set::revoke(group_epoch epoch, const std::string& reason) {
  revoke(epoch, reason, table_->own);
}

void comm_set::revoke(group_epoch epoch, const std::string& reason, const comm_epochs& of) {
  of.end(epoch); // before the look at what is open: whoever opens one looks here after that
  std::vector<std::shared_ptr<detail::comm_state>> over;
  {
    std::lock_guard lock{table_->mutex};
    for (auto& c : table_->open)
      if (c->of.ended_ == of.ended_ && c->epoch <= epoch)
        over.push_back(c);
  }
  for (auto& c : over)
    table_->end(c, make_failure(errc::revoked, table_->name_of(*c) + ": " + reason));
}

std::uint32_t comm_set::open_count() const {
  std::lock_guard lock{table_->mutex};
  return static_cast<std::uint32_t>(table_->open.size() + table_->endings.size());
}

void comm_set::abandon() {
  std::lock_guard lock{table_->mutex};
  for (auto& e : table_->endings)
    if (e->thread)
      e->thread->abandon();
  table_->endings.clear();
}

bool comm_set::close(time_point deadline) {
  std::vector<std::shared_ptr<detail::comm_state>> all;
  {
    std::lock_guard lock{table_->mutex};
    table_->closing = true;
    all = table_->open;
  }
  for (auto& c : all)
    table_->end(c, make_failure(errc::revoked, table_->name_of(*c) + ": the device is closed"));
  for (bool in_vain = false;;) {
    table_->look(table_->env.clock.now());
    std::unique_lock lock{table_->mutex};
    if (table_->endings.empty())
      return true;
    const auto now = table_->env.clock.now();
    if (now >= deadline || in_vain) {
      for (auto& e : table_->endings)
        if (e->thread)
          e->thread->abandon();
      table_->endings.clear();
      return false;
    }
    (void)table_->changed->wait_until(
      lock, std::min(deadline, after(now, std::chrono::milliseconds{10})));
    in_vain = detail::waits_in_vain(table_->env, now);
  }
}

} // namespace troupe
