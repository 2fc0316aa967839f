#include <troupe/strategies/runtime/detail/embedded_role.hpp>

#include <string>
#include <utility>

#include <troupe/actors/server/parameter_server.hpp>

namespace troupe::detail {

step_needs embedded_role::needs() const {
  return {.threads = context_.options.workers * context_.options.threads_per_worker};
}

std::uint32_t embedded_role::first_thread(std::uint32_t worker) const {
  return worker * context_.options.threads_per_worker;
}

member_options embedded_role::settings_of(const local_member& local) const {
  auto out = local.settings(context_.options);
  out.membership = seat_.membership();
  return out;
}

namespace {

result<std::shared_ptr<shard_store>> store_of(
  const std::vector<std::shared_ptr<shard_store>>& stores, std::uint32_t server) {
  if (server >= stores.size())
    return make_failure(errc::unavailable, "ps:" + std::to_string(server) + " does not exist");
  return stores[server];
}

template <class Interface, class Local>
result<std::unique_ptr<Interface>> reach_store(
  const std::vector<std::shared_ptr<shard_store>>& stores, std::uint32_t server) {
  auto store = store_of(stores, server);
  if (!store)
    return store.error();
  return std::unique_ptr<Interface>{std::make_unique<Local>(std::move(*store))};
}

} // namespace

void embedded_role::start(process_devices& devices, runtime_services&) {
  seat_.start_membership(seat_.membership_settings());
  seat_.start_coordinator(
    seat_.coordinator_settings(),
    {.connect = [this](
                  std::uint32_t server,
                  term_no) { return reach_store<server_link, local_server_link>(stores_, server); },
     .open_snapshot_reader =
       [this](std::uint32_t server, term_no) {
         return reach_store<snapshot_reader, local_snapshot_reader>(stores_, server);
       }});
  start_servers();
  start_workers(devices);
  seat_.wait_started();
}

void embedded_role::start_servers() {
  for (std::uint32_t i = 0; i < context_.options.servers; ++i) {
    const auto& store = stores_.emplace_back(std::make_shared<shard_store>(context_.options.trace));
    const auto& local =
      members_.emplace_back(context_.host.env(), task_id{.job = job_kind::ps, .index = i});
    context_.ends.follow(spawn_parameter_server(context_.host.system(), context_.host.env(),
                                                {.member = settings_of(local), .store = store}));
  }
}

void embedded_role::start_workers(const process_devices& devices) {
  const auto workers = context_.options.workers;
  const auto alive = std::make_shared<std::atomic<std::uint32_t>>(workers);
  for (std::uint32_t i = 0; i < workers; ++i)
    start_worker(i, devices, alive);
}

void embedded_role::start_worker(std::uint32_t index, const process_devices& devices,
                                 const std::shared_ptr<std::atomic<std::uint32_t>>& alive) {
  const task_id task{.job = job_kind::worker, .index = index};
  auto& local = members_.emplace_back(context_.host.env(), task);
  auto executor = devices.threads_of(task, first_thread(index));
  executor.quiet_batch = 16;
  const auto routes = [stores = stores_](auto, const std::string&) {
    return worker_routes{.connect = [stores](std::uint32_t server, const origin&, term_no) {
      return reach_store<server_link, local_server_link>(stores, server);
    }};
  };
  const auto actor = spawn_worker(context_.host.system(), context_.host.env(),
                                  {.member = settings_of(local),
                                   .executor = std::move(executor),
                                   .routes = routes,
                                   .executor_out = local.take_threads()});
  context_.ends.follow(actor);
  follow_worker(actor, local, alive);
  devices.watch(first_thread(index), actor);
}

namespace {

class no_worker_call final : public coordinator_call {
public:
  explicit no_worker_call(failure why) : why_{std::move(why)} {}
  void run(coordinator_state& state) override { state.no_worker_will_come(std::move(why_)); }

private:
  failure why_;
};

} // namespace

/// A worker of this process that left comes back under no name, nor does another. With the last
/// one nothing can run any more, and whoever waits shall hear why.
void embedded_role::follow_worker(const worker_actor& actor, const local_member& local,
                                  const std::shared_ptr<std::atomic<std::uint32_t>>& alive) {
  actor->attach_functor([alive, ended = local.ended(), now = context_.host.env().clock.now(),
                         program = std::weak_ptr{seat_.program()}] {
    if (--*alive != 0)
      return;
    auto how = ended->poll_until(now, "worker"); // set before the actor ends; a past deadline
    auto there = program.lock();
    if (how || !there) // by order
      return;
    auto why = how.error();
    why.text = "the last worker of this process left the cluster: " + why.text;
    there->post(std::make_shared<no_worker_call>(std::move(why)));
  });
}

bool embedded_role::end(time_point deadline, const cluster_end& how) {
  seat_.end(deadline, how);
  for (auto& each : members_)
    each.end(deadline);
  bool clean = true;
  for (auto& each : members_)
    clean = each.join_threads(deadline) && clean;
  return clean;
}

} // namespace troupe::detail
