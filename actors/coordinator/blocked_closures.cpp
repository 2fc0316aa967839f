#include <troupe/actors/coordinator/blocked_closures.hpp>

#include <utility>

namespace troupe {

auto blocked_closures::add(const queued_closure_ptr& c) -> look {
  bool complete = true;
  for (const auto& input : c->inputs) {
    const remote_status status = input->status.load();
    if (status == remote_status::failed || status == remote_status::cancelled)
      return {.what = inputs::broken, .broken = input.get()};
    if (status == remote_status::ready)
      continue;
    complete = false;
    // Several entries for one pair do no harm: the first takes the closure out.
    auto& dependents = dependents_[input.get()];
    if (dependents.empty() || dependents.back() != c)
      dependents.push_back(c);
  }
  if (complete)
    return {};
  c->place = closure_place::blocked;
  blocked_.emplace(c->id.seq, c);
  return {.what = inputs::missing};
}

std::vector<queued_closure_ptr> blocked_closures::on_ready(const remote_state& input) {
  const auto found = dependents_.find(&input);
  const remote_status status = input.status.load();
  if (found == dependents_.end() || status == remote_status::not_ready
      || status == remote_status::aborted)
    return {};
  const auto dependents = std::move(found->second);
  dependents_.erase(found);
  std::vector<queued_closure_ptr> out;
  for (const auto& c : dependents)
    if (c->place == closure_place::blocked) {
      blocked_.erase(c->id.seq);
      c->place = closure_place::outside;
      out.push_back(c);
    }
  return out;
}

void blocked_closures::list_up_to(std::uint64_t seq_max, std::vector<std::uint64_t>& to) const {
  for (auto at = blocked_.begin(); at != blocked_.end() && at->first <= seq_max; ++at)
    to.push_back(at->first);
}

void blocked_closures::move_all(std::vector<queued_closure_ptr>& to) {
  dependents_.clear();
  for (auto& [seq, c] : blocked_) {
    c->place = closure_place::outside;
    to.push_back(std::move(c));
  }
  blocked_.clear();
}

void blocked_closures::move_unacknowledged(std::vector<queued_closure_ptr>& to) {
  for (auto at = blocked_.begin(); at != blocked_.end();) {
    if (!at->second->unacknowledged) {
      ++at;
      continue;
    }
    at->second->place = closure_place::outside;
    to.push_back(std::move(at->second));
    at = blocked_.erase(at);
  }
}

} // namespace troupe
