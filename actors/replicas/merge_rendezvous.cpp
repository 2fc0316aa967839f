#include <troupe/actors/replicas/merge_rendezvous.hpp>

namespace troupe {

std::shared_ptr<merge_meeting> merge_rendezvous::arrive(std::uint64_t number, std::uint32_t local,
                                                        std::shared_ptr<void> argument,
                                                        const merge_body& body) {
  auto& meeting = meetings_[number];
  if (!meeting) // the first who comes
    meeting = std::make_shared<merge_meeting>(replicas_);
  meeting->arguments_[local] = std::move(argument);
  if (local == 0)
    meeting->body_ = body;
  ++meeting->arrived_;
  return meeting;
}

std::shared_ptr<merge_meeting> merge_rendezvous::ready(std::uint64_t number) const {
  const auto at = meetings_.find(number);
  return at != meetings_.end() && at->second->is_ready() ? at->second : nullptr;
}

std::shared_ptr<void> merge_rendezvous::leave(std::uint64_t number, merge_meeting& from,
                                              std::uint32_t local) {
  auto out = from.results_.empty() ? nullptr : from.results_[local];
  if (++from.left_ == replicas_)
    meetings_.erase(number);
  return out;
}

std::map<std::uint64_t, std::shared_ptr<merge_meeting>> merge_rendezvous::take_all() {
  return std::exchange(meetings_, {});
}

} // namespace troupe
