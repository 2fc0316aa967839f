#include <troupe/core/caf_relay.hpp>

#include <caf/actor_proxy.hpp>
#include <caf/detail/sync_request_bouncer.hpp>
#include <caf/execution_unit.hpp>
#include <caf/exit_reason.hpp>
#include <caf/resumable.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>

namespace troupe {

namespace {

// Handled here before the scheduler takes over: who brings a message has other things to do.
constexpr std::size_t messages_here_max = 8;

/// Where the first job runs that becomes ready; all others go to the scheduler.
class here_unit final : public caf::execution_unit {
public:
  explicit here_unit(caf::actor_system& system) : execution_unit{&system} {}

  void exec_later(caf::resumable* job) override {
    if (job_ == nullptr)
      job_ = job;
    else
      system().scheduler().enqueue(job);
  }

  void run() {
    if (job_ == nullptr)
      return;
    switch (job_->resume(this, messages_here_max)) {
      case caf::resumable::resume_later: system().scheduler().enqueue(job_); break;
      case caf::resumable::shutdown_execution_unit: break;
      default: caf::intrusive_ptr_release(job_);
    }
  }

private:
  caf::resumable* job_ = nullptr;
};

class relay final : public caf::actor_proxy {
public:
  relay(caf::actor_config& config, std::shared_ptr<relay_way> way)
    : actor_proxy{config}, way_{std::move(way)} {}

  void enqueue(caf::mailbox_element_ptr what, caf::execution_unit*) override {
    auto content = what->move_content_to_message();
    if (!way_->take(what->mid.is_async() ? 0 : what->mid.integer_value(), content)
        && what->mid.is_request())
      caf::detail::sync_request_bouncer{caf::exit_reason::remote_link_unreachable}(what->sender,
                                                                                   what->mid);
  }
  void kill_proxy(caf::execution_unit* ctx, caf::error reason) override {
    cleanup(std::move(reason), ctx);
  }

private:
  const std::shared_ptr<relay_way> way_;
};

} // namespace

caf::strong_actor_ptr make_relay(caf::actor_system& system, std::shared_ptr<relay_way> way) {
  caf::actor_config config;
  return caf::make_actor<relay, caf::strong_actor_ptr>( // no node: it is none of this system's own
    system.next_actor_id(), caf::node_id{}, &system, config, std::move(way));
}

void run_here(caf::abstract_actor& at, caf::mailbox_element_ptr what) {
  auto& system = at.home_system();
  if (!is_ours(system))
    return at.enqueue(std::move(what), nullptr);
  here_unit here{system};
  at.enqueue(std::move(what), &here);
  here.run();
}

void deliver_here(const caf::strong_actor_ptr& to, caf::strong_actor_ptr from, std::uint64_t number,
                  caf::message what) {
  auto id = number == 0 ? caf::make_message_id() : caf::make_message_id(number);
  run_here(*to->get(), caf::make_mailbox_element(std::move(from), id, {}, std::move(what)));
}

namespace {

/// Other categories lead into queues that Troupe does not use.
bool is_ordinary(const caf::message_id& id) {
  return id.category() == caf::message_id::normal_message_category && !id.is_answered();
}

} // namespace

bool is_request_number(std::uint64_t number) {
  auto id = caf::make_message_id(number);
  return is_ordinary(id) && id.is_request();
}

bool is_answer_number(std::uint64_t number) {
  auto id = caf::make_message_id(number);
  return is_ordinary(id) && id.is_response();
}

} // namespace troupe
