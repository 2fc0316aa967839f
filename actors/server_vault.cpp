#include <troupe/actors/server_vault.hpp>

namespace troupe {

result<cut_piece> local_server_vault::read_cut(cut_id cut, variable_id variable, shard_index shard,
                                               std::uint32_t part) {
  auto found = store_->read_cut(cut, variable, shard, part);
  if (!found)
    return found.error();
  return cut_piece{.rows = std::move(found->first), .applies = found->second};
}

} // namespace troupe
