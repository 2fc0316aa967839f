#pragma once

#include <cstdint>
#include <vector>

#include <troupe/core/ids.hpp>
#include <troupe/core/promise.hpp>
#include <troupe/core/specs.hpp>
#include <troupe/messages/message_header.hpp>

/// Coordinator, workers and servers: which variables there are, and who makes their shards.
namespace troupe {

struct add_variables {
  message_header header{};
  std::vector<variable_spec> variables{};
  TROUPE_FIELDS(add_variables, header, variables)
};

/// A step asks for a variable by name: the first specification wins.
struct request_variable {
  message_header header{};
  variable_spec wanted{}; ///< without id and shards: the coordinator gives them
  TROUPE_FIELDS(request_variable, header, wanted)
};

struct variable_answer {
  failure why{};
  variable_spec made{};
  TROUPE_FIELDS(variable_answer, why, made)
};

/// A compute thread to its own worker actor: ask the coordinator on my behalf.
struct variable_wanted {
  variable_spec wanted{};
  local_only<promise_slot<variable_spec>> reply{};
  TROUPE_FIELDS(variable_wanted, wanted, reply)
};

/// Make the shards of these variables that belong to the receiver. Idempotent. Asked again with the
/// same number, it waits on for what is being made already.
struct create_shards {
  message_header header{};
  std::uint64_t creation = 0;  ///< the coordinator's number for it
  std::uint64_t report_ms = 0; ///< answered after so long at the latest, with how far it is
  std::vector<variable_spec> variables{};
  TROUPE_FIELDS(create_shards, header, creation, report_ms, variables)
};

/// `why.code` none and not `working`: the shards are there. `working`: ask again.
struct creation_answer {
  failure why{};
  bool working = false;
  std::uint64_t made_bytes = 0; ///< by this server, of all shards so far: grows while it works
  TROUPE_FIELDS(creation_answer, why, working, made_bytes)
};

struct drop_shards {
  message_header header{};
  std::vector<variable_id> variables{};
  TROUPE_FIELDS(drop_shards, header, variables)
};

} // namespace troupe
