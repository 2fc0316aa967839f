#include <troupe/strategies/runtime/runtime.hpp>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <vector>

#include <troupe/core/exit_code.hpp>
#include <troupe/core/mac.hpp>
#include <troupe/messages/membership.hpp>
#include <troupe/messages/registration.hpp>
#include <troupe/strategies/runtime/detail/data_lane.hpp>
#include <troupe/strategies/runtime/detail/runtime_impl.hpp>
#include <troupe/transport/host_transport.hpp>

namespace troupe {

void configure(caf::actor_system_config& config, bool network) {
  configure_system(config, init_messages);
  if (network)
    load_network(config);
}

namespace {

runtime_options with_trace(runtime_options options, tracer* trace) {
  options.trace = trace;
  return options;
}

} // namespace

runtime::impl::impl(runtime_options options, caf::actor_system* host)
  : options_{std::move(options)} {
  check_options();
  if (over_processes()) {
    check_address(options_.coordinator_address, options_.names.coordinator);
    check_address(options_.listen_address, options_.names.listen);
    check_address(options_.data_listen_address, options_.names.data_listen);
    check_apart();
  }
  ports_ = make_production_ports();
  transport_ = make_host_transport(
    ports_->clock(), {.shared_memory = options_.shared_memory, .trace = options_.trace});
  own_env_ = std::make_unique<environment>(
    environment{ports_->clock(), ports_->random(), ports_->storage(), ports_->lanes(),
                ports_->waits(), *transport_, options_.trace});
  env_ = own_env_.get();
  make_system(host);
  if (over_processes())
    network_ = network_of(*system_);
  start_or_end();
}

runtime::impl::impl(runtime_options options, const runtime_host& host)
  : options_{with_trace(std::move(options), host.env.trace)},
    env_{&host.env},
    system_{&host.system},
    network_{over_processes() ? host.network : caf::actor{}} {
  check_options();
  if (over_processes() && !network_)
    throw_failure(errc::bad_config, "runtime: the host has no network layer");
  start_or_end();
}

void runtime::impl::check_options() const {
  if (options_.request_timeout < std::chrono::milliseconds{1})
    throw_failure(errc::bad_config, "runtime: request_timeout is "
                                      + std::to_string(options_.request_timeout.count())
                                      + " ns, must be at least 1 ms");
  if (is_synchronous())
    return check_peers();
  if (!over_processes() && options_.workers == 0)
    throw_failure(errc::bad_config, "runtime: workers is 0, must be at least 1");
  if (!over_processes() && options_.servers == 0)
    throw_failure(errc::bad_config, "runtime: servers is 0, must be at least 1");
}

void runtime::impl::check_peers() const {
  if (over_processes())
    throw_failure(errc::bad_config, "runtime: task is " + to_string(*options_.task)
                                      + " but peers are given: set either task or peers, not both");
  if (options_.peer >= options_.peers.size())
    throw_failure(errc::bad_config, "runtime: peer is " + std::to_string(options_.peer)
                                      + ", there are " + std::to_string(options_.peers.size())
                                      + " peers");
  if (options_.peers.size() == 1) // nobody calls
    return;
  std::map<std::string, std::string> whose;
  for (std::size_t i = 0; i < options_.peers.size(); ++i) {
    const auto field = peer_name(i);
    check_address(options_.peers[i], field);
    if (split_address(options_.peers[i], field).port == 0)
      throw_failure(errc::bad_config, "runtime: " + field + " is " + options_.peers[i]
                                        + ": the port must be fixed, not 0");
    if (const auto [at, is_new] = whose.emplace(options_.peers[i], field); !is_new)
      throw_failure(errc::bad_config, "runtime: " + at->second + " and " + field
                                        + " have the same address, " + options_.peers[i]);
  }
}

/// "TF_CONFIG worker:1"; "peers[1]" of one that was given by hand.
std::string runtime::impl::peer_name(std::size_t i) const {
  if (options_.described_by.empty() || i >= options_.peer_tasks.size())
    return "peers[" + std::to_string(i) + "]";
  return options_.described_by + " " + options_.peer_tasks[i];
}

/// A worker or server calls the coordinator at a port that it knows, and listens at another.
void runtime::impl::check_apart() const {
  if (!is_coordinator()
      && split_address(options_.coordinator_address, options_.names.coordinator).port == 0)
    throw_failure(errc::bad_config,
                  "runtime: " + options_.names.coordinator + " is " + options_.coordinator_address
                    + ": " + to_string(*options_.task) + " needs the coordinator's port, not 0");
  const bool has_port = split_address(options_.listen_address, options_.names.listen).port != 0;
  if (has_port && !is_coordinator() && options_.listen_address == options_.coordinator_address)
    throw_failure(errc::bad_config, "runtime: " + options_.names.coordinator + " and "
                                      + options_.names.listen + " are the same address, "
                                      + options_.listen_address);
}

void runtime::impl::start_or_end() {
  // what was started must end, or the system would wait for it for ever
  const auto end = [this](const std::string& why) {
    shutdown(std::chrono::seconds{2},
             {.why = make_failure(errc::unavailable, "the coordinator failed to start: " + why)});
    let_go();
  };
  try {
    start();
  } catch (const std::exception& e) {
    end(e.what());
    throw;
  } catch (...) {
    end("an exception of the program");
    throw;
  }
}

void runtime::impl::start() {
  make_devices();
  if (is_synchronous()) {
    if (options_.peers.size() > 1)
      services_->meeting = worker_meeting::make(*env_, options_.peers, options_.peer,
                                                options_.token, options_.peer_tasks)
                             .value_or_throw();
  } else if (is_coordinator()) {
    start_coordinator();
    if (!over_processes())
      start_embedded_members();
    wait_started();
  } else if (options_.task->job == job_kind::ps) {
    start_server();
  } else {
    start_worker();
  }
}

namespace {

/// Keeps what lanes that were given up, or actors, may still use for as long as the process lives:
/// a hung step may come back, and then asks for the time on its way out. Never destroyed, so
/// reachable to the end.
void keep_for_ever(std::shared_ptr<const void> what) {
  static std::mutex mutex;
  static auto& kept = *new std::vector<std::shared_ptr<const void>>;
  std::lock_guard lock{mutex};
  kept.push_back(std::move(what));
}

} // namespace

runtime::impl::~impl() {
  destructor_waits here;
  cluster_end how{.meant = false};
  if (std::uncaught_exceptions() > exceptions_)
    how.why = make_failure(errc::unavailable, "an exception ended the coordinator's program");
  shutdown(std::chrono::seconds{10}, std::move(how));
  let_go();
}

/// Waits for the actors, since a host's system goes on without us and nothing else does.
void runtime::impl::let_go() {
  membership_ = nullptr;
  auto deadline = after(env_->clock.now(), std::chrono::seconds{2});
  for (auto& gone : actors_gone_)
    lanes_abandoned_ |= !gone->poll_until(deadline, "shutdown");
  if (lanes_abandoned_) {
    keep_for_ever(std::move(ports_));
    keep_for_ever(std::move(transport_));
    keep_for_ever(std::move(own_env_));
  }
}

void runtime::impl::check_address(const std::string& text, const std::string& field) const {
  auto host = split_address(text, field).host;
  bool loopback = host == "localhost" || host == "::1" || host.starts_with("127.");
  if (!loopback && options_.token.empty())
    throw_failure(errc::bad_config,
                  "runtime: " + field + " is " + text
                    + ", which is reachable from other machines: a token is required; "
                    + std::string{token_advice});
}

auto runtime::impl::split_address(const std::string& text, const std::string& field)
  -> address_parts {
  auto colon = text.rfind(':');
  address_parts out;
  unsigned long port = 0;
  try {
    if (colon == std::string::npos || colon == 0)
      throw std::invalid_argument{"no colon"};
    std::size_t used = 0;
    port = std::stoul(text.substr(colon + 1), &used);
    if (used != text.size() - colon - 1 || port > 65535)
      throw std::invalid_argument{"port"};
  } catch (const std::exception&) {
    throw_failure(errc::bad_config, "runtime: " + field + " is '" + text
                                      + "', expected host:port with a port from 0 to 65535");
  }
  out.host = text.substr(0, colon);
  if (out.host.size() > 2 && out.host.front() == '[' && out.host.back() == ']')
    out.host = out.host.substr(1, out.host.size() - 2);
  out.port = static_cast<std::uint16_t>(port);
  return out;
}

void runtime::impl::make_system(caf::actor_system* host) {
  if (host) {
    if (over_processes() && !host->has_middleman())
      throw_failure(errc::bad_config,
                    "runtime: the host's actor system has no network layer; call "
                    "troupe::configure(config, true) before it is built");
    system_ = host;
    return;
  }
  configure_system(config_, init_messages);
  if (over_processes())
    load_network(config_);
  own_system_ = std::make_unique<caf::actor_system>(config_);
  system_ = own_system_.get();
}

namespace {

/// Says on stderr who was not let in, each text once: a supervisor may send the same one for ever.
std::function<void(const failure&)> refusal_log() {
  return [said = std::set<std::string>{}](const failure& why) mutable {
    constexpr std::size_t texts_max = 100;
    if (said.size() < texts_max && said.insert(why.text).second)
      std::fprintf(stderr, "troupe: refused: %s\n", to_string(why).c_str());
  };
}

} // namespace

membership_actor_options runtime::impl::membership_settings() {
  auto& table = function_table::global();
  membership_actor_options out{
    .core = {.cluster = options_.cluster_name,
             .term = term_no{1},
             .workers = options_.workers,
             .servers =
               options_.server_tasks.empty() ? options_.servers : options_.server_tasks.back() + 1,
             .worker_index_max = 100'000,
             .functions_hash = table.hash(),
             .functions = table.lines()},
    .token = options_.token};
  if (own_env_) // else the host traces what it wants to know
    out.on_refused = refusal_log();
  out.core.detector.floor_ms = static_cast<std::int64_t>(options_.suspect_ms_min);
  membership_ended_ = std::make_shared<promise_slot<bool>>(*env_);
  out.ended = membership_ended_;
  if (over_processes()) {
    auto at = split_address(options_.coordinator_address, options_.names.coordinator);
    out.network = network_;
    out.listen_host = at.host;
    out.listen_port = at.port;
    out.published = std::make_shared<promise_slot<std::uint16_t>>(*env_);
  }
  return out;
}

std::function<void(const std::string&)> runtime::impl::notices() const {
  if (options_.on_notice || !own_env_)
    return options_.on_notice;
  return [](const std::string& line) {
    std::fprintf(stderr, "troupe: %s\n", line.c_str());
    std::fflush(stderr); // the process may be about to leave without its last steps
  };
}

coordinator_options runtime::impl::coordinator_settings() {
  coordinator_options out{.server_tasks = options_.server_tasks,
                          .servers = options_.servers,
                          .start_workers = options_.start_workers,
                          .lanes = options_.lanes_per_worker,
                          .request_ms = static_cast<std::uint64_t>(to_ms(options_.request_timeout)),
                          .quiesce_ms_max = options_.quiesce_ms_max,
                          .cancel_grace_ms = options_.cancel_grace_ms,
                          .max_strikes = options_.max_strikes};
  out.on_member = options_.on_member;
  out.say = notices();
  out.queue.queue_len_max = options_.queue_len_max;
  out.queue.no_worker_ms_max = static_cast<std::int64_t>(options_.no_worker_ms_max);
  return out;
}

namespace {

/// How long a worker that was given up may still speak, in vain but heard.
constexpr duration last_words_max = std::chrono::seconds{30};

std::vector<std::uint32_t> first_tasks(std::uint32_t n) {
  std::vector<std::uint32_t> out(n);
  std::iota(out.begin(), out.end(), 0u);
  return out;
}

} // namespace

namespace {

class no_worker_call final : public coordinator_call {
public:
  explicit no_worker_call(failure why) : why_{std::move(why)} {}
  void run(coordinator_state& state) override { state.no_worker_will_come(std::move(why_)); }

private:
  failure why_;
};

} // namespace

template <class Actor>
void runtime::impl::follow_end(const Actor& actor) {
  auto gone = std::make_shared<promise_slot<bool>>(*env_);
  actor->attach_functor([gone] { gone->set(true); }); // called once its state has gone
  actors_gone_.push_back(std::move(gone));
}

/// A worker of this process that left comes back under no name, nor does another. With the last
/// one nothing can run any more, and whoever waits shall hear why.
void runtime::impl::follow_worker(const worker_actor& actor, const local_member& local,
                                  const std::shared_ptr<std::atomic<std::uint32_t>>& alive) {
  actor->attach_functor(
    [alive, ended = local.ended, now = env_->clock.now(), cluster = std::weak_ptr{cluster_}] {
      if (--*alive != 0)
        return;
      auto how = ended->poll_until(now, "worker"); // set before the actor ends; a past deadline
      auto there = cluster.lock();
      if (how || !there) // by order
        return;
      auto why = how.error();
      why.text = "the last worker of this process left the cluster: " + why.text;
      there->post(std::make_shared<no_worker_call>(std::move(why)));
    });
}

/// The coordinator takes links where its data plane listens, on another port.
void runtime::impl::make_control(bool listen) {
  const auto& at = options_.data_listen_address;
  control_ = std::make_shared<control_plane>(
    *env_, *system_,
    control_lane_options{.address = listen ? at.substr(0, at.rfind(':')) + ":0" : std::string{},
                         .cluster = options_.cluster_name,
                         .token = options_.token});
}

void runtime::impl::start_coordinator() {
  auto settings = membership_settings();
  if (over_processes()) {
    make_control(true);
    settings.link_address = control_->open().value_or_throw();
  }
  auto published = settings.published;
  auto host = settings.listen_host;
  membership_ = spawn_membership(*system_, *env_, std::move(settings));
  follow_end(membership_);
  if (published) {
    auto port = published->wait(after(env_->clock.now(), std::chrono::seconds{10}), "listen")
                  .value_or_throw();
    address_ = host + ":" + std::to_string(port);
  }
  shared_ = std::make_shared<coordinator_shared>(*env_);
  auto coordinator = coordinator_settings();
  if (over_processes()) {
    data_ = std::make_unique<data_lane>(
      *env_, options_, task_id{.job = job_kind::chief, .index = 0}, nullptr, shared_->blobs);
    coordinator.data_address = data_->address();
    coordinator.end_link = [control = control_](const task_id& task, const incarnation& inc) {
      control->end({task, inc}, last_words_max);
    };
  }
  auto actor = spawn_coordinator(*system_, *env_, shared_, membership_, coordinator);
  follow_end(actor);
  if (control_)
    control_->start(job_kind::chief, caf::actor_cast<caf::strong_actor_ptr>(actor));
  cluster_ = std::make_shared<cluster>(
    *env_, shared_, std::move(actor),
    options_.server_tasks.empty() ? first_tasks(options_.servers) : options_.server_tasks,
    [this](std::uint32_t server, term_no term) { return link_from_program(server, term); },
    [this](std::uint32_t server, term_no term) { return vault_from_program(server, term); },
    options_.request_timeout);
  cluster_->expect_workers(
    options_.worker_tasks.empty() ? first_tasks(options_.workers) : options_.worker_tasks,
    over_processes());
}

member_options runtime::impl::member_settings(const task_id& task, local_member& local) {
  local.task = task;
  local.ended = std::make_shared<promise_slot<bool>>(*env_);
  local.admitted = std::make_shared<promise_slot<incarnation>>(*env_);
  member_options out{.task = task,
                     .cluster = options_.cluster_name,
                     .token = options_.token,
                     .coordinator_lost_ms_max = options_.coordinator_lost_ms_max,
                     .ended = local.ended,
                     .admitted = local.admitted};
  if (!over_processes()) {
    out.membership = membership_;
    return out;
  }
  out.say = notices();
  auto to = split_address(options_.coordinator_address, options_.names.coordinator);
  auto at = split_address(options_.listen_address, options_.names.listen);
  out.network = network_;
  out.coordinator_host = to.host;
  out.coordinator_port = to.port;
  out.listen_host = at.host;
  out.listen_port = at.port;
  return out;
}

void runtime::impl::start_embedded_members() {
  for (std::uint32_t i = 0; i < options_.servers; ++i) {
    stores_.push_back(std::make_shared<shard_store>(options_.trace));
    auto& local = members_.emplace_back();
    follow_end(
      spawn_parameter_server(*system_, *env_,
                             {.member = member_settings({.job = job_kind::ps, .index = i}, local),
                              .store = stores_.back()}));
  }
  auto alive = std::make_shared<std::atomic<std::uint32_t>>(options_.workers);
  for (std::uint32_t i = 0; i < options_.workers; ++i) {
    auto& local = members_.emplace_back();
    local.lanes = std::make_shared<std::shared_ptr<worker_lanes>>();
    task_id task{.job = job_kind::worker, .index = i};
    auto lanes = lanes_of(task);
    lanes.quiet_batch = 16;
    auto actor =
      spawn_worker(*system_, *env_,
                   {.member = member_settings(task, local),
                    .lanes = std::move(lanes),
                    .routes = [this](auto, const std::string&) { return embedded_routes(); },
                    .lanes_out = local.lanes});
    follow_end(actor);
    follow_worker(actor, local, alive);
    watch_devices(task, actor);
  }
}

worker_routes runtime::impl::embedded_routes() {
  return {.connect = [stores = stores_](std::uint32_t server, const origin&,
                                        term_no) -> result<std::unique_ptr<server_link>> {
    if (server >= stores.size())
      return make_failure(errc::unavailable, "ps:" + std::to_string(server) + " does not exist");
    return std::unique_ptr<server_link>{std::make_unique<local_server_link>(stores[server])};
  }};
}

namespace {

constexpr duration say_start_every = std::chrono::seconds{5};
constexpr std::size_t named_max = 16; ///< in one line

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (std::size_t i = 0; i < std::min(names.size(), named_max); ++i)
    out += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > named_max)
    out += " and " + std::to_string(names.size() - named_max) + " more";
  return out;
}

} // namespace

/// "ps:1 (10.0.0.7:4704)".
std::string runtime::impl::named(job_kind job, std::uint32_t index) const {
  const task_id task{.job = job, .index = index};
  auto at = options_.task_addresses.find(task);
  return to_string(task)
         + (at == options_.task_addresses.end() ? std::string{} : " (" + at->second + ")");
}

/// "servers 1 of 2, workers 0 (1 required); missing: ps:1 (10.0.0.7:4704), worker:0".
std::string runtime::impl::whom_start_waits_for() {
  start_state seen;
  try {
    seen = cluster_->call<start_state>(
      "start", std::chrono::seconds{2},
      [](coordinator_state& state, auto done) { state.tell_start(done); });
  } catch (const error& e) {
    return std::string{"cannot list the missing servers and workers: "} + e.what();
  }
  const auto servers =
    options_.server_tasks.empty() ? first_tasks(options_.servers) : options_.server_tasks;
  const auto wanted = std::max(options_.start_workers, 1u);
  std::vector<std::string> missing;
  for (const auto index : servers) {
    if (!seen.servers.contains(index))
      missing.push_back(named(job_kind::ps, index));
    else if (!seen.ready_servers.contains(index))
      missing.push_back(named(job_kind::ps, index)
                        + " (joined, but its data plane does not answer)");
  }
  std::vector<std::uint32_t> workers; // may have gaps
  if (seen.workers.size() < wanted)
    workers = options_.worker_tasks.empty() ? first_tasks(std::max(options_.workers, wanted))
                                            : options_.worker_tasks;
  for (const auto index : workers) {
    if (seen.linking.contains(index))
      missing.push_back(named(job_kind::worker, index)
                        + " (joined, but its control link is not connected)");
    else if (!seen.workers.contains(index))
      missing.push_back(named(job_kind::worker, index));
  }
  return "servers " + std::to_string(seen.ready_servers.size()) + " of "
         + std::to_string(servers.size()) + ", workers " + std::to_string(seen.workers.size())
         + " (" + std::to_string(wanted) + " required); missing: " + joined(missing);
}

void runtime::impl::wait_started() {
  if (over_processes() && options_.on_listening)
    options_.on_listening(address_);
  const auto say = notices();
  const auto began = env_->clock.now();
  const auto deadline = after(began, options_.start_timeout);
  for (;;) {
    const auto until = std::min(deadline, after(env_->clock.now(), say_start_every));
    auto term = shared_->started->poll_until(until, "start");
    if (term)
      return;
    if (term.error().code != errc::deadline)
      throw_failure(term.error());
    const auto text = "start: after " + std::to_string(to_ms(env_->clock.now() - began))
                      + " ms: " + whom_start_waits_for();
    if (env_->clock.now() >= deadline)
      throw_failure(errc::deadline, text);
    trace(*env_, "runtime.start_waits", {{"text", text}});
    if (say)
      say(text);
  }
}

result<std::unique_ptr<server_link>> runtime::impl::link_from_program(std::uint32_t server,
                                                                      term_no term) {
  if (server < stores_.size())
    return std::unique_ptr<server_link>{std::make_unique<local_server_link>(stores_[server])};
  return connect_to_server(*env_, options_, server_member(server), server,
                           {.task = {.job = job_kind::chief, .index = 0}}, term);
}

result<std::unique_ptr<server_vault>> runtime::impl::vault_from_program(std::uint32_t server,
                                                                        term_no term) {
  if (server < stores_.size())
    return std::unique_ptr<server_vault>{std::make_unique<local_server_vault>(stores_[server])};
  return open_remote_vault(*env_, options_, server_member(server), server, term);
}

member runtime::impl::server_member(std::uint32_t server) {
  auto all = cluster_->call<std::map<std::uint32_t, member>>(
    "servers", options_.request_timeout,
    [](coordinator_state& s, auto done) { s.server_members(done); });
  auto at = all.find(server);
  return at == all.end() ? member{} : at->second;
}

// --- one member a process
// ---------------------------------------------------------------------------------------

void runtime::impl::start_server() {
  stores_.push_back(std::make_shared<shard_store>(options_.trace));
  auto store = stores_.back();
  data_ = std::make_unique<data_lane>(*env_, options_, *options_.task, store, nullptr);
  auto& local = members_.emplace_back();
  auto member = member_settings(*options_.task, local);
  member.data_address = data_->address();
  auto actor = spawn_parameter_server(
    *system_, *env_,
    {.member = std::move(member),
     .store = store,
     .on_incarnation = [this](const incarnation& inc) { data_->become(inc); },
     .on_fence = [this](const task_id& t, std::uint32_t counter) { data_->fence(t, counter); }});
  follow_end(actor);
  local.leave = [actor] { tell_from_outside(actor, leave_cluster{}); };
}

void runtime::impl::start_worker() {
  auto& local = members_.emplace_back();
  local.lanes = std::make_shared<std::shared_ptr<worker_lanes>>();
  auto task = *options_.task;
  make_control(false);
  auto lanes = lanes_of(task);
  lanes.report_batch = 48;
  auto actor = spawn_worker(*system_, *env_,
                            {.member = member_settings(task, local),
                             .lanes = std::move(lanes),
                             .routes =
                               [this](auto current, const std::string& data_address) {
                                 return process_routes(current, data_address);
                               },
                             .dial =
                               [control = control_, task](const incarnation& self, term_no term,
                                                          const std::string& address) {
                                 control->dial({task, self}, term, address);
                               },
                             .hang_up =
                               [control = control_, task](const incarnation& self) {
                                 control->end({task, self}, {});
                               },
                             .own_process = true,
                             .say = notices(),
                             .lanes_out = local.lanes});
  follow_end(actor);
  watch_devices(task, actor);
  control_->start(job_kind::worker, caf::actor_cast<caf::strong_actor_ptr>(actor));
  local.leave = [actor] { tell_from_outside(actor, leave_cluster{}); };
}

worker_routes runtime::impl::process_routes(std::shared_ptr<const std::function<view()>> current,
                                            const std::string& data_address) {
  auto connect = [this, current](std::uint32_t server, const origin& self,
                                 term_no term) -> result<std::unique_ptr<server_link>> {
    member found;
    for (auto& m : (*current)().members)
      if (m.task == task_id{.job = job_kind::ps, .index = server})
        found = std::move(m);
    return connect_to_server(*env_, options_, found, server, self, term);
  };
  auto blobs = std::make_shared<blob_client>(*env_,
                                             data_peer{.address = data_address,
                                                       .cluster = options_.cluster_name,
                                                       .token = options_.token,
                                                       .self = {.task = *options_.task}},
                                             options_.request_timeout);
  return {.connect = connect,
          .get_blob = [blobs](const blob_key& key,
                              std::uint64_t size_bytes) { return blobs->get(key, size_bytes); },
          .put_blob = [blobs](const blob_key& key,
                              std::string bytes) { return blobs->put(key, std::move(bytes)); }};
}

namespace {

volatile std::sig_atomic_t end_asked = 0;

void ask_to_end(int) { end_asked = 1; }

} // namespace

/// Until the member has ended; a signal, where they are handled, makes it leave.
result<bool> runtime::impl::wait_served(local_member& local) {
  if (!options_.handle_signals)
    return local.ended->wait(never, "serve");
  std::signal(SIGINT, ask_to_end);
  std::signal(SIGTERM, ask_to_end);
  for (bool asked = false;;) {
    auto out =
      local.ended->poll_until(after(env_->clock.now(), std::chrono::milliseconds{100}), "serve");
    if (out || out.error().code != errc::deadline)
      return out;
    if (end_asked && !std::exchange(asked, true))
      local.leave();
  }
}

int runtime::impl::serve() {
  if (is_coordinator())
    throw_failure(errc::wrong_state,
                  "serve: this process is the coordinator and must run the program");
  auto& local = members_.front();
  auto why = wait_served(local);
  auto failed = why ? std::nullopt : std::optional{why.error()};
  shutdown(std::chrono::seconds{5}, {});
  if (!failed)
    return static_cast<int>(exit_code::ended);
  auto text = to_string(local.task) + ": " + to_string(*failed);
  trace(*env_, "runtime.ended_early", {{"why", text}});
  if (own_env_) // else the host says what it wants to
    std::fprintf(stderr, "troupe: %s\n", text.c_str());
  return static_cast<int>(exit_code_of(*failed));
}

void runtime::impl::shutdown(duration timeout, cluster_end how) {
  if (std::exchange(ended_, true))
    return;
  auto deadline = after(env_->clock.now(), timeout);
  if (services_)
    lanes_abandoned_ |= !services_->close(deadline);
  if (cluster_) {
    class end final : public coordinator_call {
    public:
      explicit end(cluster_end how) : how_{std::move(how)} {}
      void run(coordinator_state& state) override { state.end_cluster_now(std::move(how_)); }

    private:
      cluster_end how_;
    };
    cluster_->post(std::make_shared<end>(how));
    if (!membership_ended_->poll_until(deadline, "shutdown") && membership_)
      tell_from_outside(
        membership_, // the coordinator could not say it
        end_cluster{.deadline_ms = 0, .why = how.why, .members_stay = how.members_stay});
    cluster_->close();
  } else if (membership_) // started without a coordinator yet
    tell_from_outside(membership_, end_cluster{.why = how.why});
  for (auto& m : members_) {
    if (m.leave) // in a process of its own: ended already, or asked to
      std::exchange(m.leave, nullptr)();
    (void)m.ended->poll_until(deadline, "shutdown");
  }
  for (auto& m : members_)
    if (m.lanes && *m.lanes)
      lanes_abandoned_ |= !(*m.lanes)->join(deadline);
  if (devices_) // after the lanes that use them
    lanes_abandoned_ |=
      !devices_->close(std::max(deadline, after(env_->clock.now(), std::chrono::seconds{1})));
  if (control_)
    control_->stop();
  if (data_)
    data_->stop();
}

// --- the handle
// -------------------------------------------------------------------------------------------------

runtime::runtime() : runtime{runtime_options{}} {}
runtime::runtime(runtime_options options)
  : impl_{std::make_unique<impl>(std::move(options), nullptr)} {}
runtime::runtime(runtime_options options, caf::actor_system& host)
  : impl_{std::make_unique<impl>(std::move(options), &host)} {}
runtime::runtime(runtime_options options, const runtime_host& host)
  : impl_{std::make_unique<impl>(std::move(options), host)} {}
runtime::runtime(runtime&&) noexcept = default;
runtime& runtime::operator=(runtime&&) noexcept = default;
runtime::~runtime() = default;

runtime runtime::from_args(int argc, char** argv) { return runtime{options_from_args(argc, argv)}; }
runtime runtime::synchronous_from_args(int argc, char** argv) {
  return runtime{synchronous_options_from_args(argc, argv)};
}

bool runtime::is_coordinator() const { return impl_->is_coordinator(); }

int runtime::serve() { return impl_->serve(); }

void runtime::shutdown(duration timeout) { impl_->shutdown(timeout, {}); }

void runtime::fail(const failure& why, duration timeout) {
  constexpr std::size_t text_bytes_max = 4'000; // it goes into messages
  cluster_end how{.why = why};
  if (how.why.text.size() > text_bytes_max)
    how.why.text.resize(text_bytes_max);
  if (how.why.code == errc::none)
    how.why = make_failure(errc::unavailable, "the program failed");
  impl_->shutdown(timeout, std::move(how));
}

void runtime::step_down(duration timeout) {
  impl_->shutdown(timeout, {.members_stay = impl_->over_processes()});
}

const std::string& runtime::address() const { return impl_->address_; }

const runtime_options& runtime::options() const { return impl_->options_; }

std::vector<device_info> runtime::devices() const {
  std::vector<device_info> out;
  for (auto& each : impl_->devices_->list())
    out.push_back({.id = each.id, .facts = std::move(each.facts)});
  return out;
}

std::shared_ptr<device_context> runtime::device(const std::string& name) const {
  auto id = parse_device(name).value_or_throw();
  auto made = impl_->devices_->open(id).value_or_throw();
  return device_context::make(std::move(made), "program").value_or_throw();
}

const environment& runtime::env() const { return *impl_->env_; }

const std::shared_ptr<detail::runtime_services>& runtime::services() const {
  return impl_->services_;
}

std::shared_ptr<cluster> runtime::owner() const { return impl_->cluster_; }

} // namespace troupe
