#include "standstill.hpp"

#include <algorithm>
#include <cstdio>

namespace tool {

namespace {

std::string times(std::uint64_t n) { return n == 1 ? "once" : std::to_string(n) + " times"; }

/// "worker:0 9 times, worker:1 7 times".
std::string list(const std::map<troupe::task_id, std::uint64_t>& all) {
  std::string out;
  for (const auto& [task, n] : all)
    out += (out.empty() ? "" : ", ") + to_string(task) + " " + times(n);
  return out;
}

std::string seconds(std::int64_t ms) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(ms) / 1000);
  return text;
}

} // namespace

void standstill::progressed(std::int64_t now_ms) {
  since_ms_ = now_ms;
  told_ms_ = 0;
  ends_.clear();
  stops_.clear();
  ended_ = stopped_ = 0;
  lived_ms_ = 0;
}

void standstill::ended(const troupe::task_id& task, std::int64_t lived_ms) {
  ++ends_[task];
  ++ended_;
  lived_ms_ += lived_ms;
}

void standstill::stopped(const troupe::task_id& task) {
  ++stops_[task];
  ++stopped_;
}

std::optional<std::string> standstill::due(std::int64_t now_ms) {
  const bool storm = ended_ + stopped_ >= hits_min;
  if (!storm || now_ms - std::max(since_ms_, told_ms_) < tell_every_ms)
    return std::nullopt;
  told_ms_ = now_ms;
  auto out = "no progress for " + std::to_string((now_ms - since_ms_) / 1000) + " s: " + saves_
             + "; since the last one";
  if (ended_ > 0)
    out += " processes exited before the next: " + list(ends_) + ", after "
           + seconds(lived_ms_ / static_cast<std::int64_t>(ended_)) + " on average";
  if (stopped_ > 0)
    out += std::string{ended_ > 0 ? ";" : ""} + " processes were stopped: " + list(stops_)
           + " (a step needs all workers)";
  return out;
}

} // namespace tool
