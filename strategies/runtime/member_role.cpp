#include <troupe/strategies/runtime/detail/member_role.hpp>

#include <csignal>
#include <utility>

#include <troupe/actors/data_plane/blob_client.hpp>
#include <troupe/actors/server/parameter_server.hpp>
#include <troupe/strategies/runtime/detail/address_rules.hpp>

namespace troupe::detail {

local_member& member_role::make_local() { return local_.emplace(context_.host.env(), task()); }

member_options member_role::networked_settings() const {
  const auto& options = context_.options;
  auto out = local_->settings(options);
  out.say = context_.host.notices(options);
  const auto to =
    parse_host_port(options.coordinator_address, options.names.coordinator).value_or_throw();
  const auto at = parse_host_port(options.listen_address, options.names.listen).value_or_throw();
  out.network = context_.host.network();
  out.coordinator_host = to.host;
  out.coordinator_port = to.port;
  out.listen_host = at.host;
  out.listen_port = at.port;
  return out;
}

namespace {

volatile std::sig_atomic_t end_asked = 0;

void ask_to_end(int) { end_asked = 1; }

constexpr duration signal_check_every = std::chrono::milliseconds{100};

} // namespace

/// A signal, where they are handled, makes the member leave.
result<bool> member_role::serve() {
  auto& ended = *local_->ended();
  if (!context_.options.handle_signals)
    return ended.wait(never, "serve");
  std::signal(SIGINT, ask_to_end);
  std::signal(SIGTERM, ask_to_end);
  for (bool asked = false;;) {
    auto out =
      ended.poll_until(after(context_.host.env().clock.now(), signal_check_every), "serve");
    if (out || out.error().code != errc::deadline)
      return out;
    if (end_asked && !std::exchange(asked, true))
      local_->leave();
  }
}

bool member_role::end(time_point deadline, const cluster_end&) {
  if (!local_)
    return true;
  local_->end(deadline);
  return local_->join_threads(deadline);
}

// --- parameter server

step_needs server_role::needs() const {
  return {.threads = context().options.threads_per_worker, .runs_steps_here = false};
}

void server_role::start(process_devices&, runtime_services&) {
  const auto& options = context().options;
  const auto& env = context().host.env();
  auto store = std::make_shared<shard_store>(options.trace);
  data_ = data_server::start(env,
                             {.address = options.data_listen_address,
                              .cluster = options.cluster_name,
                              .token = options.token,
                              .store = store},
                             "data." + std::to_string(task().index))
            .value_or_throw();
  make_local();
  auto member = networked_settings();
  member.data_address = data_->address();
  const auto actor = spawn_parameter_server(
    context().host.system(), env,
    {.member = std::move(member),
     .store = std::move(store),
     .on_incarnation = [this](const incarnation& inc) { data_->set_incarnation(inc); },
     .on_fence = [this](const task_id& t, std::uint32_t counter) { data_->fence(t, counter); }});
  context().ends.follow(actor);
  leave_by(actor);
}

void server_role::close() {
  if (data_)
    data_->stop();
}

// --- worker

worker_role::worker_role(const process_context& context)
  : member_role{context}, dialer_{context.host.env(), context.options} {}

step_needs worker_role::needs() const { return {.threads = context().options.threads_per_worker}; }

worker_actor_options worker_role::settings(const process_devices& devices) {
  auto& local = make_local();
  auto executor = devices.threads_of(task(), 0);
  executor.report_batch = 48;
  return {
    .member = networked_settings(),
    .executor = std::move(executor),
    .routes = [this](auto current,
                     const std::string& data_address) { return routes(current, data_address); },
    .dial =
      [control = control_, task = task()](const incarnation& self, term_no term,
                                          const std::string& address) {
        control->dial({task, self}, term, address);
      },
    .hang_up =
      [control = control_, task = task()](const incarnation& self) {
        control->end({task, self}, {});
      },
    .own_process = true,
    .say = context().host.notices(context().options),
    .executor_out = local.take_threads()};
}

void worker_role::start(process_devices& devices, runtime_services&) {
  const auto& options = context().options;
  const auto& host = context().host;
  control_ = std::make_shared<control_plane>(
    host.env(), host.system(),
    control_event_loop_options{
      .address = {}, .cluster = options.cluster_name, .token = options.token});
  const auto actor = spawn_worker(host.system(), host.env(), settings(devices));
  context().ends.follow(actor);
  devices.watch(0, actor);
  control_->start(job_kind::worker, caf::actor_cast<caf::strong_actor_ptr>(actor));
  leave_by(actor);
}

worker_routes worker_role::routes(std::shared_ptr<const std::function<view()>> current,
                                  const std::string& data_address) const {
  const auto& options = context().options;
  const auto connect = [dialer = dialer_, current = std::move(current)](
                         std::uint32_t server, const origin& self, term_no term) {
    member found;
    for (auto& m : (*current)().members)
      if (m.task == task_id{.job = job_kind::ps, .index = server})
        found = std::move(m);
    return dialer.connect(found, server, self, term);
  };
  const auto blobs = std::make_shared<blob_client>(context().host.env(),
                                                   data_peer{.address = data_address,
                                                             .cluster = options.cluster_name,
                                                             .token = options.token,
                                                             .self = {.task = task()}},
                                                   options.request_timeout);
  return {.connect = connect,
          .get_blob = [blobs](const blob_key& key,
                              std::uint64_t size_bytes) { return blobs->get(key, size_bytes); },
          .put_blob = [blobs](const blob_key& key,
                              std::string bytes) { return blobs->put(key, std::move(bytes)); }};
}

void worker_role::close() {
  if (control_)
    control_->stop();
}

} // namespace troupe::detail
