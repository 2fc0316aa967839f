#include <troupe/strategies/runtime/detail/coordinator_seat.hpp>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <utility>

#include <troupe/strategies/runtime/detail/start_report.hpp>

namespace troupe::detail {

namespace {

/// Says on stderr who was not let in, each text once: a supervisor may send the same one for ever.
std::function<void(const failure&)> refusal_log() {
  return [said = std::set<std::string>{}](const failure& why) mutable {
    constexpr std::size_t texts_max = 100;
    if (said.size() < texts_max && said.insert(why.text).second)
      std::fprintf(stderr, "troupe: refused: %s\n", to_string(why).c_str());
  };
}

} // namespace

membership_actor_options coordinator_seat::membership_settings() {
  const auto& options = context_.options;
  auto& table = function_table::global();
  membership_actor_options out{
    .core = {.cluster = options.cluster_name,
             .term = term_no{1},
             .workers = options.workers,
             .servers =
               options.server_tasks.empty() ? options.servers : options.server_tasks.back() + 1,
             .worker_index_max = 100'000,
             .functions_hash = table.hash(),
             .functions = table.lines()},
    .token = options.token};
  if (context_.host.has_own_ports()) // else the host traces what it wants to know
    out.on_refused = refusal_log();
  out.core.detector.floor_ms = static_cast<std::int64_t>(options.suspect_ms_min);
  membership_ended_ = std::make_shared<promise_slot<bool>>(context_.host.env());
  out.ended = membership_ended_;
  return out;
}

coordinator_options coordinator_seat::coordinator_settings() const {
  const auto& options = context_.options;
  coordinator_options out{.server_tasks = options.server_tasks,
                          .servers = options.servers,
                          .start_workers = options.start_workers,
                          .threads = options.threads_per_worker,
                          .request_ms = static_cast<std::uint64_t>(to_ms(options.request_timeout)),
                          .quiesce_ms_max = options.quiesce_ms_max,
                          .cancel_grace_ms = options.cancel_grace_ms,
                          .max_failed_attempts = options.max_failed_attempts};
  out.on_member = options.on_member;
  out.say = context_.host.notices(options);
  out.queue.queue_len_max = options.queue_len_max;
  out.queue.no_worker_ms_max = static_cast<std::int64_t>(options.no_worker_ms_max);
  return out;
}

namespace {

constexpr duration listen_max = std::chrono::seconds{10};

} // namespace

std::string coordinator_seat::start_membership(membership_actor_options settings) {
  const auto& env = context_.host.env();
  const auto published = settings.published;
  const auto host = settings.listen_host;
  membership_ = spawn_membership(context_.host.system(), env, std::move(settings));
  context_.ends.follow(membership_);
  std::string address;
  if (published) {
    const auto port =
      published->wait(after(env.clock.now(), listen_max), "listen").value_or_throw();
    address = host + ":" + std::to_string(port);
  }
  shared_ = std::make_shared<coordinator_shared>(env);
  return address;
}

caf::strong_actor_ptr coordinator_seat::start_coordinator(coordinator_options settings, ways to) {
  const auto& env = context_.host.env();
  const auto& options = context_.options;
  auto actor =
    spawn_coordinator(context_.host.system(), env, shared_, membership_, std::move(settings));
  context_.ends.follow(actor);
  auto handle = caf::actor_cast<caf::strong_actor_ptr>(actor);
  cluster_ = std::make_shared<coordinator_client>(
    env, shared_, std::move(actor), server_tasks_of(options), std::move(to.connect),
    std::move(to.open_snapshot_reader), options.request_timeout);
  cluster_->expect_workers(worker_tasks_of(options), to.others_join);
  return handle;
}

std::string coordinator_seat::whom_start_waits_for() const {
  try {
    return start_report(context_.options,
                        cluster_->call<start_state>(
                          "start", std::chrono::seconds{2},
                          [](coordinator_state& state, auto done) { state.tell_start(done); }));
  } catch (const error& e) {
    return std::string{"cannot list the missing servers and workers: "} + e.what();
  }
}

namespace {

constexpr duration say_start_every = std::chrono::seconds{5};

} // namespace

void coordinator_seat::wait_started() {
  const auto& env = context_.host.env();
  const auto say = context_.host.notices(context_.options);
  const auto began = env.clock.now();
  const auto deadline = after(began, context_.options.start_timeout);
  for (;;) {
    const auto until = std::min(deadline, after(env.clock.now(), say_start_every));
    auto term = shared_->started->poll_until(until, "start");
    if (term)
      return;
    if (term.error().code != errc::deadline)
      throw_failure(term.error());
    const auto text = "start: after " + std::to_string(to_ms(env.clock.now() - began))
                      + " ms: " + whom_start_waits_for();
    if (env.clock.now() >= deadline)
      throw_failure(errc::deadline, text);
    trace(env, "runtime.start_waits", {{"text", text}});
    if (say)
      say(text);
  }
}

member coordinator_seat::server_member(std::uint32_t server) const {
  auto all = cluster_->call<std::map<std::uint32_t, member>>(
    "servers", context_.options.request_timeout,
    [](coordinator_state& s, auto done) { s.server_members(done); });
  auto at = all.find(server);
  return at == all.end() ? member{} : at->second;
}

namespace {

class end_call final : public coordinator_call {
public:
  explicit end_call(cluster_end how) : how_{std::move(how)} {}
  void run(coordinator_state& state) override { state.end_cluster_now(std::move(how_)); }

private:
  cluster_end how_;
};

} // namespace

void coordinator_seat::end(time_point deadline, const cluster_end& how) {
  if (cluster_) {
    cluster_->post(std::make_shared<end_call>(how));
    if (!membership_ended_->poll_until(deadline, "shutdown") && membership_)
      tell_from_outside(
        membership_, // the coordinator could not say it
        end_cluster{.deadline_ms = 0, .why = how.why, .members_stay = how.members_stay});
    cluster_->close();
  } else if (membership_) // started without a coordinator yet
    tell_from_outside(membership_, end_cluster{.why = how.why});
}

} // namespace troupe::detail
