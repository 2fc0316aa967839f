#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <troupe/actors/worker/detail/running_step.hpp>
#include <troupe/core/execution_context.hpp>
#include <troupe/core/step_host.hpp>
#include <troupe/device/step_device.hpp>

/// The host of a running step, on a compute thread of a worker.
namespace troupe {

/// Makes the device context of a compute thread, by the thread's place; null: steps have no device.
using step_device_maker =
  std::function<result<std::shared_ptr<device_context>>(std::uint32_t place)>;

/// The `step_host` of one run.
class worker_step_host final : public step_host, public step_device {
public:
  /// @param device_of outlives this
  worker_step_host(const environment& env, const task_id& task, parameter_client& client,
                   running_step& step, const step_device_maker& device_of)
    : env_{env},
      task_{task},
      client_{client},
      step_{step},
      session_{*step.of},
      device_of_{device_of} {}

  /// Runs `body` with this host as the thread's step.
  template <class F>
  payload run(F body) {
    auto& context = current_context();
    struct restore {
      execution_context& at;
      execution_context before;
      ~restore() { at = std::move(before); }
    } back{context, std::exchange(context, {.step = this})};
    env_.threads.spend({});
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
    auto spec = session_.find(variable);
    if (!spec)
      throw_failure(session_.failure_here(
        errc::unknown_variable,
        "variable " + std::to_string(value_of(variable)) + " does not exist"));
    return spec;
  }
  std::shared_ptr<const variable_spec> get_or_create(const variable_spec& wanted) override {
    enter();
    auto made = std::make_shared<const variable_spec>(own(session_.routes.get_or_create(
      wanted, [this] { return step_.interrupted() || step_.abandoned; })));
    std::lock_guard lock{session_.mutex};
    session_.variables.try_emplace(made->id, made);
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
    std::lock_guard lock{session_.mutex};
    auto at = session_.resources.find(id);
    if (at == session_.resources.end())
      throw_failure(session_.failure_here(
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
    env_.threads.spend(d);
  }

  device_context& device() override {
    enter();
    if (!device_of_)
      throw_failure(errc::device_unavailable, to_string(task_) + " has no device for its steps");
    auto& mine = *step_.device;
    if (!mine)
      mine = own(device_of_(step_.thread.place));
    mine->speak_for(session_.self);
    return *mine;
  }

private:
  template <class T>
  T own(result<T> got) {
    if (!got)
      throw_failure(session_.from_here(std::move(got.error())));
    return std::move(got).value_or_throw();
  }
  void touch() {
    step_.entered_ns.store(env_.clock.now().time_since_epoch().count(), std::memory_order_relaxed);
  }
  void enter() {
    touch();
    if (step_.interrupted() || step_.abandoned)
      throw_failure(session_.failure_here(
        errc::cancelled, "closure " + std::to_string(step_.closure.seq) + " was cancelled"));
  }
  const environment& env_;
  const task_id task_;
  parameter_client& client_;
  running_step& step_;
  worker_session& session_;
  const step_device_maker& device_of_;
  std::vector<std::shared_ptr<void>> kept_{};
};

/// Runs user code: what it throws comes back as a failure. A simulator's forced unwind of the
/// thread passes through.
std::optional<failure> guarded(const environment& env, const std::function<void()>& body);

} // namespace troupe
