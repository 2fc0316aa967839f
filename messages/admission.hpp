#pragma once

#include <string>
#include <vector>

#include <troupe/core/ids.hpp>
#include <troupe/core/specs.hpp>
#include <troupe/messages/message_header.hpp>
#include <troupe/messages/resources.hpp>

/// Coordinator and workers: how a worker that joined begins.
namespace troupe {

/// First message of a coordinator to a worker that joined.
struct admit_worker {
  message_header header{};
  std::string data_address{}; ///< of the coordinator's blobs; empty within one process
  std::vector<variable_spec> variables{};
  std::vector<resource_order> resources{};
  TROUPE_FIELDS(admit_worker, header, data_address, variables, resources)
};

} // namespace troupe
