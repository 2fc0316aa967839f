#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <troupe/troupe.hpp>

#include "../../../support/failures.hpp"
#include "../../../support/scratch_folder.hpp"
#include "../../../support/tensors.hpp"
#include "../../../support/waiting.hpp"

/// A whole cluster in this process, and steps that stand where a test wants them.
namespace troupe::test {

using namespace troupe::testing;

/// Steps stand in it until the test opens it. Steps have no captures, so gates are globals of their
/// test file; a test closes them first.
class gate {
public:
  void close() {
    std::lock_guard lock{mutex_};
    open_ = false;
    arrived_ = 0;
  }
  void open() {
    std::lock_guard lock{mutex_};
    open_ = true;
    changed_.notify_all();
  }
  /// In a step: counts it, then waits. False when nobody opened in time.
  bool pass() {
    std::unique_lock lock{mutex_};
    ++arrived_;
    changed_.notify_all();
    return changed_.wait_for(lock, patience, [this] { return open_; });
  }
  /// In the test: true once `n` have arrived since `close`.
  bool seen(int n) {
    std::unique_lock lock{mutex_};
    return changed_.wait_for(lock, patience, [&] { return arrived_ >= n; });
  }
  int arrived() {
    std::lock_guard lock{mutex_};
    return arrived_;
  }

private:
  std::mutex mutex_{};
  std::condition_variable changed_{};
  bool open_ = false;
  int arrived_ = 0;
};

/// Opens at the end of a test, whatever ends it, so that shutdown finds no step inside.
struct opened_at_end {
  gate& which;
  explicit opened_at_end(gate& g) : which{g} { g.close(); }
  ~opened_at_end() { which.open(); }
};

/// Runtime, strategy and coordinator together.
struct small_cluster {
  explicit small_cluster(runtime_options options = {}, parameter_server_options variables = {})
    : rt{std::move(options)}, strategy{rt, std::move(variables)}, coordinator{strategy} {}

  runtime rt;
  parameter_server_strategy strategy;
  cluster_coordinator coordinator;

  std::uint64_t pushes() const {
    std::uint64_t out = 0;
    for (const auto& s : coordinator.statistics().servers)
      out += s.pushes_applied;
    return out;
  }
};

/// A cluster whose variables are cut into `shards`.
inline small_cluster cut(std::int64_t shards, std::uint32_t servers = 2) {
  return small_cluster{{.servers = servers}, {.partitioner = fixed_shards_partitioner{shards}}};
}

/// Where the shards of a variable are, in their order.
inline std::vector<std::uint32_t> servers_of(const variable& v) {
  std::vector<std::uint32_t> out;
  for (const auto& s : v.spec().shards)
    out.push_back(s.server);
  return out;
}

/// `rows` x `columns` of 0, 1, 2, ... from `first`.
inline tensor counted(std::int64_t rows, std::int64_t columns, float first = 0) {
  return counting<float>({rows, columns}, first);
}

} // namespace troupe::test
