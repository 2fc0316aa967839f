#include <troupe/actors/coordinator/variable_catalogue.hpp>

#include <algorithm>
#include <utility>

namespace troupe {

namespace {

bool has_shard_on(const variable_spec& variable, std::uint32_t server) {
  return std::any_of(variable.shards.begin(), variable.shards.end(),
                     [&](const shard_spec& s) { return s.server == server; });
}

} // namespace

auto variable_catalogue::begin(std::vector<variable_spec> variables, bool of_step,
                               done_function done, time_point now) -> started {
  creation made{.variables = std::move(variables), .left = {}, .of_step = of_step, .waiting = {}};
  made.waiting.push_back(std::move(done));
  for (const auto& v : made.variables)
    for (const auto& shard : v.shards) {
      auto& of_server = made.left[shard.server];
      of_server.since = now;
      if (of_server.variables.empty() || of_server.variables.back().id != v.id)
        of_server.variables.push_back(v);
    }
  started out{.number = ++last_creation_, .servers = {}};
  for (const auto& [server, of_server] : made.left)
    out.servers.push_back(server);
  creations_.emplace(out.number, std::move(made));
  return out;
}

bool variable_catalogue::wait_for(variable_id id, done_function& done) {
  for (auto& [number, c] : creations_)
    if (c.variables.front().id == id) {
      c.waiting.push_back(std::move(done));
      return true;
    }
  return false;
}

auto variable_catalogue::wanted_of(std::uint64_t creation, std::uint32_t server) const
  -> const std::vector<variable_spec>* {
  auto at = creations_.find(creation);
  if (at == creations_.end())
    return nullptr;
  auto part = at->second.left.find(server);
  return part == at->second.left.end() ? nullptr : &part->second.variables;
}

duration variable_catalogue::made(std::uint64_t creation, std::uint32_t server, std::uint64_t bytes,
                                  time_point now) {
  auto& part = creations_.at(creation).left.at(server);
  if (part.made_bytes != bytes) {
    part.made_bytes = bytes;
    part.since = now;
  }
  return now - part.since;
}

auto variable_catalogue::part_made(std::uint64_t creation, std::uint32_t server)
  -> std::optional<ended> {
  auto at = creations_.find(creation);
  if (at == creations_.end())
    return {};
  at->second.left.erase(server);
  if (!at->second.left.empty())
    return {};
  for (const auto& v : at->second.variables)
    variables_[v.id] = v;
  return end(creation);
}

auto variable_catalogue::failed(std::uint64_t creation) -> std::optional<ended> {
  return end(creation);
}

auto variable_catalogue::end(std::uint64_t number) -> std::optional<ended> {
  auto at = creations_.find(number);
  if (at == creations_.end())
    return {};
  ended out{.variables = std::move(at->second.variables),
            .of_step = at->second.of_step,
            .waiting = std::move(at->second.waiting)};
  creations_.erase(at);
  return out;
}

std::vector<std::uint64_t> variable_catalogue::server_lost(std::uint32_t server) {
  auto is_there = [&](const variable_spec& v) { return has_shard_on(v, server); };
  if (std::any_of(variables_.begin(), variables_.end(),
                  [&](const auto& v) { return is_there(v.second); }))
    lost_servers_.insert(server);
  std::vector<std::uint64_t> out;
  for (const auto& [number, c] : creations_)
    if (std::any_of(c.variables.begin(), c.variables.end(), is_there))
      out.push_back(number);
  return out;
}

std::vector<variable_spec> variable_catalogue::all() const {
  std::vector<variable_spec> out;
  out.reserve(variables_.size());
  for (const auto& [id, v] : variables_)
    out.push_back(v);
  return out;
}

} // namespace troupe
