#pragma once

#include <string>

#include <caf/actor_control_block.hpp>

#include <troupe/core/ids.hpp>
#include <troupe/messages/message_header.hpp>

/// A process's own links to its coordinator or worker.
namespace troupe {

/// A process's own links to its coordinator: the worker can be spoken to through `handle`.
struct worker_linked {
  task_id task{};
  incarnation inc{};
  caf::strong_actor_ptr handle{};
  local_only<bool> here = made_here(); ///< as in end_cluster
  TROUPE_FIELDS(worker_linked, task, inc, handle, here)
};

/// A process's own links to its coordinator or worker: that incarnation's link is gone, or did not
/// come about. `clean`: one of its ends has said goodbye.
struct link_ended {
  task_id task{};
  incarnation inc{};
  bool clean = false;
  std::string reason{};
  local_only<bool> here = made_here(); ///< as in end_cluster
  TROUPE_FIELDS(link_ended, task, inc, clean, reason, here)
};

} // namespace troupe
