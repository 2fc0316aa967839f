#include <troupe/strategies/parameter_server/cluster_coordinator.hpp>

#include <troupe/strategies/parameter_server/detail/coordinator_front.hpp>

namespace troupe {

namespace detail {

namespace {

constexpr std::string_view iterator_function = "troupe.make_iterator";

/// Builds a worker's iterator from its dataset.
bool register_iterator() {
  function_table::global().add({.name = std::string{iterator_function},
                                .signature = "dataset_iterator (resource_id)",
                                .invoke = {},
                                .make =
                                  [](step_host& host, const payload& arguments) {
                                    checked_reader in{arguments};
                                    resource_id id{};
                                    in(id);
                                    worker_context ctx{host};
                                    auto& data = resource_as<dataset>(ctx, id);
                                    auto made = data.iterate(data_context{host.env()});
                                    return resource{
                                      std::make_shared<dataset_iterator>(std::move(made)),
                                      &typeid(dataset_iterator)};
                                  }},
                               nullptr);
  return true;
}
[[maybe_unused]] const bool iterator_registered = register_iterator();

} // namespace

} // namespace detail

// --- the handle
// -------------------------------------------------------------------------------------------------

cluster_coordinator::cluster_coordinator(parameter_server_strategy& strategy) {
  front_ = detail::coordinator_front::of(strategy.servers());
}

std::string_view cluster_coordinator::name_of(const void* address, const std::type_info& type) {
  auto name = function_table::global().name_of(address);
  if (!name.empty())
    return name;
  const auto own = function_at(address);
  throw_failure(errc::not_registered,
                "schedule: the function " + (own.empty() ? std::string{} : "'" + own + "' ")
                  + "of type " + readable_name(type)
                  + " is not registered: add TROUPE_FUNCTION at namespace scope, in a source file "
                    "that every process of the cluster links");
}

std::shared_ptr<coordinator_client> cluster_coordinator::owner() const {
  return front_->owner_ptr();
}

remote_handle cluster_coordinator::put(detail::call call, const closure_options& options) {
  if (options.worker)
    front_->owner().check_worker(*options.worker);
  closure c{.function = call.function,
            .arguments = std::move(call.arguments),
            .options = options,
            .inputs = std::move(call.inputs),
            .keeps = std::move(call.keeps)};
  auto state = front_->owner().queue().put(std::move(c), never).value_or_throw();
  return remote_handle{std::move(state), front_->owner_ptr()};
}

void cluster_coordinator::join() { front_->owner().queue().wait(never).value_or_throw(); }

void cluster_coordinator::join(duration timeout) {
  front_->owner().queue().wait(after(front_->owner().env().clock.now(), timeout)).value_or_throw();
}

bool cluster_coordinator::done() { return front_->owner().queue().done().value_or_throw(); }

std::vector<failure> cluster_coordinator::errors() const {
  return front_->owner().queue().errors();
}

std::pair<resource_id, std::shared_ptr<resource_lease>> cluster_coordinator::add_resource(
  const void* function) {
  return front_->add_resource(name_of(function, typeid(void())), {}, nullptr);
}

per_worker<dataset_iterator> per_worker_dataset::iterator() const {
  plain_writer arguments;
  arguments(built_.id());
  auto [id, lease] =
    front_->add_resource(detail::iterator_function, std::move(arguments.out), built_.lease());
  return per_worker<dataset_iterator>{id, front_->owner_ptr(), std::move(lease)};
}

std::string cluster_coordinator::save(const std::string& directory, const save_options& options) {
  if (directory.empty())
    throw_failure(errc::invalid_argument, "checkpoint: directory is empty");
  if (options.keep == 0)
    throw_failure(errc::invalid_argument, "checkpoint: keep is 0, must be at least 1");
  return front_->save(directory, options);
}

std::vector<std::string> cluster_coordinator::restore(const std::string& directory) {
  if (directory.empty())
    throw_failure(errc::invalid_argument, "checkpoint: directory is empty");
  return front_->restore(directory);
}

coordinator_statistics cluster_coordinator::statistics() const {
  auto& c = front_->owner();
  auto counts = c.queue().counts();
  coordinator_statistics out{.scheduled = counts.scheduled,
                             .finished = counts.finished,
                             .failed = counts.failed,
                             .cancelled = counts.cancelled,
                             .retried = c.shared().retried.load(),
                             .fenced = c.shared().fenced.load()};
  auto servers = c.call<std::vector<server_report>>(
    "statistics", c.request_max(), [](coordinator_state& s, auto done) { s.statistics(done); });
  for (const auto& line : servers)
    out.servers.push_back({.server = line.server,
                           .shards = line.stats.shards,
                           .bytes = line.stats.bytes,
                           .pushes_applied = line.stats.pushes_applied,
                           .duplicates = line.stats.duplicates,
                           .refused = line.stats.refused});
  return out;
}

std::vector<worker_line> cluster_coordinator::workers() const {
  auto& c = front_->owner();
  std::vector<worker_line> out;
  auto lines = c.call<std::vector<worker_report_line>>(
    "workers", c.request_max(), [](coordinator_state& s, auto done) { s.worker_lines(done); });
  for (const auto& line : lines)
    out.push_back({.worker = line.worker,
                   .incarnation = line.inc.counter,
                   .in_flight = line.in_flight,
                   .stuck = line.stuck});
  return out;
}

} // namespace troupe
