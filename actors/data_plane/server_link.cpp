#include <troupe/actors/data_plane/server_link.hpp>

namespace troupe {

namespace {

void keep_first(failure& kept, failure why) {
  if (kept.code == errc::none)
    kept = std::move(why);
}

} // namespace

result<void> local_server_link::start_reads(std::span<const read_part> parts) {
  for (const auto& part : parts)
    if (auto* at = find(part.from, read_refusal_)) {
      auto now = store_->read(*at);
      part.to->values = std::move(now.values);
      part.to->version = now.version;
    }
  return {};
}

result<void> local_server_link::start_gathers(std::span<gather_part> parts) {
  for (auto& part : parts)
    if (auto* at = find(part.from, read_refusal_))
      if (auto done = store_->gather(*at, part.rows.as<std::int64_t>(), part.to.mutable_bytes());
          !done)
        keep_first(read_refusal_, std::move(done.error()));
  return {};
}

result<void> local_server_link::start_mutations(std::span<const mutation_piece> pieces,
                                                const origin& from) {
  for (const auto& piece : pieces)
    if (auto* at = find({piece.variable, piece.shard}, push_refusal_))
      if (auto done = store_->mutate(*at, piece, from); !done)
        keep_first(push_refusal_, std::move(done.error()));
  return {};
}

shard* local_server_link::find(const shard_ref& at, failure& refusal) {
  if (auto now = store_->generation(); now != generation_) {
    found_.clear();
    generation_ = now;
  }
  if (auto known = found_.find(at); known != found_.end())
    return known->second.get();
  auto there = store_->get(at.variable, at.shard);
  if (!there) {
    keep_first(refusal, std::move(there.error()));
    return nullptr;
  }
  return found_.emplace(at, std::move(*there)).first->second.get();
}

} // namespace troupe
