#include <troupe/strategies/replicas/step_range.hpp>

#include <string>

#include <troupe/strategies/replicas/detail/replica_engine.hpp>

namespace troupe {

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
