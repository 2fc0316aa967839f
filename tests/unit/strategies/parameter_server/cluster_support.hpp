#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <troupe/troupe.hpp>

/// A whole cluster in this process, and steps that stand where a test wants them.
namespace troupe::test {

/// More than any wait of a green test takes; a red one ends by it.
inline constexpr std::chrono::seconds patience{20};

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

/// Looks at `condition` until it holds; false after `patience`.
template <class F>
bool comes_true(F condition) {
  const auto until = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until)
      return false;
    std::this_thread::yield();
  }
  return true;
}

/// What `f` throws; the code `none` when nothing.
template <class F>
failure failure_of(F f) {
  try {
    f();
  } catch (const error& e) {
    return e.details();
  }
  return {};
}

inline bool says(const failure& why, std::string_view text) {
  return why.text.find(text) != std::string::npos;
}

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

/// A directory of the test's own, removed with what is in it.
class scratch_directory {
public:
  scratch_directory() {
    std::string pattern = std::filesystem::temp_directory_path() / "troupe_test_XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr)
      std::abort();
    path_ = pattern;
  }
  ~scratch_directory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  scratch_directory(const scratch_directory&) = delete;
  const std::string& path() const { return path_; }

private:
  std::string path_{};
};

inline tensor floats(shape_t shape, std::vector<float> values) {
  return tensor::of<float>(std::move(shape), std::span<const float>{values});
}

inline tensor ids(std::initializer_list<std::int64_t> values) {
  return tensor::vector<std::int64_t>(values);
}

/// `rows` x `columns` of 0, 1, 2, ... from `first`.
inline tensor counted(std::int64_t rows, std::int64_t columns, float first = 0) {
  tensor out{dtype::f32, {rows, columns}};
  for (float& x : out.mutable_as<float>())
    x = first++;
  return out;
}

inline std::vector<float> values_of(const tensor& x) {
  auto from = x.as<float>();
  return {from.begin(), from.end()};
}

} // namespace troupe::test
