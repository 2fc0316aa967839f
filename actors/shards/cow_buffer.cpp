#include <troupe/actors/shards/cow_buffer.hpp>

#include <cstring>
#include <utility>

namespace troupe {

cow_buffer::cow_buffer(troupe::dtype type, shape_t shape)
  : type_{type}, shape_{std::move(shape)}, current_{std::make_shared<block>()} {
  current_->memory = tensor{type_, shape_};
}

tensor cow_buffer::snapshot() {
  if (!handout_) {
    current_->held.store(true, std::memory_order_relaxed);
    auto release = [kept = current_](void*) { kept->held.store(false, std::memory_order_release); };
    handout_ = std::shared_ptr<void>{current_->memory.mutable_bytes().data(), std::move(release)};
  }
  return {type_, shape_, handout_, current_->memory.mutable_bytes().data()};
}

cow_buffer::span_pair cow_buffer::begin_write() {
  handout_.reset(); // clears `held` when no snapshot is left
  next_ = current_->held.load(std::memory_order_acquire) ? take_spare() : current_;
  return {current_->memory.bytes(), next_->memory.mutable_bytes()};
}

std::span<std::byte> cow_buffer::begin_partial_write() {
  auto [in, out] = begin_write();
  if (next_ != current_ && !in.empty())
    std::memcpy(out.data(), in.data(), in.size());
  return out;
}

void cow_buffer::commit() {
  if (next_ == current_) {
    next_.reset();
    return;
  }
  if (spares_.size() == spares_max)
    spares_.erase(spares_.begin()); // its snapshots keep it
  spares_.push_back(std::exchange(current_, std::move(next_)));
}

std::shared_ptr<cow_buffer::block> cow_buffer::take_spare() {
  for (auto at = spares_.begin(); at != spares_.end(); ++at)
    if (!(*at)->held.load(std::memory_order_acquire)) {
      auto out = std::move(*at);
      spares_.erase(at);
      return out;
    }
  auto out = std::make_shared<block>();
  out->memory = tensor{type_, shape_};
  return out;
}

} // namespace troupe
