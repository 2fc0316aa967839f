#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <troupe/core/environment.hpp>
#include <troupe/sim/disk_tree.hpp>
#include <troupe/sim/draws.hpp>

namespace troupe::sim {

/// A machine's disk, in memory, over the instances of its processes.
///
/// What survives a loss of power is what POSIX promises (`disk_tree`). Locks end with the process
/// and stand for no file.
class sim_disk {
public:
  enum class fault : std::uint8_t { torn_write, io_error, no_space, bit_flip, slow };

  sim_disk(std::uint64_t seed, std::string_view machine);

  // -- faults --

  /// Hits the next `count` operations that the fault can hit: writes (torn_write, no_space), reads
  /// (bit_flip), any (io_error, slow). `each`: how long a slow one takes.
  void inject(fault what, std::uint64_t count, duration each = {});
  void clear_faults();
  /// Cuts the power: unsynced bytes and names go or stay, by draws; open files are dead.
  void power_fail();
  /// Ends a process's use of the disk: open files are dead, locks are free; everything written
  /// stays.
  void process_gone() {
    ++generation_;
    tree_.unlock_all();
  }
  /// Number of faults of a kind that hit, so far.
  std::uint64_t hits(fault which) const {
    auto at = hits_.find(which);
    return at == hits_.end() ? 0 : at->second;
  }

  // -- looking in from outside --

  /// Content as a process sees it now; nothing when the file is not there.
  std::optional<std::string> content(const std::string& path) const { return tree_.content(path); }
  /// Content that would be left if the power failed and nothing unsynced survived.
  std::optional<std::string> durable_content(const std::string& path) const {
    return tree_.durable_content(path);
  }
  /// Puts a link there, durably: `path` stands for `target`, which may be absent. False when the
  /// parent is not there or the name is taken.
  bool make_link(const std::string& target, const std::string& path) {
    return tree_.make_link(target, path);
  }
  /// Replaces the content, durably. False when the file is not there.
  bool set_content(const std::string& path, std::string bytes) {
    return tree_.set_content(path, std::move(bytes));
  }
  /// Paths of all files, sorted.
  std::vector<std::string> files() const { return tree_.files(); }

  // -- for the port --

  /// A view of the disk for one process. `alive`: whether it still may use it; `spend`: lets time
  /// pass there.
  std::unique_ptr<storage_port> open_port(std::function<bool()> alive,
                                          std::function<void(duration)> spend);

private:
  class port;
  class writer;
  class reader;
  class held_lock;
  struct pending_fault {
    std::uint64_t count = 0;
    duration each{};
  };
  enum class operation : std::uint8_t { read, write, other };

  std::optional<fault> hit(operation what);
  bool take(fault which);

  draw_stream draws_;
  disk_tree tree_{};
  std::map<fault, pending_fault> faults_{};
  std::uint64_t generation_ = 0;
  std::map<fault, std::uint64_t> hits_{};
};

} // namespace troupe::sim
