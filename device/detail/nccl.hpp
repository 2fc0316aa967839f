#pragma once

#include <memory>

#include <troupe/core/device_port.hpp>

namespace troupe::detail {

/// NCCL behind the port, with communicators that do not block. Loads the library;
/// `device_unavailable` says what is missing.
result<std::unique_ptr<collective_backend>> make_nccl_backend();

} // namespace troupe::detail
