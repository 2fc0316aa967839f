#include <troupe/strategies/detail/cluster.hpp>

#include <troupe/actors/failure_classifier.hpp>
#include <troupe/strategies/remote_value.hpp>

namespace troupe {

cluster::cluster(const environment& env, std::shared_ptr<coordinator_shared> shared,
                 coordinator_actor actor, std::vector<std::uint32_t> servers, link_maker connect,
                 vault_maker open_vault, duration request_max)
  : env_{env},
    shared_{std::move(shared)},
    actor_{std::move(actor)},
    servers_{std::move(servers)},
    connect_{std::move(connect)},
    vaults_{
      [this, open = std::move(open_vault)](std::uint32_t server) { return open(server, term()); }},
    request_max_{request_max} {}

cluster::~cluster() = default;

void cluster::post(std::shared_ptr<coordinator_call> call) {
  coordinator_actor to;
  {
    std::lock_guard lock{mutex_};
    to = actor_;
  }
  if (to) // else the call is dropped, and says so to whoever waits for it
    tell_from_outside(to, run_call{.call = {.value = std::move(call)}});
}

void cluster::close() {
  std::lock_guard lock{mutex_};
  closed_ = true;
  actor_ = nullptr;
  free_.clear();
  vaults_.close();
}

void cluster::check_open(std::string_view what) const {
  if (closed_)
    throw_failure(errc::unavailable, std::string{what} + ": the runtime has ended");
}

class cluster::borrowed {
public:
  explicit borrowed(cluster& from) : from_{from} {
    from_.check_open("variable");
    std::lock_guard lock{from_.mutex_};
    if (!from_.free_.empty()) {
      thread_ = std::move(from_.free_.back());
      from_.free_.pop_back();
      return;
    }
    thread_ = std::make_unique<program_thread>();
    thread_->number = from_.threads_++;
    thread_->client = std::make_unique<parameter_client>(
      from_.env_, [&c = from_](variable_id id) { return c.spec_of(id); },
      [&c = from_](std::uint32_t server) { return c.connect_(server, c.term()); },
      parameter_client_options{.lane = thread_->number, .reply_max = from_.request_max_});
  }
  ~borrowed() {
    std::lock_guard lock{from_.mutex_};
    if (from_.closed_)
      return;
    from_.free_.push_back(std::move(thread_));
  }
  parameter_client& begin() {
    thread_->client->begin(program_call_id(), attempt_no{1},
                           {.task = {.job = job_kind::chief, .index = 0}});
    return *thread_->client;
  }

private:
  closure_id program_call_id() {
    return troupe::program_call(from_.term(), thread_->number, ++thread_->calls);
  }
  cluster& from_;
  std::unique_ptr<program_thread> thread_;
};

namespace {

/// A call asks for variables that were made: a server without them came in place of another.
template <class T>
result<T> named(result<T> answer) {
  if (answer || answer.error().code != errc::unknown_variable
      || answer.error().where.task.job != job_kind::ps)
    return answer;
  return came_back_empty(std::move(answer.error()));
}

} // namespace

std::vector<variable_value> cluster::read(std::span<const variable_id> variables) {
  borrowed thread{*this};
  return named(thread.begin().read(variables)).value_or_throw();
}

tensor cluster::gather(variable_id variable, const tensor& indices) {
  borrowed thread{*this};
  return named(thread.begin().gather(variable, indices)).value_or_throw();
}

void cluster::mutate(std::span<const mutation> ops) {
  borrowed thread{*this};
  auto& client = thread.begin();
  struct abandon_unless_done { // late answers are not the next call's
    parameter_client& client;
    bool done = false;
    ~abandon_unless_done() {
      if (!done)
        client.abandon();
    }
  } guard{client};
  named(client.mutate(ops)).value_or_throw();
  named(client.finish()).value_or_throw();
  guard.done = true;
}

void cluster::remember(std::shared_ptr<const variable_spec> spec) {
  std::lock_guard lock{mutex_};
  specs_[spec->id] = std::move(spec);
}

void cluster::forget(variable_id id) {
  std::lock_guard lock{mutex_};
  specs_.erase(id);
}

std::shared_ptr<const variable_spec> cluster::spec_of(variable_id id) const {
  std::lock_guard lock{mutex_};
  auto at = specs_.find(id);
  return at == specs_.end() ? nullptr : at->second;
}

// --- remote values
// ----------------------------------------------------------------------------------------------

const payload& remote_handle::wait() const { return *wait_until(never); }

const payload* remote_handle::wait_until(time_point deadline) const {
  if (!state_)
    throw_failure(errc::wrong_state, "fetch: this remote_value is empty");
  auto& shared = cluster_->shared();
  for (;;) {
    if (ended())
      break;
    cluster_->check_open("fetch");
    auto no_worker = shared.queue->no_worker_deadline();
    if (shared.board.wait(*state_, std::min(deadline, no_worker)))
      break;
    auto now = cluster_->env().clock.now();
    if (now >= deadline)
      return nullptr; // no error: it may end right now, and then the caller would see both
    if (now >= shared.queue->no_worker_deadline())
      throw_failure(shared.queue->no_worker_failure());
  }
  if (state_->status.load() != remote_status::ready)
    throw_failure(state_->why);
  return &state_->value;
}

bool remote_handle::ended() const {
  return state_ && state_->status.load() != remote_status::not_ready;
}

time_point remote_handle::deadline_in(duration d) const {
  if (!cluster_)
    throw_failure(errc::wrong_state, "fetch: this remote_value is empty");
  if (cluster_->closed())
    return never; // the value has ended; or fetching it says that the runtime has
  return after(cluster_->env().clock.now(), d);
}

} // namespace troupe
