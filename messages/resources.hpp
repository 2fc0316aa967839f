#pragma once

#include <string>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/core/ids.hpp>
#include <troupe/messages/message_header.hpp>

/// Coordinator and workers: objects that steps find on every worker.
namespace troupe {

struct resource_order {
  resource_id id{};
  function_index function{};
  std::string arguments{};
  TROUPE_FIELDS(resource_order, id, function, arguments)
};

struct make_resources {
  message_header header{};
  std::vector<resource_order> orders{};
  TROUPE_FIELDS(make_resources, header, orders)
};

struct drop_resources {
  message_header header{};
  std::vector<resource_id> ids{};
  TROUPE_FIELDS(drop_resources, header, ids)
};

struct resource_made {
  resource_id id{};
  failure why{}; ///< code none: ready
  TROUPE_FIELDS(resource_made, id, why)
};

} // namespace troupe
