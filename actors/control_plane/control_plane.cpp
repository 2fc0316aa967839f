#include <troupe/actors/control_plane/control_plane.hpp>

#include <utility>

#include <troupe/messages/interfaces.hpp>
#include <troupe/messages/links.hpp>
#include <troupe/messages/variables.hpp>

namespace troupe {

namespace {

class link_way final : public relay_way {
public:
  explicit link_way(std::shared_ptr<control_link> link) : link_{std::move(link)} {}
  bool take(std::uint64_t number, caf::message& what) override {
    auto msg = encode_link(what);
    return msg && link_->send(msg->kind, number, std::move(msg->bytes));
  }

private:
  const std::shared_ptr<control_link> link_;
};

} // namespace

control_plane::control_plane(const environment& env, caf::actor_system& system,
                             control_event_loop_options options)
  : env_{env}, system_{system}, loop_{env, std::move(options), *this} {}

control_plane::~control_plane() { stop(); }

void control_plane::start(job_kind job, const caf::strong_actor_ptr& actor) {
  job_ = job;
  actor_ = actor.get();
  running_ = env_.threads.start("control", [this] { loop_.run(); });
}

void control_plane::stop() {
  loop_.stop();
  if (running_)
    running_->join();
  running_ = nullptr;
}

template <class Message>
void control_plane::tell_actor(const caf::strong_actor_ptr& to, Message msg) {
  if (job_ == job_kind::worker) {
    if constexpr (accepts<worker_actor, Message>)
      tell_here(caf::actor_cast<worker_actor>(to), std::move(msg));
  } else {
    tell_here(caf::actor_cast<coordinator_actor>(to), std::move(msg));
  }
}

void control_plane::on_up(const link_owner& owner, const std::shared_ptr<control_link>& link) {
  auto made = make_relay(system_, std::make_shared<link_way>(link));
  relays_[owner] = made;
  if (auto to = actor_.lock(); to && job_ != job_kind::worker)
    tell_actor(to, worker_linked{.task = owner.task, .inc = owner.inc, .handle = made});
}

result<void> control_plane::on_message(const link_owner& owner, link_kind kind,
                                       std::uint64_t request, std::string_view bytes) {
  const bool ours = job_ == job_kind::worker ? is_for_worker(kind) : is_for_coordinator(kind);
  const bool numbered = kind == link_kind::request_variable  ? is_request_number(request)
                        : kind == link_kind::variable_answer ? is_answer_number(request)
                                                             : request == 0;
  if (!ours || !numbered)
    return make_failure(errc::bad_frame, "link of " + to_string(owner.task) + ": frame kind "
                                           + std::to_string(static_cast<unsigned>(kind))
                                           + ", request " + std::to_string(request)
                                           + ": unexpected on this side");
  auto what = decode_link(kind, bytes);
  if (!what)
    return what.error();
  if (auto to = actor_.lock())
    deliver_here(to, relays_.at(owner), request, std::move(*what));
  return {};
}

void control_plane::on_down(const link_owner& owner, const failure& why, bool clean) {
  relays_.erase(owner);
  if (auto to = actor_.lock())
    tell_actor(
      to, link_ended{.task = owner.task, .inc = owner.inc, .clean = clean, .reason = why.text});
}

} // namespace troupe
