#include <troupe/transport/detail/inproc_engine.hpp>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include <troupe/transport/detail/collective_plan.hpp>
#include <troupe/transport/detail/pause.hpp>

namespace troupe::detail {

namespace {

// Measured: below, waking the others' cores costs more than they would save.
constexpr std::size_t single_bytes_max = std::size_t{32} << 10;
// Shares begin at whole cache lines.
constexpr std::size_t line_bytes = 64;

} // namespace

std::shared_ptr<inproc_area> find_inproc_area(std::uint64_t key, std::uint32_t size) {
  static std::mutex mutex;
  static std::map<std::uint64_t, std::weak_ptr<inproc_area>> areas;
  const std::lock_guard lock{mutex};
  std::erase_if(areas, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<inproc_area>& at = areas[key];
  auto out = at.lock();
  if (!out) {
    out = std::make_shared<inproc_area>(size);
    at = out;
  }
  return out;
}

inproc_area::inproc_area(std::uint32_t size) : seats_(size), tries_{tries_per_look(size)} {}

std::uint32_t inproc_area::take_share(std::uint32_t rank, std::uint32_t operation) {
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    const std::size_t share = (rank + i) % seats_.size();
    std::uint32_t before = seats_[share].taken.load();
    if (before != operation && seats_[share].taken.compare_exchange_strong(before, operation))
      return static_cast<std::uint32_t>(share);
  }
  return collective_engine::no_member;
}

bool inproc_area::finish_shares(std::uint32_t count, std::uint32_t operation) {
  return finished_.fetch_add(count) + count == std::uint64_t{operation} * seats_.size();
}

inproc_engine::inproc_engine(inproc_area& area, group_links& channels, const collective_task& task,
                             std::uint64_t description, std::uint32_t rank, std::uint32_t operation)
  : area_{area},
    channels_{channels},
    task_{task},
    description_{description},
    rank_{rank},
    operation_{operation},
    size_{channels.size()} {
  inproc_area::seat& own = area_.seats()[rank_];
  own.description.store(description_, std::memory_order_relaxed);
  own.input = task_.input;
  own.output = task_.output;
  own.arrived.store(operation_); // sequentially: a sleeper either sees it, or is seen
  wake_sleepers();
}

result<bool> inproc_engine::advance() {
  for (int i = 0; i < area_.tries(); ++i) {
    auto moved = step();
    if (!moved || *moved || done())
      return moved;
    pause_briefly();
  }
  return false;
}

result<bool> inproc_engine::step() {
  if (phase_ == phase::gather) {
    std::uint64_t state = area_.state().load(std::memory_order_acquire);
    if (state >> 8 != operation_ && !decide(state))
      return false;
    switch (static_cast<inproc_area::stage>(state & 0xff)) {
      case inproc_area::stage::mismatch:
        phase_ = phase::left;
        return make_failure(errc::mismatch, "another member calls a different operation");
      case inproc_area::stage::revoked: return false; // the group hears why
      case inproc_area::stage::single: phase_ = phase::work; break;
      case inproc_area::stage::shared:
        is_shared_ = true;
        phase_ = phase::work;
        break;
    }
  }
  return phase_ == phase::work && work_on();
}

// Does a share if there is one; whether something has changed.
bool inproc_engine::work_on() {
  const std::uint32_t share =
    is_shared_ ? area_.take_share(rank_, operation_) : collective_engine::no_member;
  if (share != no_member) {
    work(share);
    if (area_.finish_shares(1, operation_))
      wake_sleepers();
  }
  // Until then others may read what this member published.
  if (area_.all_finished(operation_))
    phase_ = phase::done;
  return share != no_member || phase_ == phase::done;
}

// Whether the operation has begun, or never will; sets its state.
bool inproc_engine::decide(std::uint64_t& state) {
  if (!have_arrived())
    return false;
  auto next = inproc_area::stage::shared;
  if (task_.count * size_of(task_.type) <= single_bytes_max)
    next = inproc_area::stage::single;
  for (const inproc_area::seat& seat : area_.seats())
    if (seat.description.load(std::memory_order_relaxed) != description_)
      next = inproc_area::stage::mismatch;
  const std::uint64_t decided = inproc_area::state_of(operation_, next);
  if (!area_.state().compare_exchange_strong(state, decided))
    return true;
  state = decided;
  if (next != inproc_area::stage::single)
    return true;
  for (std::uint32_t share = 0; share < size_; ++share)
    work(share);
  area_.finish_shares(size_, operation_);
  wake_sleepers();
  return true;
}

bool inproc_engine::give_up() {
  if (phase_ != phase::gather)
    return phase_ != phase::work;
  std::uint64_t state = area_.state().load();
  while (state >> 8 != operation_)
    if (area_.state().compare_exchange_weak(
          state, inproc_area::state_of(operation_, inproc_area::stage::revoked)))
      return true;
  return (state & 0xff) >= static_cast<std::uint8_t>(inproc_area::stage::mismatch);
}

bool inproc_engine::have_arrived() const {
  const auto& seats = area_.seats();
  return std::all_of(seats.begin(), seats.end(),
                     [this](const inproc_area::seat& s) { return s.arrived.load() >= operation_; });
}

bool inproc_engine::needs(std::uint32_t peer) const {
  return phase_ == phase::gather && area_.seats()[peer].arrived < operation_;
}

// --- waking each other

void inproc_engine::wake_sleepers() {
  for (std::uint32_t peer = 0; peer < size_; ++peer)
    if (peer != rank_ && area_.seats()[peer].sleeping.load())
      channels_.wake(peer);
}

bool inproc_engine::before_sleep(channel_poller&) {
  area_.seats()[rank_].sleeping.store(true);
  auto moved = advance();
  return moved && !*moved && phase_ != phase::done;
}

void inproc_engine::after_sleep(channel_poller&) { area_.seats()[rank_].sleeping.store(false); }

// --- the work

std::size_t inproc_engine::share_begin(std::uint32_t share) const {
  if (share == size_)
    return task_.count;
  const std::size_t per_line = line_bytes / size_of(task_.type);
  return segment_begin(task_.count, size_, share) / per_line * per_line;
}

void inproc_engine::copy(std::uint32_t to, std::size_t to_begin, std::uint32_t from,
                         std::size_t count) const {
  const std::size_t element = size_of(task_.type);
  std::byte* const target = area_.seats()[to].output + to_begin * element;
  const std::byte* const source = area_.seats()[from].input;
  if (target != source && count > 0)
    std::memcpy(target, source, count * element);
}

void inproc_engine::work(std::uint32_t share) {
  switch (task_.kind) {
    case collective_kind::all_reduce:
    case collective_kind::reduce: reduce(share); break;
    case collective_kind::reduce_scatter: reduce_scatter(share); break;
    case collective_kind::all_gather:
      for (std::uint32_t d = 0; d < size_; ++d) {
        const std::uint32_t from = (share + d) % size_;
        copy(share, task_.parts[from], from, task_.parts[from + 1] - task_.parts[from]);
      }
      break;
    case collective_kind::gather:
      copy(task_.root, task_.parts[share], share, task_.parts[share + 1] - task_.parts[share]);
      break;
    case collective_kind::broadcast:
      if (share != task_.root)
        copy(share, 0, task_.root, task_.count);
      break;
    case collective_kind::barrier: break;
  }
}

void inproc_engine::reduce(std::uint32_t share) {
  const std::size_t begin = share_begin(share) * size_of(task_.type);
  sources_.clear();
  outs_.clear();
  for (const inproc_area::seat& seat : area_.seats()) {
    sources_.push_back({seat.input + begin});
    if (task_.kind == collective_kind::all_reduce)
      outs_.push_back(seat.output + begin);
  }
  if (task_.kind == collective_kind::reduce)
    outs_.push_back(area_.seats()[task_.root].output + begin);
  merge_task(merge_spec_of(task_, size_), user_of(task_), sources_, outs_,
             share_begin(share + 1) - share_begin(share));
}

void inproc_engine::reduce_scatter(std::uint32_t share) {
  const std::size_t first = segment_begin(task_.count, size_, share);
  sources_.clear();
  for (const inproc_area::seat& seat : area_.seats())
    sources_.push_back({seat.input + first * size_of(task_.type)});
  outs_.assign(1, area_.seats()[share].output);
  merge_task(merge_spec_of(task_, size_), user_of(task_), sources_, outs_,
             segment_begin(task_.count, size_, share + 1) - first);
}

} // namespace troupe::detail
