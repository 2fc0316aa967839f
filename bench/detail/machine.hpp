#pragma once

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

/// What a reader of a bench's numbers must know of the machine: whether other work ran beside it,
/// and whether it is slower than the machine whose numbers the manual quotes. Neither makes a ratio
/// void: contenders take turns, so both slow down.
namespace bench {

// --- other work
// -----------------------------------------------------------------------------------------

/// Ticks of the clock that all processors together had, were at work in, and that were ours.
struct processor_ticks {
  double all = 0;
  double busy = 0; ///< taken away by a host of virtual machines included
  double own = 0;  ///< of this process and those that descend from it
};

/// The first line of /proc/stat: all and busy. Nothing when it is another line.
inline std::optional<processor_ticks> read_processors(const std::string& line) {
  std::istringstream in{line};
  std::string name;
  std::array<double, 8> x{}; // user, nice, system, idle, iowait, irq, softirq, steal
  in >> name;
  for (double& each : x)
    in >> each;
  if (!in || name != "cpu")
    return std::nullopt;
  processor_ticks out;
  for (const double each : x)
    out.all += each;
  out.busy = out.all - x[3] - x[4];
  return out;
}

/// A process in /proc/PID/stat: who started it, and its ticks with those of its children that
/// ended.
struct process_ticks {
  int pid = 0;
  int parent = 0;
  double ticks = 0;
};

inline std::optional<process_ticks> read_process(const std::string& text) {
  const auto name_end = text.rfind(')'); // a name may have any other character
  if (name_end == std::string::npos)
    return std::nullopt;
  process_ticks out;
  out.pid = std::atoi(text.c_str());
  std::istringstream in{text.substr(name_end + 1)};
  std::string skipped;
  in >> skipped >> out.parent;
  for (int i = 5; i < 14; ++i) // fields 5 to 13 of proc(5)
    in >> skipped;
  double x = 0;
  for (int i = 0; i < 4; ++i) { // utime, stime, cutime, cstime
    in >> x;
    out.ticks += x;
  }
  return in ? std::optional{out} : std::nullopt;
}

/// Ticks of `root` and all that descend from it.
inline double ticks_below(const std::vector<process_ticks>& all, int root) {
  std::map<int, std::vector<const process_ticks*>> children;
  double sum = 0;
  for (const auto& p : all) {
    children[p.parent].push_back(&p);
    if (p.pid == root)
      sum += p.ticks;
  }
  std::vector<int> open{root};
  while (!open.empty()) {
    const int at = open.back();
    open.pop_back();
    for (const auto* child : children[at]) {
      sum += child->ticks;
      open.push_back(child->pid);
    }
  }
  return sum;
}

/// As of now; nothing where the system does not tell.
inline std::optional<processor_ticks> processors_now() {
  std::ifstream stat{"/proc/stat"};
  std::string line;
  std::getline(stat, line);
  auto out = read_processors(line);
  DIR* const proc = out ? ::opendir("/proc") : nullptr;
  if (proc == nullptr)
    return std::nullopt;
  std::vector<process_ticks> all;
  while (const dirent* entry = ::readdir(proc)) {
    if (entry->d_name[0] < '0' || entry->d_name[0] > '9')
      continue;
    std::ifstream in{std::string{"/proc/"} + entry->d_name + "/stat"};
    if (const auto p = read_process({std::istreambuf_iterator<char>{in}, {}}))
      all.push_back(*p);
  }
  ::closedir(proc);
  out->own = ticks_below(all, ::getpid());
  return out;
}

/// The share of all processors that others took in between, 0 to 1. Nothing when too little time
/// went by to tell.
inline std::optional<double> share_of_others(const std::optional<processor_ticks>& before,
                                             const std::optional<processor_ticks>& after) {
  constexpr double ticks_min = 20; // a tenth of a second of two processors
  if (!before || !after || after->all - before->all < ticks_min)
    return std::nullopt;
  const double others = (after->busy - before->busy) - (after->own - before->own);
  return std::clamp(others / (after->all - before->all), 0.0, 1.0);
}

// --- a slower machine
// -----------------------------------------------------------------------------------------

/// What a peer took, or reached, on the machine of docs/performance.md: one row a peer that tells
/// of the machine alone.
struct quoted_peer {
  const char* suite;
  const char* row;
  const char* peer;
  double value;
};

inline constexpr std::array quoted_peers{
  quoted_peer{"train_overhead", "one_worker", "plain_loop", 0.195},
  quoted_peer{"mirrored_overhead", "one_replica", "plain_loop", 0.195},
  quoted_peer{"dispatch", "embedded_closures_per_s", "bare_caf", 2.46e6},
  quoted_peer{"dispatch", "process_closures_per_s", "bare_basp", 181e3},
  quoted_peer{"push_pull", "pull_dense_tcp", "limit_raw_tcp", 6.19},
  quoted_peer{"push_pull", "pull_dense_shm", "limit_memcpy", 41.1},
  quoted_peer{"push_pull", "pull_sparse_shm", "limit_gather", 201.8},
  quoted_peer{"collectives", "all_reduce_tcp_n2_1M", "limit_raw_tcp", 119},
  quoted_peer{"collectives", "all_reduce_inproc_n2_1M", "limit_memory", 30.5}};

/// What one peer says of the machine.
struct peer_speed {
  std::string peer{};
  std::string unit{};
  double here = 0;
  double quoted = 0;
  double slower = 1; ///< how many times slower it is here
};

/// "peers are 2.1 times slower here ..."; empty when it is about as fast, or nothing tells.
inline std::string slower_text(std::vector<peer_speed> speeds) {
  constexpr double worth_saying = 1.5;
  if (speeds.empty())
    return "";
  std::sort(speeds.begin(), speeds.end(),
            [](const auto& a, const auto& b) { return a.slower < b.slower; });
  const peer_speed& middle = speeds[speeds.size() / 2];
  if (middle.slower < worth_saying)
    return "";
  std::ostringstream out;
  out.precision(3);
  out << "peers are " << std::round(middle.slower * 10) / 10
      << " times slower here than on the machine of docs/performance.md (" << middle.peer << ": "
      << middle.here << " " << middle.unit << ", there " << middle.quoted
      << "): compare ratios with that page, not times or rates";
  return out.str();
}

/// "other work took 40 % ..."; empty when there was next to none, or nobody knows.
inline std::string busy_text(const std::optional<double>& others) {
  constexpr double worth_saying = 0.1;
  if (!others || *others < worth_saying)
    return "";
  return "other work took " + std::to_string(static_cast<int>(std::lround(*others * 100)))
         + " % of the processors meanwhile: times and rates are worse than this machine's; "
           "contenders took turns, so the ratios stand, with more scatter";
}

} // namespace bench
