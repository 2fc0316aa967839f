#include <troupe/strategies/parameter_server/cluster_coordinator.hpp>

#include <troupe/strategies/parameter_server/detail/coordinator_front.hpp>

namespace troupe {

namespace detail {

namespace {

/// Tells the coordinator when the program has dropped the last handle of a resource and no closure
/// needs it.
class lease final : public resource_lease {
public:
  lease(std::weak_ptr<cluster> owner, resource_id id, std::shared_ptr<resource_lease> needs)
    : owner_{std::move(owner)}, id_{id}, needs_{std::move(needs)} {}
  ~lease() override {
    if (auto owner = owner_.lock())
      owner->post(std::make_shared<drop>(id_));
  }

private:
  class drop final : public coordinator_call {
  public:
    explicit drop(resource_id id) : id_{id} {}
    void run(coordinator_state& state) override { state.drop_resource(id_); }

  private:
    resource_id id_;
  };
  std::weak_ptr<cluster> owner_;
  resource_id id_;
  std::shared_ptr<resource_lease> needs_;
};

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

std::pair<resource_id, std::shared_ptr<resource_lease>> coordinator_front::add_resource(
  std::string_view function, payload arguments, std::shared_ptr<resource_lease> needs) {
  resource_order order{.id = owner().next_resource(),
                       .function = function_table::global().index_of(function),
                       .arguments = arguments.bytes.empty() ? std::string{} : flatten(arguments)};
  auto id = order.id;
  // Waits: a closure scheduled next may be dispatched by a report that the coordinator is handling
  // already, and would reach a worker before the order did.
  owner().call<bool>("make resource", owner().request_max(),
                     [order = std::move(order)](coordinator_state& s, auto done) {
                       s.make_resource(order);
                       done->set(true);
                     });
  return {id, std::make_shared<lease>(owner_ptr(), id, std::move(needs))};
}

std::shared_ptr<coordinator_front> strategy_state::front(
  const std::shared_ptr<strategy_state>& self) {
  std::lock_guard lock{mutex_};
  auto out = front_.lock();
  if (!out)
    front_ = out = std::make_shared<coordinator_front>(self);
  return out;
}

// --- checkpoints
// ------------------------------------------------------------------------------------------------

void coordinator_front::write_variable(checkpoint_writer& to, const variable_spec& v, cut_id cut,
                                       vaults& from) {
  std::vector<std::string> parts{std::string{value_part}};
  for (auto& name : slot_names(v.optimizer))
    parts.push_back(std::move(name));
  std::uint64_t steps = 0;
  std::optional<float> rate; // all shards are told the same
  for (std::size_t i = 0; i < v.shards.size(); ++i) {
    const auto server = v.shards[i].server;
    for (std::uint32_t part = 0; part < parts.size(); ++part) {
      auto piece =
        cluster::of_server(server, from.ask(server,
                                            [&](server_vault& vault) {
                                              return vault.read_cut(
                                                cut, v.id, static_cast<shard_index>(i), part);
                                            }))
          .value_or_throw();
      steps = std::max(steps, piece.applies);
      rate = piece.rate;
      to.add_slice(v.name, v.type, v.shape, parts[part], v.shards[i].row_begin, piece.rows)
        .value_or_throw();
    }
  }
  to.set_steps(v.name, steps, v.optimizer.kind).value_or_throw();
  save_rate(to, v.name, rate);
}

std::string coordinator_front::save(const std::string& directory, const save_options& options) {
  auto& c = owner();
  auto variables = strategy_->variables();
  auto cut = c.call<cut_id>("save", options.deadline,
                            [](coordinator_state& s, auto done) { s.take_cut(done); });
  struct drop_at_end {
    cluster& c;
    cut_id cut;
    ~drop_at_end() {
      class drop final : public coordinator_call {
      public:
        explicit drop(cut_id cut) : cut_{cut} {}
        void run(coordinator_state& state) override { state.drop_cut(cut_); }

      private:
        cut_id cut_;
      };
      c.post(std::make_shared<drop>(cut));
    }
  } guard{c, cut};
  checkpoint_writer to{c.env().storage,
                       directory,
                       {.keep = static_cast<std::uint32_t>(options.keep), .trace = c.env().trace}};
  to.begin().value_or_throw();
  vaults from{c.vault_sessions()};
  for (const auto& v : variables)
    write_variable(to, v.spec(), cut, from);
  return to.commit().value_or_throw();
}

std::vector<std::string> coordinator_front::restore(const std::string& directory) {
  auto from = std::make_shared<checkpoint_reader>(
    checkpoint_reader::open_latest(owner().env().storage, directory).value_or_throw());
  std::vector<std::string> refused;
  for (const auto& r : from->refused())
    refused.push_back(r.path + ": " + to_string(r.why));
  if (!refused.empty())
    mark(owner().env(), "checkpoint.older_one_used");
  strategy_->restore_all(strategy_->variables(), *from);
  strategy_->restore_later(from);
  return refused;
}

} // namespace detail

// --- the handle
// -------------------------------------------------------------------------------------------------

cluster_coordinator::cluster_coordinator(parameter_server_strategy& strategy) {
  front_ = strategy.servers()->front(strategy.servers());
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

std::shared_ptr<cluster> cluster_coordinator::owner() const { return front_->owner_ptr(); }

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
