#include <troupe/strategies/checkpoint/preemption_checkpoint.hpp>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <csignal>
#include <cstring>
#include <utility>

#include <troupe/core/thrown.hpp>
#include <troupe/strategies/replicas/detail/worker_calls.hpp>

namespace troupe {

namespace {

constexpr const char* calls_counter = "preemption/calls";
constexpr duration watch_every = std::chrono::seconds{1};
constexpr const char* check_name = "preemption check";
constexpr int report_tries = 3;

/// Set by the handler, which may do no more.
std::atomic<bool> terminated{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void on_sigterm(int) { terminated = true; }

/// Errors that only tell of another worker's.
bool is_consequence(errc code) {
  return code == errc::cancelled || code == errc::revoked || code == errc::peer_lost
         || code == errc::deadline || code == errc::mismatch;
}

/// What `worker` failed with came from another one.
bool is_consequence(const failure& why, std::uint32_t worker) {
  return is_consequence(why.code)
         || (is_known(why.where)
             && why.where.task != task_id{.job = job_kind::worker, .index = worker});
}

/// Grammar: (kind ' ' round ' ' to ' ' step '\n')*.
std::string encode(const std::vector<preemption_outgoing>& all) {
  std::string out;
  for (const auto& each : all)
    out += std::to_string(static_cast<int>(each.message.kind)) + " "
           + std::to_string(each.message.round) + " " + std::to_string(each.to) + " "
           + std::to_string(each.message.step) + "\n";
  return out;
}

std::optional<preemption_outgoing> take_message(const char*& at, const char* end) {
  std::uint64_t numbers[4]{};
  for (auto& each : numbers) {
    auto [after, failed] = std::from_chars(at, end, each);
    if (failed != std::errc{} || after == end)
      return std::nullopt;
    at = after + 1;
  }
  if (numbers[0] > 2)
    return std::nullopt;
  preemption_outgoing out;
  out.message.kind = static_cast<preemption_message_kind>(numbers[0]);
  out.message.round = static_cast<std::uint32_t>(numbers[1]);
  out.to = static_cast<std::uint32_t>(numbers[2]);
  out.message.step = numbers[3];
  return out;
}

} // namespace

struct preemption_checkpoint::state {
  state(sync_checkpoint& c, preemption_checkpoint_options o)
    : checkpoint{c},
      options{std::move(o)},
      of{c.strategy().state()},
      calls{c.own_counter(calls_counter)} {}

  sync_checkpoint& checkpoint;
  preemption_checkpoint_options options;
  std::shared_ptr<detail::replica_engine> of;
  std::shared_ptr<std::int64_t> calls; ///< that have ended; the checkpoint's
  std::optional<preemption_core> core{};
  std::atomic<bool> noticed{false};
  time_point watch_at{};
  bool open_call = false; ///< that has begun
  void (*before)(int) = nullptr;
  bool handles = false;

  time_point now() const { return of->env().clock.now(); }
  void look_for_notice();
  bool talk(bool holds);
  void deliver(const std::vector<std::string>& told);
  std::vector<std::string> report(const failure& why);
  void check();
  void save();
  void leave(int code);
};

preemption_checkpoint::preemption_checkpoint(sync_checkpoint& checkpoint,
                                             preemption_checkpoint_options options)
  : state_{std::make_unique<state>(checkpoint, std::move(options))} {
  auto& s = *state_;
  (void)checkpoint.restore();
  const auto& how = s.of->options();
  s.core.emplace(s.options.termination, how.worker, how.workers,
                 static_cast<std::uint64_t>(*s.calls));
  if (s.options.handle_sigterm) {
    s.before = std::signal(SIGTERM, on_sigterm);
    s.handles = true;
  }
}

preemption_checkpoint::~preemption_checkpoint() {
  if (state_->handles && state_->before != SIG_ERR)
    std::signal(SIGTERM, state_->before);
}

std::uint64_t preemption_checkpoint::total_run_calls() const {
  return state_->core->total_run_calls();
}
void preemption_checkpoint::notice() { state_->noticed = true; }
std::string preemption_checkpoint::status() const { return state_->core->status(); }

void preemption_checkpoint::state::look_for_notice() {
  bool told = noticed.exchange(false);
  if (handles)
    told = terminated.exchange(false) || told;
  if (options.watcher && now() >= watch_at) {
    watch_at = after(now(), watch_every);
    told = options.watcher() || told;
  }
  if (told && core->on_notice(now()))
    mark(of->env(), "preemption.noticed");
}

/// All workers tell each other what they have to say; most of the time nothing. True: they should
/// again.
bool preemption_checkpoint::state::talk(bool holds) {
  const auto messages = core->take_outgoing();
  const bool has_news = holds || !messages.empty();
  if (detail::largest_of(*of, has_news ? 1 : 0, check_name) == 0)
    return false;
  deliver(detail::exchange_texts(*of, "0" + encode(messages), check_name));
  return true;
}

/// Of each worker "0" and its messages, or "1" and how its call failed.
void preemption_checkpoint::state::deliver(const std::vector<std::string>& told) {
  std::optional<failure> first;
  bool is_original = false;
  for (std::uint32_t from = 0; from < told.size(); ++from) {
    const auto& text = told[from];
    if (!text.starts_with('1'))
      continue;
    auto end = detail::decode_outcome(text.substr(1));
    if (end)
      continue;
    const bool original = !is_consequence(end.error(), from);
    if (!first || (original && !is_original))
      first = detail::of_worker(from, std::move(end.error()));
    is_original = is_original || original;
  }
  if (first)
    throw_failure(std::move(*first));
  const auto self = of->options().worker;
  for (std::uint32_t from = 0; from < told.size(); ++from) {
    const char* at = told[from].data() + std::min<std::size_t>(1, told[from].size());
    const char* end = told[from].data() + told[from].size();
    while (at != end) {
      auto message = take_message(at, end);
      if (!message)
        throw_failure(errc::bad_frame,
                      "preemption: malformed message from worker " + std::to_string(from));
      message->message.from = from;
      if (message->to == self && from != self)
        core->on_message(message->message).value_or_throw();
    }
  }
}

/// Before a call: all workers agree whether it is made, and save where they agreed to.
void preemption_checkpoint::state::check() {
  look_for_notice();
  try {
    for (;;) {
      auto action = core->before_call(now());
      while (talk(action == preemption_action::hold))
        if (action == preemption_action::hold)
          action = core->before_call(now());
      if (action != preemption_action::save)
        return;
      save();
    }
  } catch (...) {
    core->give_up();
    throw;
  }
}

void preemption_checkpoint::state::save() {
  if (options.save)
    options.save();
  else
    (void)checkpoint.save();
  core->saved();
  trace(of->env(), "preemption.saved", {{"calls", *calls}});
  const auto code = core->exits();
  if (!code)
    return;
  detail::worker_barrier(*of, "preemption exit"); // nobody leaves while others still save
  leave(*code);
}

void preemption_checkpoint::state::leave(int code) {
  mark(of->env(), "preemption.exit");
  if (options.exit)
    options.exit(code);
  of->env().threads.leave_now(code);
}

void preemption_checkpoint::begin() {
  finish();
  state_->check();
  state_->open_call = true;
}

void preemption_checkpoint::save_if_preempted() { begin(); }

void preemption_checkpoint::finish() {
  auto& s = *state_;
  if (std::exchange(s.open_call, false))
    s.core->call_finished(s.now());
  *s.calls = static_cast<std::int64_t>(s.core->total_run_calls());
}

/// What all workers have to say, after a call of this one failed. The others may be in the middle
/// of a call of theirs, and come here once it has failed too.
std::vector<std::string> preemption_checkpoint::state::report(const failure& why) {
  of->interrupt(why);
  if (why.code == errc::peer_lost || why.code == errc::deadline)
    return {}; // the lost worker would not answer either, and its name is known
  for (int left = report_tries; left > 0; --left) {
    try {
      (void)detail::largest_of(*of, 1, check_name);
      return detail::exchange_texts(*of, "1" + detail::encode_outcome(*of, why), check_name);
    } catch (const error& e) { // what others did instead has failed now as well
      if (e.code() == errc::deadline)
        break;
    }
  }
  return {};
}

/// In the handler of what a call threw. The others hear of it in their next check, or at the end of
/// their own call that failed with it.
void preemption_checkpoint::failed() {
  auto& s = *state_;
  if (ends_the_thread())
    throw;
  const auto why = current_failure();
  const auto thrown = std::current_exception();
  s.open_call = false;
  s.core->give_up();
  try {
    s.deliver(s.report(why));
  } catch (const error& e) {
    // Another worker's is the cause of this one's.
    if (is_consequence(why, s.of->options().worker) && !is_consequence(e.code()))
      throw;
  }
  std::rethrow_exception(thrown);
}

} // namespace troupe
