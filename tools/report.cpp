#include "report.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <sstream>

namespace tool {

namespace {

namespace tr = troupe;

std::string line(const char* format, auto... values) {
  char out[256];
  std::snprintf(out, sizeof out, format, values...);
  return out;
}

unsigned long long ull(std::uint64_t x) { return x; }

/// Calls f(key, number) for every number of a report, which it may read or write.
template <class Report, class F>
void each_number(Report& r, F f) {
  f("scheduled", r.statistics.scheduled);
  f("finished", r.statistics.finished);
  f("failed", r.statistics.failed);
  f("cancelled", r.statistics.cancelled);
  f("retried", r.statistics.retried);
  f("fenced", r.statistics.fenced);
  f("steps", r.steps);
  f("lost", r.lost);
  f("doubled", r.doubled);
  f("reruns", r.reruns);
  f("correct", r.correct);
  f("images", r.images);
}

template <class Totals, class F>
void each_server_number(Totals& s, F f) {
  f(s.shards);
  f(s.bytes);
  f(s.pushes_applied);
  f(s.duplicates);
  f(s.refused);
}

} // namespace

std::vector<std::string> final_lines(const training_report& report,
                                     const std::optional<process_report>& processes) {
  const auto& s = report.statistics;
  std::uint64_t applied = 0;
  std::uint64_t duplicates = 0;
  for (const auto& server : s.servers) {
    applied += server.pushes_applied;
    duplicates += server.duplicates;
  }
  std::vector<std::string> out;
  if (report.replicas > 0) {
    out.push_back(line("replicas: %u", report.replicas));
    out.push_back(line("copies that differ: %llu", ull(report.differing)));
    out.push_back(line("test accuracy: %.4f", report.accuracy()));
    return out;
  }
  out.push_back(line("closures: scheduled %llu run %llu retried %llu", ull(s.scheduled),
                     ull(s.finished), ull(s.retried)));
  out.push_back(line("pushes: applied %llu duplicates %llu", ull(applied), ull(duplicates)));
  for (const auto& server : s.servers)
    out.push_back(line("ps:%u shards %llu bytes %llu pushes %llu", server.server,
                       ull(server.shards), ull(server.bytes), ull(server.pushes_applied)));
  out.push_back(line("updates lost: %llu", ull(report.lost)));
  out.push_back(line("updates doubled: %llu", ull(report.doubled)));
  if (processes) {
    out.push_back(line("kills: %llu", ull(processes->kills)));
    out.push_back(line("fenced: %llu", ull(s.fenced)));
    out.push_back(
      line("processes: %u of %u exited with code 0", processes->ended_well, processes->tasks));
  }
  out.push_back(line("test accuracy: %.4f", report.accuracy()));
  return out;
}

std::string time_line(const training_report& report, std::uint32_t batch_size) {
  const double rate = report.seconds > 0 ? double(report.steps) / report.seconds : 0;
  return line("trained: %llu steps in %.2f s, %.0f steps/s, %.0f examples/s", ull(report.steps),
              report.seconds, rate, rate * batch_size);
}

std::string readable_seconds(double seconds) {
  const auto whole = static_cast<long long>(std::ceil(std::clamp(seconds, 0.0, 1e9)));
  if (whole < 60)
    return line("%lld s", whole);
  return line("%lld min %02lld s", whole / 60, whole % 60);
}

double seconds_left(double fraction, double seconds) {
  return fraction > 0 ? seconds * (1 - fraction) / fraction : 0;
}

std::string progress_bar(const progress_state& x, std::size_t columns) {
  const auto text = line("%3.0f %%  %llu steps  %.0f steps/s  %.0f examples/s  loss %.3f  ",
                         std::floor(x.fraction * 100), ull(x.steps), x.steps_per_s,
                         x.steps_per_s * x.batch_size, x.loss)
                    + readable_seconds(seconds_left(x.fraction, x.seconds)) + " left";
  const std::size_t room = columns > text.size() + 4 ? columns - text.size() - 4 : 0;
  const std::size_t width = std::min<std::size_t>(room, 24);
  if (width < 4)
    return text.substr(0, columns);
  const auto full = static_cast<std::size_t>(x.fraction * double(width));
  return "[" + std::string(full, '#') + std::string(width - full, '.') + "] " + text;
}

std::string progress_text(const progress_state& x) {
  return line("step %llu (%.0f %%): %.0f steps/s, %.0f examples/s, loss %.3f, ", ull(x.steps),
              std::floor(x.fraction * 100), x.steps_per_s, x.steps_per_s * x.batch_size, x.loss)
         + readable_seconds(seconds_left(x.fraction, x.seconds)) + " left";
}

// -- through the pipe
// ---------------------------------------------------------------------------------

std::string encode_report(const training_report& report) {
  std::ostringstream out;
  each_number(report, [&](const char* key, std::uint64_t x) { out << key << ' ' << x << '\n'; });
  out << "seconds_us " << static_cast<std::uint64_t>(report.seconds * 1e6) << '\n';
  for (const auto& s : report.statistics.servers) {
    out << "server " << s.server;
    each_server_number(s, [&](std::uint64_t x) { out << ' ' << x; });
    out << '\n';
  }
  for (const auto ns : report.rerun_begin_ns)
    out << "rerun_ns " << ns << '\n';
  return out.str();
}

tr::result<training_report> decode_report(std::string_view text) {
  training_report out;
  std::istringstream in{std::string{text}};
  std::string row;
  while (std::getline(in, row)) {
    std::istringstream words{row};
    std::string key;
    words >> key;
    bool known = false;
    const auto take = [&](auto& to) {
      known = true;
      words >> to;
    };
    each_number(out, [&](const char* name, std::uint64_t& to) {
      if (key == name)
        take(to);
    });
    if (key == "seconds_us") {
      std::uint64_t us = 0;
      take(us);
      out.seconds = double(us) / 1e6;
    } else if (key == "server") {
      auto& s = out.statistics.servers.emplace_back();
      take(s.server);
      each_server_number(s, [&](std::uint64_t& to) { take(to); });
    } else if (key == "rerun_ns") {
      take(out.rerun_begin_ns.emplace_back());
    }
    std::string rest;
    if (!known || words.fail() || words >> rest)
      return tr::make_failure(tr::errc::corrupt, "report: malformed line '" + row + "'");
  }
  return out;
}

std::vector<double> recovery_ms(const std::vector<std::int64_t>& death_ns,
                                const std::vector<std::int64_t>& rerun_begin_ns) {
  std::vector<double> out;
  for (std::size_t i = 0; i < death_ns.size(); ++i) {
    const auto first = std::ranges::lower_bound(rerun_begin_ns, death_ns[i]);
    if (first == rerun_begin_ns.end())
      continue;
    if (i + 1 < death_ns.size() && *first >= death_ns[i + 1])
      continue; // that process had nothing in flight
    out.push_back(double(*first - death_ns[i]) / 1e6);
  }
  return out;
}

double median(std::vector<double> values) {
  if (values.empty())
    return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

} // namespace tool
