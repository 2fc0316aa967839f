#include <troupe/actors/coordinator/settlement.hpp>

#include <algorithm>
#include <utility>

namespace troupe {

void settlement::acknowledged(std::uint32_t server, std::uint64_t list_no) {
  if (auto at = acknowledged_.find(server); at != acknowledged_.end())
    at->second = std::max(at->second, list_no);
}

bool settlement::start_timer() { return ends_since_list_ > 0 && !std::exchange(timer_runs_, true); }

bool settlement::timer_ended() {
  timer_runs_ = false;
  return ends_since_list_ > 0;
}

bool settlement::list_wanted() const {
  return std::any_of(held_.begin(), held_.end(), [](const held_end& h) { return h.list_no == 0; });
}

std::uint64_t settlement::next_list(completion_watermark& of_queue) {
  ends_since_list_ = 0;
  ++list_no_;
  for (auto& h : held_) {
    std::erase(of_queue.open, h.end.which->id.seq);
    if (h.list_no == 0)
      h.list_no = list_no_;
  }
  return list_no_;
}

std::vector<closure_end> settlement::take_confirmed() {
  auto by_all = list_no_;
  for (const auto& [server, list_no] : acknowledged_)
    by_all = std::min(by_all, list_no);
  std::vector<closure_end> out;
  for (auto& h : held_)
    if (h.list_no != 0 && h.list_no <= by_all)
      out.push_back(std::move(h.end));
  std::erase_if(held_, [&](const held_end& h) { return h.list_no != 0 && h.list_no <= by_all; });
  return out;
}

} // namespace troupe
