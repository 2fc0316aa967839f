#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <troupe/troupe.hpp>

/// The lines that `--stats` prints of one process.
namespace tool {

/// Adds up events, marks and the messages that ended actors took. Any thread.
class stats_tracer final : public troupe::tracer {
public:
  void event(std::string_view id, std::span<const troupe::trace_field> fields) override;
  void mark(std::string_view id) override;
  /// A line for each number, "stats worker:1: actor troupe.worker messages 312"; in name order.
  std::vector<std::string> lines(const std::string& task) const;

private:
  using counts = std::map<std::string, std::uint64_t, std::less<>>;
  static void add(counts& to, std::string_view id, std::uint64_t n);
  mutable std::mutex mutex_{};
  counts events_{};
  counts marks_{};
  counts messages_{}; ///< by actor
};

/// "stats ps:0: pushes 40 duplicates 7 refused 2 bytes 1000", one line a server.
std::vector<std::string> server_lines(const troupe::coordinator_statistics& statistics);

/// Hands everything to two tracers, either of which may be null; they outlive it.
class tracer_pair final : public troupe::tracer {
public:
  tracer_pair(troupe::tracer* a, troupe::tracer* b) : a_{a}, b_{b} {}
  void event(std::string_view id, std::span<const troupe::trace_field> fields) override;
  void mark(std::string_view id) override;

private:
  troupe::tracer* a_;
  troupe::tracer* b_;
};

} // namespace tool
