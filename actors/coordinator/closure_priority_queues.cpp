#include <troupe/actors/coordinator/closure_priority_queues.hpp>

#include <algorithm>
#include <bit>
#include <iterator>
#include <utility>

namespace troupe {

// -- one audience --------------------------------------------------------------------------------

void closure_priority_queue::insert(queued_closure_ptr c) {
  const std::size_t at = index(c->options.priority - priority_min);
  auto& queue = queues_[at];
  if (queue.empty() || queue.back()->id < c->id) {
    queue.push_back(std::move(c));
  } else if (c->id < queue.front()->id) {
    queue.push_front(std::move(c));
  } else {
    auto later = [](const queued_closure_ptr& a, const queued_closure_ptr& b) {
      return a->id < b->id;
    };
    auto before = std::upper_bound(queue.begin(), queue.end(), c, later);
    queue.insert(before, std::move(c));
  }
  classes_ |= 1u << at;
  ++size_;
}

queued_closure_ptr closure_priority_queue::pop(int class_index) {
  auto& queue = queues_[index(class_index)];
  queued_closure_ptr c = std::move(queue.front());
  queue.pop_front();
  if (queue.empty())
    classes_ &= ~(1u << class_index);
  --size_;
  return c;
}

void closure_priority_queue::move_all(std::vector<queued_closure_ptr>& to) {
  for (std::size_t i = class_count; i-- > 0;) {
    std::move(queues_[i].begin(), queues_[i].end(), std::back_inserter(to));
    queues_[i].clear();
  }
  classes_ = 0;
  size_ = 0;
}

void closure_priority_queue::move_unacknowledged(std::vector<queued_closure_ptr>& to) {
  for (std::size_t i = class_count; i-- > 0;) {
    auto& queue = queues_[i];
    const auto first = std::stable_partition(
      queue.begin(), queue.end(), [](const queued_closure_ptr& c) { return !c->unacknowledged; });
    size_ -= static_cast<std::size_t>(queue.end() - first);
    std::move(first, queue.end(), std::back_inserter(to));
    queue.erase(first, queue.end());
    if (queue.empty())
      classes_ &= ~(1u << i);
  }
}

void closure_priority_queue::list_up_to(std::uint64_t seq_max,
                                        std::vector<std::uint64_t>& to) const {
  for (const auto& queue : queues_)
    for (const auto& c : queue) {
      if (c->id.seq > seq_max)
        break;
      to.push_back(c->id.seq);
    }
}

// -- all queues ----------------------------------------------------------------------------------

void closure_priority_queues::insert(queued_closure_ptr c) {
  c->place = closure_place::queued;
  if (c->tagged) {
    ++tagged_size_;
    own_[c->worker].tagged.insert(std::move(c));
    return;
  }
  ++size_;
  if (c->options.worker)
    own_[*c->options.worker].affine.insert(std::move(c));
  else
    shared_.insert(std::move(c));
}

namespace {

/// The highest class of a set; -1 when it is empty.
int highest(std::uint32_t classes) { return static_cast<int>(std::bit_width(classes)) - 1; }

} // namespace

std::string closure_priority_queues::tied_text() const {
  constexpr int shown_max = 8;
  std::string out;
  int shown = 0;
  for (const auto& [worker, queues] : own_) {
    if (queues.affine.empty())
      continue;
    if (shown++ == shown_max)
      return out + ", ...";
    out += (out.empty() ? "" : ", ") + std::to_string(queues.affine.size())
           + " bound to worker:" + std::to_string(worker);
  }
  return out;
}

closure_priority_queues::spot closure_priority_queues::find(std::uint32_t worker,
                                                            bool tagged_only) {
  own_queues* mine = nullptr;
  if (!own_.empty())
    if (auto it = own_.find(worker); it != own_.end())
      mine = &it->second;
  if (mine && !mine->tagged.empty())
    return {&mine->tagged, highest(mine->tagged.classes())};
  if (tagged_only)
    return {};
  const int ours = mine ? highest(mine->affine.classes()) : -1;
  const int all = highest(shared_.classes());
  if (ours < 0 && all < 0)
    return {};
  if (ours > all)
    return {&mine->affine, ours};
  if (all > ours)
    return {&shared_, all};
  const bool first = mine->affine.front(ours)->id < shared_.front(all)->id;
  return {first ? &mine->affine : &shared_, all};
}

const queued_closure* closure_priority_queues::peek(std::uint32_t worker, bool tagged_only) {
  const spot at = find(worker, tagged_only);
  return at.queue ? at.queue->front(at.class_index).get() : nullptr;
}

queued_closure_ptr closure_priority_queues::pop(std::uint32_t worker, bool tagged_only) {
  const spot at = find(worker, tagged_only);
  queued_closure_ptr c = at.queue->pop(at.class_index);
  --(c->tagged ? tagged_size_ : size_);
  return c;
}

std::optional<int> closure_priority_queues::top_priority(std::uint32_t worker) const {
  std::uint32_t classes = shared_.classes();
  if (auto it = own_.find(worker); it != own_.end())
    classes |= it->second.affine.classes();
  if (classes == 0)
    return {};
  return highest(classes) + priority_min;
}

std::vector<queued_closure_ptr> closure_priority_queues::move_all() {
  std::vector<queued_closure_ptr> all;
  all.reserve(size_);
  shared_.move_all(all);
  for (auto& [worker, queues] : own_)
    queues.affine.move_all(all);
  size_ = 0;
  return all;
}

std::vector<queued_closure_ptr> closure_priority_queues::move_unacknowledged() {
  std::vector<queued_closure_ptr> some;
  shared_.move_unacknowledged(some);
  for (auto& [worker, queues] : own_)
    queues.affine.move_unacknowledged(some);
  size_ -= some.size();
  return some;
}

std::vector<queued_closure_ptr> closure_priority_queues::move_tagged() {
  std::vector<queued_closure_ptr> all;
  for (auto& [worker, queues] : own_)
    queues.tagged.move_all(all);
  tagged_size_ = 0;
  return all;
}

std::vector<queued_closure_ptr> closure_priority_queues::move_tagged(std::uint32_t worker) {
  std::vector<queued_closure_ptr> all;
  if (auto it = own_.find(worker); it != own_.end())
    it->second.tagged.move_all(all);
  tagged_size_ -= all.size();
  return all;
}

void closure_priority_queues::list_up_to(std::uint64_t seq_max,
                                         std::vector<std::uint64_t>& to) const {
  shared_.list_up_to(seq_max, to);
  for (const auto& [worker, queues] : own_) {
    queues.affine.list_up_to(seq_max, to);
    queues.tagged.list_up_to(seq_max, to);
  }
}

} // namespace troupe
