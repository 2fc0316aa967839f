#include <troupe/strategies/parameter_server/detail/coordinator_front.hpp>

#include <algorithm>

#include <troupe/core/function_registry.hpp>
#include <troupe/messages/resources.hpp>

namespace troupe::detail {

namespace {

/// Tells the coordinator when the program has dropped the last handle of a resource and no closure
/// needs it.
class lease final : public resource_lease {
public:
  lease(std::weak_ptr<coordinator_client> owner, resource_id id,
        std::shared_ptr<resource_lease> needs)
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
  std::weak_ptr<coordinator_client> owner_;
  resource_id id_;
  std::shared_ptr<resource_lease> needs_;
};

} // namespace

std::shared_ptr<coordinator_front> coordinator_front::of(
  const std::shared_ptr<parameter_server_strategy_state>& strategy) {
  return strategy->front([&] { return std::make_shared<coordinator_front>(strategy); });
}

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

// --- checkpoints
// ------------------------------------------------------------------------------------------------

void coordinator_front::write_variable(checkpoint_writer& to, const variable_spec& v,
                                       snapshot_id snapshot, snapshot_readers& from) {
  std::vector<std::string> parts{std::string{value_part}};
  for (auto& name : slot_names(v.optimizer.kind))
    parts.push_back(std::move(name));
  std::uint64_t steps = 0;
  std::optional<float> rate; // all shards are told the same
  for (std::size_t i = 0; i < v.shards.size(); ++i) {
    const auto server = v.shards[i].server;
    for (std::uint32_t part = 0; part < parts.size(); ++part) {
      auto piece = coordinator_client::of_server(
                     server, from.ask(server,
                                      [&](snapshot_reader& reader) {
                                        return reader.read_snapshot(
                                          snapshot, v.id, static_cast<shard_index>(i), part);
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
  auto snapshot = c.call<snapshot_id>(
    "save", options.deadline, [](coordinator_state& s, auto done) { s.take_snapshot(done); });
  struct drop_at_end {
    coordinator_client& c;
    snapshot_id snapshot;
    ~drop_at_end() {
      class drop final : public coordinator_call {
      public:
        explicit drop(snapshot_id snapshot) : snapshot_{snapshot} {}
        void run(coordinator_state& state) override { state.drop_snapshot(snapshot_); }

      private:
        snapshot_id snapshot_;
      };
      c.post(std::make_shared<drop>(snapshot));
    }
  } guard{c, snapshot};
  checkpoint_writer to{c.env().storage,
                       directory,
                       {.keep = static_cast<std::uint32_t>(options.keep), .trace = c.env().trace}};
  to.begin().value_or_throw();
  snapshot_readers from{c.reader_pool()};
  for (const auto& v : variables)
    write_variable(to, v.spec(), snapshot, from);
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

} // namespace troupe::detail
