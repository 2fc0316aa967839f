#pragma once

#include <memory>

#include <troupe/core/device_port.hpp>

namespace troupe::detail {

/// NCCL behind the port, with communicators that do not block. Loads the library;
/// `device_unavailable` says what is missing.
result<std::unique_ptr<collective_device_table>> make_nccl_table();

} // namespace troupe::detail
