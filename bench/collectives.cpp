// How fast the members of a group sum a vector: over TCP against Gloo, Open MPI and bare sockets,
// through shared memory against Open MPI and bare memory, between threads against bare memory. All
// contenders run in the same processes, in turn.
#include <exception>
#include <fstream>
#include <sstream>

#include "detail/bench.hpp"
#include "detail/child.hpp"
#include "detail/collective_rank.hpp"
#include "detail/collective_threads.hpp"
#include "detail/ranks.hpp"

namespace {

using bench::kib;
using bench::mib;
using bench::sizes;
using bench::times_for;

/// A cell: one size, one variant of ours, everybody's samples.
struct cell {
  std::string transport;
  std::uint32_t n = 0;
  std::size_t bytes = 0;
  std::string wire = "f32";
  std::string order = "rank";
  std::string algorithm;
  std::vector<double> ours{};
  std::string peer{};
  std::vector<double> peers{};
  std::string note{};
};

bench::row row_of(const cell& c) {
  bench::row out;
  std::string size =
    c.bytes >= mib ? std::to_string(c.bytes / mib) + "M" : std::to_string(c.bytes / kib) + "K";
  out.name = "all_reduce_" + c.transport + "_n" + std::to_string(c.n) + "_" + size
             + (c.wire == "f32" ? "" : "_" + c.wire) + (c.order == "rank" ? "" : "_" + c.order)
             + (c.algorithm == "zero_copy" ? "_zero_copy" : "");
  out.params = {{"n", std::to_string(c.n)},
                {"bytes", std::to_string(c.bytes)},
                {"transport", bench::quoted(c.transport)},
                {"wire", bench::quoted(c.wire)},
                {"order", bench::quoted(c.order)},
                {"algorithm", bench::quoted(c.algorithm)}};
  out.unit = "us";
  out.ours = c.ours;
  out.peer = c.peer;
  out.peers = c.peers;
  out.note = c.note;
  return out;
}

// --- ranks
// -----------------------------------------------------------------------------------------

int run_rank(const std::vector<std::string>& args) {
  bench::rank_task task;
  task.page = args.at(1);
  task.transport = args.at(2);
  task.n = static_cast<std::uint32_t>(std::stoul(args.at(3)));
  task.rounds = std::stoi(args.at(4));
  task.quick = args.at(5) == "quick";
  task.sweep = std::getenv("TROUPE_BENCH_SWEEP") != nullptr;
  const char* const by_mpi = std::getenv("OMPI_COMM_WORLD_RANK");
  task.mpi = by_mpi != nullptr;
  bench::rank at{task.page,
                 static_cast<std::uint32_t>(std::stoul(by_mpi != nullptr ? by_mpi : args.at(6))),
                 task.n};
  std::ofstream out{task.page + ".rows", std::ios::app};
  bench::rank_run{task, at}.run(out);
  return 0;
}

// --- the program
// -----------------------------------------------------------------------------------------

std::vector<double> numbers(const std::string& text) {
  std::istringstream in{text};
  std::vector<double> out;
  for (double x = 0; in >> x;)
    out.push_back(x);
  return out;
}

#if defined(TROUPE_BENCH_MPI)
std::string own_path() {
  std::vector<char> path(4096);
  const ssize_t n = ::readlink("/proc/self/exe", path.data(), path.size());
  return {path.data(), static_cast<std::size_t>(std::max<ssize_t>(0, n))};
}
#endif

/// Starts the ranks, by mpirun where there is one.
bool start_ranks(const bench::report& report, const std::string& page, const std::string& transport,
                 std::uint32_t n) {
  const std::vector<std::string> args{"--rank",
                                      page,
                                      transport,
                                      std::to_string(n),
                                      std::to_string(report.rounds()),
                                      report.quick() ? "quick" : "full"};
#if defined(TROUPE_BENCH_MPI)
  std::string command =
    "timeout 400 mpirun --allow-run-as-root --oversubscribe --bind-to none --mca pml ob1 --mca btl "
    + std::string{transport == "tcp" ? "tcp,self" : "vader,self"} + " -n " + std::to_string(n) + " "
    + own_path();
  for (const std::string& a : args)
    command += " " + a;
  return std::system(command.c_str()) == 0;
#else
  std::vector<bench::child> children;
  for (std::uint32_t i = 0; i < n; ++i) {
    auto with_rank = args;
    with_rank.push_back(std::to_string(i));
    children.emplace_back(with_rank);
  }
  bool ok = true;
  for (auto& c : children)
    ok = c.wait() == 0 && ok;
  return ok;
#endif
}

void measure_processes(bench::report& report, const std::string& transport, std::uint32_t n) {
  const std::string page =
    (std::filesystem::temp_directory_path() / ("troupe-collectives-" + std::to_string(::getpid())))
      .string();
  bench::rank::create(page);
  const bool ok = start_ranks(report, page, transport, n);
  std::ifstream in{page + ".rows"};
  for (std::string line; std::getline(in, line);) {
    std::vector<std::string> fields;
    std::istringstream parts{line};
    for (std::string field; std::getline(parts, field, '\t');)
      fields.push_back(field);
    if (fields.size() < 10)
      continue;
    cell c{fields[0],          n,         std::stoul(fields[2]), fields[3], fields[4], fields[5],
           numbers(fields[8]), fields[6], numbers(fields[9]),    fields[7]};
    report.add(row_of(c));
  }
  if (!ok) {
    bench::row failed{.name = "all_reduce_" + transport + "_n" + std::to_string(n)};
    failed.unmeasured = "a rank failed";
    report.add(failed);
  }
  std::filesystem::remove(page);
  std::filesystem::remove(page + ".rows");
}

// --- threads
// -----------------------------------------------------------------------------------------

void measure_threads(bench::report& report, std::uint32_t n) {
  bench::thread_run threads{n};
  for (const std::size_t bytes : sizes) {
    const int times = times_for(bytes, report.quick());
    const auto samples = report.interleave({[&] { return threads.sample_us(bytes, times, false); },
                                            [&] { return threads.sample_us(bytes, times, true); }});
    cell c;
    c.transport = "inproc";
    c.n = n;
    c.bytes = bytes;
    c.algorithm = bytes <= 32 * kib ? "single" : "shared";
    c.ours = samples[0];
    c.peer = "limit_memory";
    c.peers = samples[1];
    report.add(row_of(c));
  }
}

} // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> args(argv + 1, argv + argc);
  if (args.size() >= 6 && args[0] == "--rank")
    return run_rank(args);
  bench::report report{"collectives", argc, argv};
  for (const std::uint32_t n : {2u, 4u}) {
    for (const std::string transport : {"tcp", "shm"})
      if (report.wants("all_reduce_" + transport + "_n" + std::to_string(n)))
        measure_processes(report, transport, n);
    if (report.wants("all_reduce_inproc_n" + std::to_string(n)))
      measure_threads(report, n);
  }
  return report.finish();
} catch (const std::exception& e) {
  std::fprintf(stderr, "collectives: %s\n", e.what());
  return 1;
}
