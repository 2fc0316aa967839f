#pragma once

#include <memory>

#include <troupe/core/environment.hpp>

namespace troupe::detail {

/// The file system of the operating system. Any thread. Errors name the path and say what the
/// system said: `no_space` (full, over quota), `not_found` (no such path), `io_failed` (all else).
/// A file whose write or sync failed once refuses all that follows: the kernel may have dropped the
/// pages, so a later sync that "succeeds" would lie.
///
/// A folder (`storage_port::folder`) holds the directory open: its paths go on from there even when
/// the directory is moved, and every part is opened without following links. A lock is flock(2) on
/// a file that goes with the lock; what a killed process leaves of it is an empty file, unlocked.
std::unique_ptr<storage_port> make_posix_storage();

} // namespace troupe::detail
