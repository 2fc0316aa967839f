// Variables, which servers make, and resources, which workers build.
#include <troupe/actors/coordinator/coordinator.hpp>

#include <troupe/messages/resources.hpp>
#include <troupe/messages/variables.hpp>

namespace troupe {

void coordinator_state::create_variables(std::vector<variable_spec> specs,
                                         std::shared_ptr<promise_slot<bool>> done) {
  struct answered_at_least { // should this actor end before the servers have answered
    explicit answered_at_least(std::shared_ptr<promise_slot<bool>> to) : done{std::move(to)} {}
    ~answered_at_least() {
      done->set(make_failure(errc::unavailable, "the coordinator has ended"));
    }
    answered_at_least(const answered_at_least&) = delete;
    answered_at_least& operator=(const answered_at_least&) = delete;
    std::shared_ptr<promise_slot<bool>> done;
  };
  auto guard = std::make_shared<answered_at_least>(std::move(done));
  create_shards_on_servers(std::move(specs), false, [guard](const failure& why) {
    if (why.code == errc::none)
      guard->done->set(true);
    else
      guard->done->set(why);
  });
}

caf::result<variable_answer> coordinator_state::on_create(request_variable& msg) {
  auto promise = self_->make_response_promise<variable_answer>();
  auto plan = [&]() -> result<variable_spec> {
    if (!core_.is_up(msg.header.from.index, msg.header.sender))
      return make_failure(errc::fenced, "create variable: the worker is no longer a member");
    std::lock_guard lock{shared_->plan_mutex};
    if (!shared_->plan_variable)
      return make_failure(errc::wrong_state,
                          "create variable '" + msg.wanted.name + "': no strategy exists");
    return shared_->plan_variable(msg.wanted);
  }();
  if (!plan) {
    promise.deliver(variable_answer{.why = plan.error()});
    return promise;
  }
  std::function<void(const failure&)> done = [promise, spec = *plan](const failure& why) mutable {
    promise.deliver(why.code == errc::none ? variable_answer{.why = {}, .made = spec}
                                           : variable_answer{.why = why});
  };
  if (catalogue_.contains(plan->id)) // made before, and every server said so
    done({});
  else if (!catalogue_.wait_for(plan->id, done)) // else a thread asks again, or another one does
    create_shards_on_servers({*plan}, true, std::move(done));
  return promise;
}

void coordinator_state::create_shards_on_servers(std::vector<variable_spec> specs, bool of_step,
                                                 std::function<void(const failure&)> done) {
  const auto creation =
    catalogue_.begin(std::move(specs), of_step, std::move(done), env_.clock.now());
  for (auto index : creation.servers)
    if (!election_.has_granted(index))
      return end_creation(catalogue_.failed(creation.number),
                          answer_failure("the server is not a member", index));
  for (auto index : creation.servers)
    ask_creation(creation.number, index);
}

/// Again and again, for as long as the server makes more.
void coordinator_state::ask_creation(std::uint64_t number, std::uint32_t index) {
  auto& s = servers_.at(index);
  create_shards msg{.header = header_for(s.who.inc),
                    .creation = number,
                    .report_ms = options_.request_ms / 4,
                    .variables = *catalogue_.wanted_of(number, index)};
  ask(
    self_, s.handle, request_timeout(), std::move(msg),
    [this, number, index](creation_answer& answer) { creation_answered(number, index, answer); },
    [this, number, index](const std::string& why) {
      end_creation(catalogue_.failed(number), answer_failure(why, index));
    });
}

void coordinator_state::creation_answered(std::uint64_t number, std::uint32_t index,
                                          const creation_answer& answer) {
  if (!catalogue_.wanted_of(number, index))
    return; // it is over
  if (answer.why.code != errc::none && !answer.working)
    return end_creation(catalogue_.failed(number), answer.why);
  if (!answer.working)
    return end_creation(catalogue_.part_made(number, index), {});
  const auto idle = catalogue_.made(number, index, answer.made_bytes, env_.clock.now());
  if (idle >= request_timeout())
    return end_creation(
      catalogue_.failed(number),
      answer_failure(
        "no progress in creating its shards for " + std::to_string(to_ms(idle)) + " ms", index));
  if (servers_.contains(index)) // else its loss has ended the creation
    ask_creation(number, index);
}

/// `why`: no shard of it stays anywhere.
void coordinator_state::end_creation(std::optional<variable_catalogue::ended> over,
                                     const failure& why) {
  if (!over)
    return;
  if (why.code == errc::none)
    announce(over->variables);
  else
    for (const auto& spec : over->variables) {
      mark(env_, "coordinator.creation_undone");
      drop_variable(spec.id);
      std::lock_guard lock{shared_->plan_mutex};
      if (over->of_step && shared_->forget_variable)
        shared_->forget_variable(spec.id);
    }
  for (auto& done : over->waiting)
    done(why);
}

/// From now on every worker knows them, also one that joins later.
void coordinator_state::announce(const std::vector<variable_spec>& specs) {
  for (auto& [index, link] : links_)
    tell(self_, link.handle,
         add_variables{.header = header_for(core_.workers().at(index).inc), .variables = specs});
}

void coordinator_state::drop_variable(variable_id id) {
  catalogue_.drop(id);
  for (auto& [index, s] : servers_)
    ask(
      self_, s.handle, request_timeout(),
      drop_shards{.header = header_for(s.who.inc), .variables = {id}}, [](done_answer&) {},
      [](const std::string&) {});
}

void coordinator_state::make_resource(resource_order order) {
  resources_[order.id] = order;
  for (auto& [index, link] : links_)
    tell(self_, link.handle,
         make_resources{.header = header_for(core_.workers().at(index).inc), .orders = {order}});
}

void coordinator_state::drop_resource(resource_id id) {
  resources_.erase(id);
  for (auto& [index, link] : links_)
    tell(self_, link.handle,
         drop_resources{.header = header_for(core_.workers().at(index).inc), .ids = {id}});
}

} // namespace troupe
