#pragma once

#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "detail/machine.hpp"

/// The frame that the programs in bench/ share: options, interleaved rounds, a table for people, a
/// file for machines. Benches are no part of the product, so they read clocks and files directly.
namespace bench {

using steady = std::chrono::steady_clock;

inline double seconds_since(steady::time_point t) {
  return std::chrono::duration<double>(steady::now() - t).count();
}

/// Processor time of all threads of this process.
inline double cpu_seconds() {
  timespec t{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// Whether more of the unit is better.
enum class better { less, more };

/// One measurement: ours and, where there is one, a peer's, a sample a round.
struct row {
  std::string name;
  std::vector<std::pair<std::string, std::string>> params{}; ///< values as they stand in JSON
  std::string unit{};
  better direction = better::less;
  std::vector<double> ours{};
  std::string peer{};
  std::vector<double> peers{};
  /// The ratio that was aimed at; 0: none. With `aim_value`, what was aimed at in the row's unit.
  double aim = 0;
  double aim_value = 0;
  /// Why there is no number; stands in the table and in the file instead of one.
  std::string unmeasured{};
  /// What a reader must know of this row: a process ended early, a result was wrong, ...
  std::string note{};
};

/// A text as JSON.
inline std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + "\"";
}

inline std::string number(double x, int digits = 6) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*g", digits, x);
  return text;
}

/// Between the two nearest samples, as numpy's default. 0 for no samples.
inline double quantile(std::vector<double> xs, double q) {
  if (xs.empty())
    return 0;
  std::sort(xs.begin(), xs.end());
  const double at = q * static_cast<double>(xs.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const auto high = std::min(low + 1, xs.size() - 1);
  return xs[low] + (xs[high] - xs[low]) * (at - static_cast<double>(low));
}

inline double median(const std::vector<double>& xs) { return quantile(xs, 0.5); }

/// Medians' ratio, above 1 when ours is better; 0 without a peer.
inline double ratio(const row& r) {
  const double ours = median(r.ours);
  const double peer = median(r.peers);
  if (ours <= 0 || peer <= 0)
    return 0;
  return r.direction == better::less ? peer / ours : ours / peer;
}

/// The ratio that was aimed at; 0: none.
inline double aim(const row& r) {
  const double peer = median(r.peers);
  if (r.aim > 0 || r.aim_value <= 0 || peer <= 0)
    return r.aim;
  return r.direction == better::less ? peer / r.aim_value : r.aim_value / peer;
}

/// Field 1 of /proc/loadavg: runnable threads of the last minute; -1 where there is none.
inline double load() {
  double one = 0;
  return ::getloadavg(&one, 1) == 1 ? one : -1;
}

/// "Linux 6.1 x86_64, 2 x Some CPU @ 2.1 GHz".
inline std::string machine() {
  utsname u{};
  ::uname(&u);
  std::string cpu = "unknown CPU";
  std::ifstream info{"/proc/cpuinfo"};
  for (std::string line; std::getline(info, line);)
    if (line.rfind("model name", 0) == 0) {
      cpu = line.substr(std::min(line.size(), line.find(':') + 2));
      break;
    }
  return std::string{u.sysname} + " " + u.release + " " + u.machine + ", "
         + std::to_string(std::thread::hardware_concurrency()) + " x " + cpu;
}

/// Options and results of one program.
class report {
public:
  /// Reads `--quick`, `--json FILE`, `--rounds N`, `--only ROW`; `--help` tells of them and ends
  /// the process with 0, anything else with 2.
  report(std::string suite, int argc, char** argv)
    : suite_{std::move(suite)}, load_{load()}, before_{processors_now()} {
    for (int i = 1; i < argc; ++i) {
      const std::string flag = argv[i];
      const auto value = [&]() -> std::string {
        if (i + 1 >= argc)
          usage(flag + " needs a value");
        return argv[++i];
      };
      if (flag == "--quick")
        quick_ = true;
      else if (flag == "--help")
        help();
      else if (flag == "--json")
        json_ = value();
      else if (flag == "--only")
        only_ = value();
      else if (flag == "--rounds")
        rounds_ = std::max(1, std::atoi(value().c_str()));
      else
        usage("unknown flag " + flag);
    }
    if (rounds_ == 0)
      rounds_ = quick_ ? 2 : 9;
  }

  bool quick() const { return quick_; }
  /// `full`, or a tenth of it for a smoke run.
  std::size_t scaled(std::size_t full) const {
    return quick_ ? std::max<std::size_t>(1, full / 10) : full;
  }
  int rounds() const { return rounds_; }
  /// Whether the row was asked for.
  bool wants(const std::string& name) const {
    return only_.empty() || name.find(only_) != std::string::npos;
  }

  /// Runs contenders in turn, all in every round, after one round that does not count. Each gives
  /// one sample a call.
  std::vector<std::vector<double>> interleave(
    const std::vector<std::function<double()>>& contenders) const {
    std::vector<std::vector<double>> samples(contenders.size());
    for (int round = -1; round < rounds_; ++round)
      for (std::size_t i = 0; i < contenders.size(); ++i)
        if (const double x = contenders[i](); round >= 0)
          samples[i].push_back(x);
    return samples;
  }

  void add(row r) { rows_.push_back(std::move(r)); }

  /// Prints and writes; the exit code: 1 when there is no result for some row, or no file.
  int finish() {
    others_ = share_of_others(before_, processors_now());
    print();
    const bool written = json_.empty() || write();
    return written && !has_gaps() ? 0 : 1;
  }

  /// What a reader must know of the machine, one sentence each: that it was busy, that it is slow.
  std::vector<std::string> remarks() const {
    std::vector<std::string> out;
    for (auto& text : {busy_text(others_), slower_text(speeds())})
      if (!text.empty())
        out.push_back(text);
    return out;
  }

private:
  /// How the peers of this run compare with those that the manual quotes.
  std::vector<peer_speed> speeds() const {
    std::vector<peer_speed> out;
    for (const auto& q : quoted_peers)
      for (const row& r : rows_) {
        const double here = median(r.peers);
        if (suite_ == q.suite && r.name == q.row && r.peer == q.peer && here > 0)
          out.push_back({r.peer, r.unit, here, q.value,
                         r.direction == better::less ? here / q.value : q.value / here});
      }
    return out;
  }

  /// A row that was measured has a number, and a ratio where it has a peer.
  bool has_gaps() const {
    bool out = false;
    for (const row& r : rows_) {
      const double ours = median(r.ours);
      if (!r.unmeasured.empty() || (std::isfinite(ours) && ours > 0))
        continue;
      std::fprintf(stderr, "%s: no result for %s\n", suite_.c_str(), r.name.c_str());
      out = true;
    }
    if (rows_.empty())
      std::fprintf(stderr, "%s: there is no row '%s'\n", suite_.c_str(), only_.c_str());
    return out || rows_.empty();
  }

  [[noreturn]] void usage(const std::string& what) const {
    std::fprintf(stderr, "%s: %s\nusage: %s [--quick] [--json FILE] [--rounds N] [--only ROW]\n",
                 suite_.c_str(), what.c_str(), suite_.c_str());
    std::exit(2);
  }
  [[noreturn]] void help() const {
    std::printf(
      "usage: %s [--quick] [--json FILE] [--rounds N] [--only TEXT]\n\n"
      "  --quick      a tenth of the work, and two rounds\n"
      "  --json FILE  writes the rows to FILE\n"
      "  --rounds N   samples of every row (9; 2 with --quick)\n"
      "  --only TEXT  rows whose name or group has TEXT\n",
      suite_.c_str());
    std::exit(0);
  }

  void print() const {
    std::printf("%s%s, %d rounds, load %.2f -> %.2f\n%s\n", suite_.c_str(),
                quick_ ? " (quick)" : "", rounds_, load_, load(), machine().c_str());
    for (const std::string& remark : remarks())
      std::printf("! %s\n", remark.c_str());
    std::printf("\n");
    std::printf("%-36s %-11s %11s %11s %11s  %-14s %11s %7s %6s\n", "row", "unit", "median", "q1",
                "min", "peer", "peer median", "ratio", "aim");
    for (const row& r : rows_) {
      if (!r.unmeasured.empty()) {
        std::printf("%-36s not measured: %s\n", r.name.c_str(), r.unmeasured.c_str());
        continue;
      }
      std::printf("%-36s %-11s %11s %11s %11s", r.name.c_str(), r.unit.c_str(),
                  number(median(r.ours), 5).c_str(), number(quantile(r.ours, 0.25), 5).c_str(),
                  number(quantile(r.ours, 0), 5).c_str());
      if (!r.peers.empty())
        std::printf("  %-14s %11s %7.3f %6s", r.peer.c_str(), number(median(r.peers), 5).c_str(),
                    ratio(r), aim(r) > 0 ? number(aim(r), 3).c_str() : "");
      std::printf("%s%s\n", r.note.empty() ? "" : "  ! ", r.note.c_str());
    }
  }

  bool write() const {
    char date[32] = "";
    const std::time_t now = std::time(nullptr);
    std::tm utc{};
    ::gmtime_r(&now, &utc);
    std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
    std::ofstream out{json_};
    out << "{\"suite\": " << quoted(suite_) << ", \"date\": " << quoted(date)
        << ", \"machine\": " << quoted(machine()) << ", \"quick\": " << (quick_ ? "true" : "false")
        << ", \"rounds\": " << rounds_ << ", \"load\": " << number(load_);
    if (others_)
      out << ", \"busy\": " << number(*others_, 2);
    out << ", \"remarks\": [";
    const auto said = remarks();
    for (std::size_t i = 0; i < said.size(); ++i)
      out << (i ? ", " : "") << quoted(said[i]);
    out << "], \"rows\": [";
    for (std::size_t i = 0; i < rows_.size(); ++i)
      out << (i ? ",\n  " : "\n  ") << json_of(rows_[i]);
    out << "\n]}\n";
    out.close();
    if (!out)
      std::fprintf(stderr, "%s: cannot write %s\n", suite_.c_str(), json_.c_str());
    return static_cast<bool>(out);
  }

  static std::string json_of(const row& r) {
    std::string out = "{\"name\": " + quoted(r.name) + ", \"params\": {";
    for (std::size_t i = 0; i < r.params.size(); ++i)
      out += (i ? ", " : "") + quoted(r.params[i].first) + ": " + r.params[i].second;
    out += "}, \"unit\": " + quoted(r.unit)
           + ", \"better\": " + quoted(r.direction == better::less ? "less" : "more");
    if (!r.unmeasured.empty())
      return out + ", \"not_measured\": " + quoted(r.unmeasured) + "}";
    out += ", \"median\": " + number(median(r.ours)) + ", \"q1\": " + number(quantile(r.ours, 0.25))
           + ", \"min\": " + number(quantile(r.ours, 0));
    if (!r.peers.empty())
      out += ", \"peer\": " + quoted(r.peer) + ", \"peer_median\": " + number(median(r.peers))
             + ", \"ratio\": " + number(ratio(r));
    if (aim(r) > 0)
      out += ", \"aim\": " + number(aim(r), 3);
    if (!r.note.empty())
      out += ", \"note\": " + quoted(r.note);
    return out + "}";
  }

  std::string suite_;
  double load_;
  std::optional<processor_ticks> before_;
  std::optional<double> others_{}; ///< share of the processors, once it ended
  bool quick_ = false;
  std::string json_{};
  std::string only_{};
  int rounds_ = 0;
  std::vector<row> rows_{};
};

} // namespace bench
