#include <troupe/strategies/replicas/step_range.hpp>

#include <string>

#include <troupe/strategies/replicas/detail/sync_state.hpp>
#include <troupe/strategies/replicas/strategy.hpp>

namespace troupe {

namespace {

void check_steps(const detail::sync_state& of, const char* what, std::int64_t steps) {
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

step_range::iterator step_range::begin() const { return {of_, of_->committed_steps(), end_}; }

step_range::iterator& step_range::iterator::operator++() {
  if (!of_->commit_step(at_))
    throw_failure(errc::wrong_state,
                  "steps: step " + std::to_string(at_) + " of " + of_->text()
                    + " cannot be committed: " + std::to_string(of_->committed_steps())
                    + " are committed; another loop or set_committed_steps changed the counter");
  ++at_;
  return *this;
}

} // namespace troupe
