#pragma once

#include <memory>

#include <troupe/core/environment.hpp>

namespace troupe::detail {

/// The file system of the operating system. Any thread. Errors name the path and say what the
/// system said: `no_space` (full, over quota), `not_found` (no such path), `io_failed` (all else).
/// A file whose write or sync failed once refuses all that follows: the kernel may have dropped the
/// pages, so a later sync that "succeeds" would lie.
std::unique_ptr<storage_port> make_posix_storage();

} // namespace troupe::detail
