#pragma once

#include <memory>

#include <troupe/messages/closures.hpp>
#include <troupe/messages/resources.hpp>

namespace troupe {

struct worker_session;

/// What waits for a compute thread of a worker: a closure, or a resource to build.
struct worker_job {
  std::shared_ptr<worker_session> of{};
  closure_order order{};
  resource_order make{};
  bool is_resource = false;
};

} // namespace troupe
