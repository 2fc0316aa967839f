#include <troupe/transport/detail/shm_engine.hpp>

#include <algorithm>
#include <array>
#include <cstring>

#include <troupe/transport/detail/collective_plan.hpp>
#include <troupe/transport/detail/pause.hpp>

namespace troupe::detail {

namespace {

constexpr std::size_t kib = 1024;
constexpr std::size_t small_bytes = 16 * kib;
constexpr std::uint32_t small_slots = 16;
constexpr std::size_t large_bytes = 8192 * kib; // of a member, all of its large slots
// Measured: up to here waiting for the other costs more than merging twice as much.
constexpr std::size_t pair_bytes_max = 256 * kib;
constexpr std::size_t page_bytes = 4096;
constexpr std::size_t seat_bytes = page_bytes;
static_assert(sizeof(shm_seat) <= seat_bytes);

} // namespace

shm_segment::shm_segment(host_memory memory, std::uint32_t size, std::uint32_t rank,
                         std::size_t arena_bytes, const collective_table& table)
  : memory_{std::make_shared<host_memory>(std::move(memory))},
    table_{table},
    size_{size},
    tries_{tries_per_look(size)},
    arena_bytes_{arena_bytes / page_bytes * page_bytes},
    arena_{memory_, bytes_for(size, 0) + rank * arena_bytes_, arena_bytes_} {}

std::size_t shm_segment::bytes_for(std::uint32_t size, std::size_t arena_bytes) {
  return size
         * (seat_bytes + small_slots * small_bytes + large_bytes
            + arena_bytes / page_bytes * page_bytes);
}

std::byte* shm_segment::arena_of(std::uint32_t member) const {
  return memory_->data() + bytes_for(size_, 0) + member * arena_bytes_;
}

std::byte* shm_segment::region(std::uint32_t member) const {
  return memory_->data() + size_ * seat_bytes + member * (small_slots * small_bytes + large_bytes);
}

shm_seat& shm_segment::seat(std::uint32_t member) const {
  return *reinterpret_cast<shm_seat*>(memory_->data() + member * seat_bytes);
}

slot_layout shm_segment::layout_for(const collective_task& task) const {
  const std::size_t bytes = task.count * size_of(task.type);
  if (bytes <= small_bytes)
    return {small_bytes, small_slots, true};
  // All members' shares of all slots, in and out, are what there is room for.
  const slot_row row = table_.slots_for(bytes);
  const std::size_t room = large_bytes / (std::size_t{2} * size_);
  const std::size_t share =
    std::max<std::size_t>(64, std::min(row.share_bytes, room / 2) / 64 * 64);
  // No further ahead than a seat remembers what was announced.
  const std::size_t slots = std::clamp<std::size_t>(row.slots, 1, shm_seat::remembered);
  return {share, static_cast<std::uint32_t>(std::min(slots, room / share)), false};
}

std::byte* shm_segment::in(std::uint32_t member, const slot_layout& layout,
                           std::uint32_t chunk) const {
  const std::size_t slot = chunk % layout.slots;
  if (layout.is_small)
    return region(member) + slot * small_bytes;
  return region(member) + small_slots * small_bytes + slot * 2 * size_ * layout.share_bytes;
}

std::byte* shm_segment::out(std::uint32_t member, const slot_layout& layout,
                            std::uint32_t chunk) const {
  return in(member, layout, chunk) + size_ * layout.share_bytes;
}

// --- one operation

shm_engine::shm_engine(shm_segment& area, group_links& channels, const collective_task& task,
                       std::uint64_t description, std::uint32_t rank, std::uint32_t operation)
  : area_{area},
    channels_{channels},
    task_{task},
    description_{description},
    rank_{rank},
    operation_{operation},
    layout_{area.layout_for(task)},
    element_{size_of(task.type)},
    share_len_{layout_.share_bytes / element_},
    first_{area.chunks} {
  using k = collective_kind;
  merges_ = task.kind == k::all_reduce || task.kind == k::reduce || task.kind == k::reduce_scatter;
  // A vector that fits into a slot is merged by everybody, or by the root, at once.
  is_pair_ = !layout_.is_small && task.kind == k::all_reduce && area.size() == 2
             && task.count * element_ <= pair_bytes_max;
  gathers_ =
    !layout_.is_small && !is_pair_ && (task.kind == k::all_reduce || task.kind == k::reduce);
  new_layout_ = !layout_.is_small && !(layout_ == area.last);
  settling_ = area.has_arena() && !layout_.is_small && task.kind == k::all_reduce ? 1 : 0;
  chunks_ = settling_ + count_chunks();
  if (!layout_.is_small)
    area.last = layout_;
  const std::uint64_t what = std::uint64_t{operation_} << 32 | (description_ & 0xffffffff);
  const auto vector = area_.arena().offset_of(task.output);
  area_.seat(rank_).vectors[operation_ % shm_seat::remembered].store(
    vector ? *vector : shm_seat::elsewhere, std::memory_order_relaxed);
  area_.seat(rank_).operations[operation_ % shm_seat::remembered].store(what,
                                                                        std::memory_order_release);
}

shm_engine::~shm_engine() { area_.chunks = first_ + chunks_; }

std::uint32_t shm_engine::count_chunks() const {
  std::size_t longest = 0;
  std::size_t step = share_len_;
  if (layout_.is_small)
    return 1;
  if (is_pair_) {
    step *= area_.size();
    longest = task_.count;
  } else if (merges_) {
    for (std::uint32_t i = 0; i < area_.size(); ++i)
      longest = std::max(longest, segment_begin(task_.count, area_.size(), i + 1)
                                    - segment_begin(task_.count, area_.size(), i));
  } else {
    step *= area_.size(); // a slot holds one member's elements
    longest = task_.count;
    if (!task_.parts.empty()) {
      longest = 0;
      for (std::uint32_t i = 0; i < area_.size(); ++i)
        longest = std::max(longest, task_.parts[i + 1] - task_.parts[i]);
    }
  }
  return static_cast<std::uint32_t>(std::max<std::size_t>(1, (longest + step - 1) / step));
}

// --- what the others have done

bool shm_engine::has_come(std::uint32_t member, counter what, std::uint32_t chunks) const {
  // Numbers go round.
  return static_cast<std::int32_t>((area_.seat(member).*what).load() - (first_ + chunks)) >= 0;
}

bool shm_engine::have_come(counter what, std::uint32_t chunks) const {
  for (std::uint32_t member = 0; member < area_.size(); ++member)
    if (member != rank_ && !has_come(member, what, chunks))
      return false;
  return true;
}

bool shm_engine::can_give() const {
  if (new_layout_ && given_ == settling_)
    return have_come(&shm_seat::read, 0);
  return have_come(&shm_seat::read, given_ + 1 - layout_.slots);
}

bool shm_engine::needs(std::uint32_t peer) const {
  const bool wants_slot =
    given_ < chunks_
    && !has_come(peer, &shm_seat::read,
                 new_layout_ && given_ == settling_ ? 0 : given_ + 1 - layout_.slots);
  return wants_slot || !has_come(peer, &shm_seat::given, chunks_)
         || (gathers_ && !has_come(peer, &shm_seat::merged, chunks_))
         || (in_place_ && !has_come(peer, &shm_seat::merged, 1));
}

void shm_engine::publish(counter what, std::uint32_t chunks) {
  (area_.seat(rank_).*what).store(first_ + chunks); // sequentially: a sleeper sees it, or is seen
  for (std::uint32_t peer = 0; peer < area_.size(); ++peer)
    if (peer != rank_ && area_.seat(peer).sleeping.load() != 0)
      channels_.wake(peer);
}

result<void> shm_engine::check_operations() {
  const std::uint64_t own = area_.seat(rank_).operations[operation_ % shm_seat::remembered];
  for (std::uint32_t peer = 0; peer < area_.size(); ++peer)
    if (area_.seat(peer).operations[operation_ % shm_seat::remembered] != own) {
      blamed_ = peer;
      return make_failure(errc::mismatch,
                          "member " + std::to_string(peer) + " calls a different operation");
    }
  checked_ = true;
  return {};
}

result<bool> shm_engine::advance() {
  for (int i = 0; i < area_.tries(); ++i) {
    auto moved = read_ < settling_ ? settle() : move_chunks();
    if (!moved || *moved || done())
      return moved;
    pause_briefly();
  }
  return false;
}

// The chunk without data.
result<bool> shm_engine::settle() {
  if (given_ == 0) {
    publish(&shm_seat::given, ++given_);
    return true;
  }
  if (merged_ == 0) {
    if (!have_come(&shm_seat::given, 1))
      return false;
    if (auto ok = check_operations(); !ok)
      return ok.error();
    // Read once: a member that changes its word later must not lead anybody elsewhere.
    in_place_ = true;
    vectors_.clear();
    for (std::uint32_t member = 0; member < area_.size(); ++member) {
      const std::uint64_t vector = vector_of(member);
      in_place_ =
        in_place_ && vector % element_ == 0 && area_.holds(vector, task_.count * element_);
      vectors_.push_back(vector);
    }
    if (in_place_) {
      chunks_ = 1;
      merge_in_place();
    }
    publish(&shm_seat::merged, ++merged_);
    return true;
  }
  if (in_place_ && !have_come(&shm_seat::merged, 1))
    return false;
  publish(&shm_seat::read, ++read_);
  return true;
}

result<bool> shm_engine::move_chunks() {
  bool moved = false;
  if (given_ < chunks_ && given_ - read_ < layout_.slots && can_give()) {
    give(given_++);
    publish(&shm_seat::given, given_);
    moved = true;
  }
  const bool all_given = merged_ < chunks_ && have_come(&shm_seat::given, merged_ + 1);
  if (all_given && given_ > merged_) {
    if (!checked_)
      if (auto ok = check_operations(); !ok)
        return ok.error();
    if (merges_)
      merge(merged_);
    ++merged_;
    if (gathers_)
      publish(&shm_seat::merged, merged_);
    moved = true;
  }
  if (read_ < merged_ && (!gathers_ || have_come(&shm_seat::merged, read_ + 1))) {
    read(read_++);
    publish(&shm_seat::read, read_);
    moved = true;
  }
  return moved;
}

bool shm_engine::before_sleep(channel_poller&) {
  area_.seat(rank_).sleeping.store(1);
  auto moved = advance();
  return moved && !*moved;
}

void shm_engine::after_sleep(channel_poller&) { area_.seat(rank_).sleeping.store(0); }

// --- places

std::byte* shm_engine::output(std::size_t element) const {
  return task_.output + element * element_;
}
const std::byte* shm_engine::input(std::size_t element) const {
  return task_.input + element * element_;
}

void shm_engine::copy(std::byte* to, const std::byte* from, std::size_t count) const {
  if (count > 0 && to != from)
    std::memcpy(to, from, count * element_);
}

// Elements of the whole vector that `member` merges of a chunk.
shm_engine::range shm_engine::share(std::uint32_t member, std::uint32_t chunk) const {
  const std::size_t begin = segment_begin(task_.count, area_.size(), member);
  const std::size_t count = segment_begin(task_.count, area_.size(), member + 1) - begin;
  const std::size_t at = std::min(count, (chunk - settling_) * share_len_);
  return {begin + at, std::min(share_len_, count - at)};
}

// Elements of the whole vector that `member` gives in a chunk, of kinds that don't merge.
shm_engine::range shm_engine::part(std::uint32_t member, std::uint32_t chunk) const {
  std::size_t begin = 0;
  std::size_t count =
    task_.kind == collective_kind::broadcast && member == task_.root ? task_.count : 0;
  if (!task_.parts.empty()) {
    begin = task_.parts[member];
    count = task_.parts[member + 1] - begin;
  }
  const std::size_t step = layout_.is_small ? task_.count : share_len_ * area_.size();
  const std::size_t at = std::min(count, chunk * step);
  return {begin + at, std::min(step, count - at)};
}

// Elements of a chunk that no member has for itself.
shm_engine::range shm_engine::whole(std::uint32_t chunk) const {
  const std::size_t step = share_len_ * area_.size();
  const std::size_t at = std::min(task_.count, (chunk - settling_) * step);
  return {at, std::min(step, task_.count - at)};
}

// --- the work

void shm_engine::give(std::uint32_t chunk) {
  std::byte* const to = area_.in(rank_, layout_, first_ + chunk);
  if (is_pair_) {
    copy(to, input(whole(chunk).begin), whole(chunk).count);
    return;
  }
  if (!merges_) {
    const range own = part(rank_, chunk);
    // The input is this member's part alone.
    const std::size_t before = task_.parts.empty() ? 0 : task_.parts[rank_];
    if (own.count > 0)
      copy(to, input(own.begin - before), own.count);
    return;
  }
  if (layout_.is_small) {
    copy(to, input(0), task_.count);
    return;
  }
  for (std::uint32_t d = 1; d < area_.size(); ++d) {
    const std::uint32_t member = (rank_ + d) % area_.size();
    const range what = share(member, chunk);
    copy(to + member * layout_.share_bytes, input(what.begin), what.count);
  }
}

void shm_engine::merge(std::uint32_t chunk) {
  range what = is_pair_ ? whole(chunk) : share(rank_, chunk);
  std::size_t place = is_pair_ ? 0 : rank_ * layout_.share_bytes;
  if (layout_.is_small) {
    if (task_.kind == collective_kind::reduce && rank_ != task_.root)
      return;
    if (task_.kind != collective_kind::reduce_scatter)
      what = {0, task_.count};
    place = what.begin * element_;
  }
  sources_.clear();
  for (std::uint32_t member = 0; member < area_.size(); ++member)
    sources_.push_back(
      {member == rank_ ? input(what.begin) : area_.in(member, layout_, first_ + chunk) + place});
  std::byte* out = output(what.begin);
  if (task_.kind == collective_kind::reduce_scatter)
    out = output(what.begin - segment_begin(task_.count, area_.size(), rank_));
  if (gathers_ && task_.kind == collective_kind::reduce && rank_ != task_.root)
    out = area_.out(rank_, layout_, first_ + chunk);
  merge_task(merge_spec_of(task_, area_.size()), user_of(task_), sources_, {&out, 1}, what.count);
  // A plain copy fills lines of the slot without fetching what the reader still holds of them.
  if (gathers_ && task_.kind == collective_kind::all_reduce)
    copy(area_.out(rank_, layout_, first_ + chunk), out, what.count);
}

std::uint64_t shm_engine::vector_of(std::uint32_t member) const {
  return area_.seat(member).vectors[operation_ % shm_seat::remembered];
}

// Each member's share of the vectors where they stand, in whole cache lines.
void shm_engine::merge_in_place() {
  const std::size_t per_line = 64 / element_;
  const auto begin_of = [&](std::uint32_t share) {
    return share == area_.size()
             ? task_.count
             : segment_begin(task_.count, area_.size(), share) / per_line * per_line;
  };
  const std::size_t begin = begin_of(rank_);
  sources_.clear();
  std::vector<std::byte*> outs;
  for (std::uint32_t member = 0; member < area_.size(); ++member) {
    std::byte* const at = area_.arena_of(member) + vectors_[member] + begin * element_;
    sources_.push_back({at});
    outs.push_back(at);
  }
  merge_task(merge_spec_of(task_, area_.size()), user_of(task_), sources_, outs,
             begin_of(rank_ + 1) - begin);
}

void shm_engine::read(std::uint32_t chunk) {
  const bool takes = task_.kind != collective_kind::reduce && task_.kind != collective_kind::gather;
  if ((merges_ && !gathers_) || (!takes && rank_ != task_.root))
    return;
  for (std::uint32_t d = 1; d < area_.size(); ++d) {
    const std::uint32_t member = (rank_ + d) % area_.size();
    const range what = gathers_ ? share(member, chunk) : part(member, chunk);
    if (what.count == 0)
      continue;
    copy(output(what.begin),
         gathers_ ? area_.out(member, layout_, first_ + chunk)
                  : area_.in(member, layout_, first_ + chunk),
         what.count);
  }
}

} // namespace troupe::detail
