#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <troupe/actors/worker/worker_lanes.hpp>
#include <troupe/core/readable_name.hpp>
#include <troupe/device/context.hpp>

/// The host of a running step. Private to worker_lanes.
namespace troupe {

/// The state of one incarnation: links to others, variables, resources.
struct worker_lanes::life {
  struct built {
    resource made{};
    failure why{};
  };
  origin self{};
  term_no term{};
  worker_routes routes{};
  explicit life(const environment& env) : freed{env.waits.make_point()} {}

  std::atomic<bool> dead{false};
  const std::unique_ptr<wait_point> freed; ///< a step let go of what it held, or was interrupted
  std::mutex mutex{};                      // of what follows
  std::map<variable_id, std::shared_ptr<const variable_spec>> variables{};
  std::map<resource_id, built> resources{};
  std::map<resource_id, const running_step*> held{}; ///< who has a resource for itself

  std::shared_ptr<const variable_spec> find(variable_id id) {
    std::lock_guard lock{mutex};
    auto at = variables.find(id);
    return at == variables.end() ? nullptr : at->second;
  }
  /// Null: nobody. With the lock held.
  const running_step* holder_of(resource_id id) const {
    auto at = held.find(id);
    return at == held.end() ? nullptr : at->second;
  }
  /// A failure of Troupe itself, marked so that it is not taken for the step's own exception.
  failure from_here(failure why) const {
    if (why.where.task.job == job_kind::chief)
      why.where = self;
    return why;
  }
  failure failure_here(errc code, std::string text) const {
    auto why = make_failure(code, std::move(text));
    why.where = self;
    return why;
  }
};

struct worker_lanes::running_step {
  running_step(const environment& env, const job& what, parameter_client* through,
               std::uint64_t limit_ms)
    : of{what.of},
      closure{what.order.id},
      attempt{what.order.attempt},
      function{what.is_resource ? what.make.function : what.order.function},
      limit{std::chrono::milliseconds{limit_ms}},
      client{through},
      started{env.clock.now()},
      may_begin{what.is_resource || !what.order.announce},
      entered_ns{started.time_since_epoch().count()} {
    if (what.is_resource)
      builds = what.make.id;
    if (limit_ms > 0)
      give_up_at = after(started, limit);
  }
  /// The step that hung and the limit that it passed, in words. @pre the owner's lock is held.
  std::string what_hung() const {
    const bool own = limit > duration{} && give_up_at >= after(started, limit);
    return words()
           + (own ? " exceeded its deadline of " + std::to_string(to_ms(limit)) + " ms"
                  : std::string{" did not end within the grace period after its cancellation"});
  }
  time_point last_entry() const {
    return time_point{duration{entered_ns.load(std::memory_order_relaxed)}};
  }
  bool interrupted() const { return cancelled || of->dead; }
  /// How long it has waited for what other steps hold: no limit of its own counts that.
  duration waited(time_point now) const {
    const auto since = waits_since_ns.load();
    const auto running = since == 0 ? 0 : now.time_since_epoch().count() - since;
    return duration{waited_ns.load() + running};
  }
  /// "step 'train_step', closure 1:17, attempt 2", "the function 'make_data' of resource 4": whose
  /// error it is.
  std::string words() const {
    const auto* entry = function_table::global().at(function);
    const auto name = entry ? "'" + readable_function(entry->name) + "'"
                            : "number " + std::to_string(value_of(function));
    if (builds)
      return "the function " + name + " of resource " + std::to_string(value_of(*builds));
    return "step " + name + ", closure " + std::to_string(value_of(closure.term)) + ":"
           + std::to_string(closure.seq) + ", attempt " + std::to_string(value_of(attempt));
  }
  /// @pre the owner's lock is held, so that the client is there.
  void interrupt() {
    cancelled = true;
    if (client)
      client->wake();
    of->freed->notify_all();
  }

  const std::shared_ptr<life> of;
  const closure_id closure;
  const attempt_no attempt;
  const function_index function;
  const duration limit;                ///< 0: none
  std::optional<resource_id> builds{}; ///< it is a resource's function, not a closure's
  parameter_client* client;            ///< under the owner's lock; null once the step ended
  const time_point started;
  bool may_begin;                       ///< under the owner's lock; false: announced first
  time_point give_up_at = never;        ///< under the owner's lock
  std::atomic<std::int64_t> entered_ns; ///< when the step last called Troupe
  std::atomic<bool> cancelled{false};
  std::atomic<bool> abandoned{false};
  std::atomic<std::int64_t> waited_ns{0};
  std::atomic<std::int64_t> waits_since_ns{0}; ///< 0: it does not wait
  bool told = false; ///< the step has heard of its cancellation; its lane only
  std::shared_ptr<device_context>* device = nullptr; ///< the lane's; its lane only
  std::uint32_t lane = 0; ///< its number, which no other lane of the worker ever had
  std::uint32_t slot = 0; ///< its place among the worker's lanes: that of the lane it replaced
};

/// The `step_host` of one run.
class lane_step final : public step_host {
public:
  lane_step(const environment& env, const task_id& task, parameter_client& client,
            worker_lanes::running_step& step, worker_lanes::life& of,
            const worker_lanes_options& options)
    : env_{env}, task_{task}, client_{client}, step_{step}, life_{of}, options_{options} {}

  /// Runs `body` with this host as the lane's step.
  template <class F>
  payload run(F body) {
    auto& context = current_context();
    struct restore {
      execution_context& at;
      execution_context before;
      ~restore() { at = before; }
    } back{context, context};
    context = {.step = static_cast<step_host*>(this)};
    env_.lanes.spend({});
    return body();
  }

  const environment& env() const override { return env_; }
  task_id task() const override { return task_; }
  closure_id closure() const override { return step_.closure; }
  attempt_no attempt() const override { return step_.attempt; }
  bool cancelled() override {
    touch();
    if (!step_.interrupted())
      return false;
    step_.told = true;
    return true;
  }
  std::shared_ptr<const variable_spec> describe(variable_id variable) override {
    enter();
    auto spec = life_.find(variable);
    if (!spec)
      throw_failure(
        life_.failure_here(errc::unknown_variable,
                           "variable " + std::to_string(value_of(variable)) + " does not exist"));
    return spec;
  }
  std::shared_ptr<const variable_spec> get_or_create(const variable_spec& wanted) override {
    enter();
    auto made = std::make_shared<const variable_spec>(own(life_.routes.get_or_create(
      wanted, [this] { return step_.interrupted() || step_.abandoned; })));
    std::lock_guard lock{life_.mutex};
    life_.variables.try_emplace(made->id, made);
    return made;
  }
  std::vector<variable_value> read(std::span<const variable_id> variables) override {
    enter();
    return own(client_.read(variables));
  }
  tensor gather(variable_id variable, const tensor& indices) override {
    enter();
    return own(client_.gather(variable, indices));
  }
  void mutate(std::span<const mutation> ops) override {
    enter();
    own(client_.mutate(ops));
  }
  resource& resource_of(resource_id id) override {
    enter();
    std::lock_guard lock{life_.mutex};
    auto at = life_.resources.find(id);
    if (at == life_.resources.end())
      throw_failure(life_.failure_here(
        errc::input_failed,
        "resource " + std::to_string(value_of(id)) + " is not on " + to_string(task_)));
    if (at->second.why.code != errc::none) {
      auto why = at->second.why; // the innermost text stands alone, never wrapped twice
      why.code = errc::input_failed;
      throw_failure(std::move(why));
    }
    kept_.push_back(at->second.made.object); // a step that hangs may outlive the resource's drop
    return at->second.made;
  }
  std::shared_ptr<void> hold(std::vector<resource_id> ids) override;
  void compute(duration d) override {
    enter();
    env_.lanes.spend(d);
  }

  device_context& device() override {
    enter();
    if (!options_.device_of)
      throw_failure(errc::device_unavailable, to_string(task_) + " has no device for its steps");
    auto& mine = *step_.device;
    if (!mine)
      mine = own(options_.device_of(step_.slot));
    mine->speak_for(life_.self);
    return *mine;
  }

private:
  template <class T>
  T own(result<T> got) {
    if (!got)
      throw_failure(life_.from_here(std::move(got.error())));
    return std::move(got).value_or_throw();
  }
  void touch() {
    step_.entered_ns.store(env_.clock.now().time_since_epoch().count(), std::memory_order_relaxed);
  }
  void enter() {
    touch();
    if (step_.interrupted() || step_.abandoned)
      throw_failure(life_.failure_here(
        errc::cancelled, "closure " + std::to_string(step_.closure.seq) + " was cancelled"));
  }
  const environment& env_;
  const task_id task_;
  parameter_client& client_;
  worker_lanes::running_step& step_;
  worker_lanes::life& life_;
  const worker_lanes_options& options_;
  std::vector<std::shared_ptr<void>> kept_{};
};

/// Runs user code: what it throws comes back as a failure. A simulator's forced unwind of the lane
/// passes through.
std::optional<failure> guarded(const environment& env, const std::function<void()>& body);

} // namespace troupe
