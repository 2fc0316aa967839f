#include <troupe/strategies/runtime/detail/coordinator_client.hpp>

#include <algorithm>

#include <troupe/actors/support/failure_classifier.hpp>
#include <troupe/messages/program.hpp>

namespace troupe {

coordinator_client::coordinator_client(const environment& env,
                                       std::shared_ptr<coordinator_shared> shared,
                                       coordinator_actor actor, std::vector<std::uint32_t> servers,
                                       link_maker connect,
                                       snapshot_reader_maker open_snapshot_reader,
                                       duration request_max)
  : env_{env},
    shared_{std::move(shared)},
    actor_{std::move(actor)},
    servers_{std::move(servers)},
    connect_{std::move(connect)},
    reader_pool_{[this, open = std::move(open_snapshot_reader)](std::uint32_t server) {
      return open(server, term());
    }},
    request_max_{request_max} {}

coordinator_client::~coordinator_client() = default;

void coordinator_client::post(std::shared_ptr<coordinator_call> call) {
  coordinator_actor to;
  {
    std::lock_guard lock{mutex_};
    to = actor_;
  }
  if (to) // else the call is dropped, and says so to whoever waits for it
    tell_from_outside(to, run_call{.call = {.value = std::move(call)}});
}

void coordinator_client::close() {
  std::lock_guard lock{mutex_};
  closed_ = true;
  actor_ = nullptr;
  free_.clear();
  reader_pool_.close();
}

void coordinator_client::check_open(std::string_view what) const {
  if (closed_)
    throw_failure(errc::unavailable, std::string{what} + ": the runtime has ended");
}

namespace {

/// "worker:0 to worker:3", or one after the other where there are gaps.
std::string words_for(const std::vector<std::uint32_t>& workers) {
  const auto name = [](std::uint32_t i) { return "worker:" + std::to_string(i); };
  if (workers.empty())
    return "none";
  if (workers.size() > 1 && workers.back() - workers.front() + 1 == workers.size())
    return name(workers.front()) + " to " + name(workers.back());
  std::string out;
  for (const auto each : workers)
    out += (out.empty() ? "" : ", ") + name(each);
  return out;
}

} // namespace

void coordinator_client::check_worker(std::uint32_t worker) {
  if (std::binary_search(workers_.begin(), workers_.end(), worker))
    return;
  if (others_join_) {
    const auto live = call<std::vector<worker_report_line>>(
      "schedule", request_max_, [](coordinator_state& s, auto done) { s.worker_lines(done); });
    for (const auto& line : live)
      if (line.worker == worker)
        return;
  }
  throw_failure(errc::out_of_range,
                "schedule: closure_options.worker is " + std::to_string(worker)
                  + ", the cluster's workers are " + words_for(workers_)
                  + (others_join_ ? ", and no further worker with that index has joined" : ""));
}

class coordinator_client::borrowed {
public:
  explicit borrowed(coordinator_client& from) : from_{from} {
    from_.check_open("variable");
    thread_ = take();
    call_ = program_call(from_.term(), thread_->number, ++thread_->calls);
  }
  ~borrowed() {
    std::lock_guard lock{from_.mutex_};
    if (from_.closed_)
      return;
    from_.free_.push_back(std::move(thread_));
  }
  /// Another try of this call: the servers' ledgers know what an earlier one has done.
  parameter_client& begin() {
    thread_->client->begin(call_, attempt_no{++tries_},
                           {.task = {.job = job_kind::chief, .index = 0}});
    return *thread_->client;
  }

private:
  std::unique_ptr<program_thread> take() {
    std::lock_guard lock{from_.mutex_};
    if (!from_.free_.empty()) {
      auto out = std::move(from_.free_.back());
      from_.free_.pop_back();
      return out;
    }
    auto out = std::make_unique<program_thread>();
    out->number = from_.threads_++;
    out->client = std::make_unique<parameter_client>(
      from_.env_, [&c = from_](variable_id id) { return c.spec_of(id); },
      [&c = from_](std::uint32_t server) { return c.connect_(server, c.term()); },
      parameter_client_options{.thread = out->number, .reply_max = from_.request_max_});
    return out;
  }
  coordinator_client& from_;
  std::unique_ptr<program_thread> thread_;
  closure_id call_{};
  std::uint32_t tries_ = 0;
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

constexpr duration first_pause = std::chrono::milliseconds{1};
constexpr duration longest_pause = std::chrono::milliseconds{500};

} // namespace

/// Tries `call` until it is not the way to a server that fails it, or the time is up. A server that
/// is lost ends it at once: its membership says so, and who dials it is told.
template <class F>
auto coordinator_client::persist(F call) -> decltype(call(std::declval<parameter_client&>())) {
  borrowed thread{*this};
  const auto until = after(env_.clock.now(), request_max_);
  for (duration pause = first_pause;; pause = std::min(2 * pause, longest_pause)) {
    auto& client = thread.begin();
    auto done = [&] { // late answers of what fails or throws are not the next try's or call's
      struct abandon_unless_done {
        parameter_client& client;
        bool is_done = false;
        ~abandon_unless_done() {
          if (!is_done)
            client.abandon();
        }
      } guard{client};
      auto answer = call(client);
      guard.is_done = static_cast<bool>(answer);
      return answer;
    }();
    if (done)
      return done;
    const auto& why = done.error();
    const bool passes = why.where.task.job == job_kind::ps && is_fault_of_the_way(why.code)
                        && !is_gone(why.where.task.index);
    if (!passes || after(env_.clock.now(), pause) >= until)
      return named(std::move(done));
    mark(env_, "cluster.program_call_tried_again");
    rest(pause);
  }
}

/// Whether the server is no member any more, or the cluster has ended.
bool coordinator_client::is_gone(std::uint32_t server) {
  if (closed_)
    return true;
  auto all = try_call<std::map<std::uint32_t, member>>(
    "servers", request_max_, [](coordinator_state& s, auto done) { s.server_members(done); });
  return !all || !all->contains(server);
}

/// The calling thread waits.
void coordinator_client::rest(duration d) {
  std::mutex mutex;
  std::unique_lock lock{mutex};
  auto point = env_.waits.make_point();
  const auto until = after(env_.clock.now(), d);
  while (env_.clock.now() < until)
    point->wait_until(lock, until);
}

std::vector<variable_value> coordinator_client::read(std::span<const variable_id> variables) {
  return persist([&](parameter_client& client) { return client.read(variables); }).value_or_throw();
}

tensor coordinator_client::gather(variable_id variable, const tensor& indices) {
  return persist([&](parameter_client& client) { return client.gather(variable, indices); })
    .value_or_throw();
}

void coordinator_client::mutate(std::span<const mutation> ops) {
  persist([&](parameter_client& client) {
    auto ok = client.mutate(ops);
    return ok ? client.finish() : ok;
  }).value_or_throw();
}

void coordinator_client::remember(std::shared_ptr<const variable_spec> spec) {
  std::lock_guard lock{mutex_};
  specs_[spec->id] = std::move(spec);
}

void coordinator_client::forget(variable_id id) {
  std::lock_guard lock{mutex_};
  specs_.erase(id);
}

std::shared_ptr<const variable_spec> coordinator_client::spec_of(variable_id id) const {
  std::lock_guard lock{mutex_};
  auto at = specs_.find(id);
  return at == specs_.end() ? nullptr : at->second;
}

} // namespace troupe
