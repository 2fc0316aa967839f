#include <troupe/actors/server_vault.hpp>

#include <algorithm>

namespace troupe {

result<cut_piece> local_server_vault::read_cut(cut_id cut, variable_id variable, shard_index shard,
                                               std::uint32_t part) {
  auto rows = store_->cut_part(cut, variable, shard, part);
  if (!rows)
    return rows.error();
  auto entries = store_->take_cut(cut); // taken already: only lists it
  if (!entries)
    return entries.error();
  auto at = std::find_if(entries->begin(), entries->end(),
                         [&](const cut_entry& e) { return e.variable == variable && e.shard == shard; });
  if (at == entries->end())
    return make_failure(errc::not_found, "cut " + std::to_string(value_of(cut)) + " has no shard "
                                           + std::to_string(value_of(shard)) + " of variable "
                                           + std::to_string(value_of(variable)));
  return cut_piece{.rows = std::move(*rows), .applies = at->applies};
}

} // namespace troupe
