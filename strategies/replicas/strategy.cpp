#include <troupe/strategies/replicas/strategy.hpp>

#include <utility>

#include <troupe/strategies/replicas/detail/context_stack.hpp>
#include <troupe/strategies/replicas/detail/replica_engine.hpp>

namespace troupe {

using detail::context_frame;
using detail::context_kind;
using detail::innermost_frame;
using detail::innermost_mode;
using detail::replica_engine;

// --- scopes

strategy_scope::strategy_scope(const strategy& of)
  : frame_{std::make_unique<context_frame>(
    context_frame{.kind = context_kind::scope, .strategy = of.state()})} {
  auto* mode = innermost_mode();
  if (mode && mode->strategy != of.state()) {
    if (of.state()->is_standard())
      throw_failure(errc::wrong_state,
                    "scope: the default strategy's scope cannot be nested in that of "
                      + mode->strategy->text());
    throw_failure(errc::wrong_state, "scope: two strategies are mixed: " + mode->strategy->text()
                                       + " is active, the scope is of " + of.to_string());
  }
  if (mode && mode->kind == context_kind::replica && !of.state()->is_standard())
    throw_failure(errc::wrong_state, "scope: called inside a replica of " + of.to_string());
  push_frame(*frame_);
}

strategy_scope::~strategy_scope() {
  if (!frame_)
    return;
  detail::drop_frame(*frame_);
}

void strategy_scope::exit() {
  if (!frame_)
    return;
  auto* inner = innermost_frame();
  if (inner != frame_.get()) {
    const char* what = "another scope";
    switch (inner ? inner->kind : context_kind::scope) {
      case context_kind::device: what = "a device scope"; break;
      case context_kind::creator: what = "a variable creator's scope"; break;
      case context_kind::names: what = "a variable name scope"; break;
      default: break;
    }
    throw_failure(errc::wrong_state,
                  "scope of " + frame_->strategy->text() + " exits while " + what
                    + (inner && !inner->text.empty() ? " (" + inner->text + ")" : std::string{})
                    + " inside it is still active");
  }
  pop_frame(*frame_);
  frame_ = nullptr;
}

namespace detail {

cross_replica_here::cross_replica_here(const std::shared_ptr<replica_engine>& of, std::string names)
  : frame_{std::make_unique<context_frame>(
    context_frame{.kind = context_kind::cross_replica, .strategy = of, .text = std::move(names)})} {
  push_frame(*frame_);
}

cross_replica_here::~cross_replica_here() { (void)exchange_context_local(frame_->outer); }

namespace {

/// Runs `body` as a replica of this process, in the running thread.
void run_as_replica(const std::shared_ptr<replica_engine>& state, std::uint32_t local,
                    const std::string& names,
                    const std::function<void(replica_context&, std::uint32_t)>& body) {
  replica_context ctx{state, local};
  frame_here frame{
    {.kind = context_kind::replica, .strategy = state, .replica = &ctx, .text = names}};
  body(ctx, local);
}

} // namespace

void run_replicas(const std::shared_ptr<replica_engine>& state,
                  std::function<void(replica_context&, std::uint32_t)> body) {
  if (state->is_inline()) { // on this thread, which waits: nothing has to outlive the call
    state->require_cross_replica("run");
    return run_as_replica(state, 0, name_prefix(), body);
  }
  state->run([state, names = name_prefix(), body = std::move(body)](std::uint32_t local) {
    run_as_replica(state, local, names, body);
  });
}

value_context value_context_of(const replica_engine& state, std::uint32_t local) {
  return {.replica_id_in_sync_group = state.first_id() + local,
          .num_replicas_in_sync = state.count()};
}

void require_cross_replica(const replica_engine& state, const char* what) {
  state.require_cross_replica(what);
}

} // namespace detail

// --- strategy

strategy::strategy() : state_{detail::standard_state()} {}

std::uint32_t strategy::num_replicas_in_sync() const { return state_->count(); }
std::shared_ptr<const cluster_resolver> strategy::cluster_resolver() const {
  return state_->options().resolver;
}
std::uint32_t strategy::num_local_replicas() const { return state_->local_count(); }
std::string strategy::to_string() const { return state_->text(); }
std::string strategy::status() const { return state_->status(); }

// --- steps

namespace {

void check_steps(const replica_engine& of, const char* what, std::int64_t steps) {
  of.require_cross_replica(what);
  if (steps < 0)
    throw_failure(errc::invalid_argument, std::string{what} + ": " + std::to_string(steps)
                                            + " steps of " + of.text()
                                            + "; the number must not be negative");
}

} // namespace

step_range strategy::steps(std::int64_t n) const {
  check_steps(*state_, "steps", n);
  return {state_, n};
}

std::int64_t strategy::committed_steps() const { return state_->committed_steps(); }

void strategy::set_committed_steps(std::int64_t k) const {
  check_steps(*state_, "set_committed_steps", k);
  state_->set_committed_steps(k);
}

// --- what is ambient

namespace {

std::shared_ptr<replica_engine> chosen() { return context_kept<replica_engine>(); }

/// Of the default strategy, for who asks outside any run.
replica_context& standard_replica() {
  static auto& one = *new replica_context{detail::standard_state(), 0};
  return one;
}

} // namespace

strategy get_strategy() {
  if (auto* mode = innermost_mode())
    return strategy{mode->strategy};
  auto own = chosen();
  return own ? strategy{own} : strategy{};
}

bool has_strategy() { return !get_strategy().state()->is_standard(); }

bool in_cross_replica_context() {
  auto* mode = innermost_mode();
  if (!mode)
    return chosen() != nullptr;
  // The default strategy's scope changes nothing.
  return mode->kind != context_kind::replica
         && !(mode->kind == context_kind::scope && mode->strategy->is_standard());
}

replica_context* get_replica_context() {
  if (in_cross_replica_context())
    return nullptr;
  auto* mode = innermost_mode();
  return mode && mode->replica ? mode->replica : &standard_replica();
}

std::optional<strategy> get_cross_replica_context() {
  if (!in_cross_replica_context())
    return std::nullopt;
  return get_strategy();
}

void experimental_set_strategy(std::optional<strategy> to) {
  if (innermost_mode())
    throw_failure(errc::wrong_state,
                  "experimental_set_strategy: must not be called inside a strategy's scope");
  keep_in_context<replica_engine>(to && !to->state()->is_standard() ? to->state() : nullptr);
}

} // namespace troupe
