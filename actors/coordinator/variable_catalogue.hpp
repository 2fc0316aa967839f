#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/core/specs.hpp>
#include <troupe/core/time.hpp>

namespace troupe {

/// The variables of a cluster: those that are there, and those whose shards servers are making. A
/// variable is there once every server of its shards has said so, for all variables of the same
/// creation at once; where one can't, none of them is anywhere. No CAF, clocks or locks; one
/// thread.
///
/// Invariants: whoever waits for a creation is told once; a variable that is there is in no
/// creation; a creation in flight has servers that have not answered.
class variable_catalogue {
public:
  /// Told when a creation has ended. A code: it failed.
  using done_function = std::function<void(const failure& why)>;

  struct started {
    std::uint64_t number = 0;             ///< the creation's, never used before
    std::vector<std::uint32_t> servers{}; ///< that are to make shards, in order
  };
  /// A creation that is over.
  struct ended {
    std::vector<variable_spec> variables{};
    bool of_step = false;
    std::vector<done_function> waiting{}; ///< to be told, in the order in which they came
  };

  /// Begins to create `variables`, at time `now`.
  /// @param of_step  a step asked for them, and not the program
  started begin(std::vector<variable_spec> variables, bool of_step, done_function done,
                time_point now);
  /// Has `done` wait for the creation in flight that begins with this variable. False when there is
  /// none; `done` is left as it was.
  bool wait_for(variable_id id, done_function& done);
  /// The variables with a shard on a server; null once it has answered or the creation is over.
  const std::vector<variable_spec>* wanted_of(std::uint64_t creation, std::uint32_t server) const;
  /// Notes how much a server that is still at work has made in all. Returns for how long it has
  /// made no more. @pre it has not answered
  duration made(std::uint64_t creation, std::uint32_t server, std::uint64_t bytes, time_point now);
  /// A server has made its part. Returns the creation once all have: its variables are there from
  /// now on. Does nothing when the creation is over.
  std::optional<ended> part_made(std::uint64_t creation, std::uint32_t server);
  /// A server can't make its part: the creation is over, and its variables are nowhere. None when
  /// it was over before.
  std::optional<ended> failed(std::uint64_t creation);

  /// A server is lost with what it held. Returns the creations in flight with a shard on it, also
  /// where it had answered.
  std::vector<std::uint64_t> server_lost(std::uint32_t server);
  /// Servers that were lost while a variable had a shard there: its values went with them.
  const std::set<std::uint32_t>& lost_servers() const { return lost_servers_; }

  bool contains(variable_id id) const { return variables_.contains(id); }
  void drop(variable_id id) { variables_.erase(id); }
  /// The variables that are there, by id.
  std::vector<variable_spec> all() const;

private:
  struct server_part {
    std::vector<variable_spec> variables{};
    std::uint64_t made_bytes = 0;
    time_point since{}; ///< when it had made that much
  };
  struct creation {
    std::vector<variable_spec> variables{};
    std::map<std::uint32_t, server_part> left{}; ///< servers that have not answered
    bool of_step = false;
    std::vector<done_function> waiting{};
  };
  std::optional<ended> end(std::uint64_t number);

  std::map<variable_id, variable_spec> variables_{};
  std::map<std::uint64_t, creation> creations_{};
  std::uint64_t last_creation_ = 0;
  std::set<std::uint32_t> lost_servers_{};
};

} // namespace troupe
