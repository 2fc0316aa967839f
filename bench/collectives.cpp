// How fast the members of a group sum, gather and spread a vector, or wait for each other: over TCP
// against Gloo, Open MPI and bare sockets, through shared memory against Open MPI and bare memory,
// between threads against bare memory. All contenders run in the same processes, in turn.
#include <chrono>
#include <exception>
#include <fstream>
#include <sstream>

#include "../tools/scratch_folder.hpp"
#include "detail/bench.hpp"
#include "detail/child.hpp"
#include "detail/collective_cells.hpp"
#include "detail/collective_rank.hpp"
#include "detail/collective_threads.hpp"
#include "detail/ranks.hpp"

namespace {

namespace tr = troupe;

using kinds = std::vector<tr::collective_kind>;

std::string text_of(const kinds& which) {
  std::string out;
  for (const tr::collective_kind kind : which)
    out += (out.empty() ? "" : ",") + std::string{to_string(kind)};
  return out;
}

kinds kinds_of(const std::string& text) {
  kinds out;
  for (const tr::collective_kind kind : bench::all_kinds)
    if (("," + text + ",").find("," + std::string{to_string(kind)} + ",") != std::string::npos)
      out.push_back(kind);
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
  task.kinds = kinds_of(args.at(6));
  task.sweep = std::getenv("TROUPE_BENCH_SWEEP") != nullptr;
  const char* const by_mpi = std::getenv("OMPI_COMM_WORLD_RANK");
  task.mpi = by_mpi != nullptr;
  bench::rank at{task.page,
                 static_cast<std::uint32_t>(std::stoul(by_mpi != nullptr ? by_mpi : args.at(7))),
                 task.n};
  std::ofstream out{task.page + ".rows", std::ios::app};
  bench::rank_run{task, at}.run(out);
  return 0;
}

// --- the program
// -----------------------------------------------------------------------------------------

/// Starts the ranks, by mpirun where there is one.
bool start_ranks(const bench::report& report, const std::string& page, const std::string& transport,
                 std::uint32_t n, const kinds& which) {
  const std::vector<std::string> args{"--rank",
                                      page,
                                      transport,
                                      std::to_string(n),
                                      std::to_string(report.rounds()),
                                      report.quick() ? "quick" : "full",
                                      text_of(which)};
#if defined(TROUPE_BENCH_MPI)
  std::string command =
    "timeout 400 mpirun --allow-run-as-root --oversubscribe --bind-to none --mca pml ob1 --mca btl "
    + std::string{transport == "tcp" ? "tcp,self" : "vader,self"} + " -n " + std::to_string(n) + " "
    + tool::own_program();
  for (const std::string& a : args)
    command += " " + a;
  return std::system(command.c_str()) == 0;
#else
  std::vector<tool::child_process> children;
  for (std::uint32_t i = 0; i < n; ++i) {
    auto with_rank = args;
    with_rank.push_back(std::to_string(i));
    children.push_back(bench::run_again(with_rank));
  }
  bool ok = true;
  for (auto& c : children)
    ok = c.wait_or_kill(std::chrono::minutes{7}).ok() && ok;
  return ok;
#endif
}

void measure_processes(bench::report& report, const std::string& transport, std::uint32_t n,
                       const kinds& which) {
  const tool::scratch_folder folder;
  const std::string page = folder / "page";
  bench::rank::create(page);
  const bool ok = start_ranks(report, page, transport, n, which);
  std::ifstream in{page + ".rows"};
  bench::cell c;
  for (std::string line; std::getline(in, line);)
    if (bench::read(line, c))
      report.add(bench::row_of(c));
  if (!ok) {
    bench::row failed{.name = bench::group_name("collectives", transport, n)};
    failed.unmeasured = "a rank failed; what it had not done of " + text_of(which) + " is missing";
    report.add(failed);
  }
}

// --- threads
// -----------------------------------------------------------------------------------------

void measure_threads(bench::report& report, std::uint32_t n, const kinds& which) {
  bench::thread_run threads{n};
  for (const tr::collective_kind kind : which)
    for (const std::size_t bytes : bench::sizes_of(kind)) {
      bench::cell c;
      c.note = threads.check(kind, bytes);
      const int times = bench::times_for(kind, bytes, report.quick());
      std::vector<std::function<double()>> contenders;
      for (const bool bound : {false, true})
        if (!bound || !bench::alone_bytes())
          contenders.emplace_back(
            [&, bound] { return threads.sample_us(kind, bytes, times, bound); });
      auto samples = report.interleave(contenders);
      samples.resize(2);
      c.kind = to_string(kind);
      c.transport = "inproc";
      c.n = n;
      c.bytes = bytes;
      c.algorithm = bytes <= 32 * bench::kib ? "single" : "shared";
      c.ours = samples[0];
      c.peer = kind == tr::collective_kind::barrier ? "limit_spin" : "limit_memory";
      c.peers = samples[1];
      report.add(bench::row_of(c));
    }
}

/// Those operations of which the caller wants rows.
kinds wanted(const bench::report& report, const std::string& transport, std::uint32_t n) {
  kinds out;
  for (const tr::collective_kind kind : bench::all_kinds)
    if (report.wants(bench::group_name(to_string(kind), transport, n)))
      out.push_back(kind);
  return out;
}

} // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> args(argv + 1, argv + argc);
  if (args.size() >= 7 && args[0] == "--rank")
    return run_rank(args);
  bench::report report{"collectives", argc, argv};
  for (const std::uint32_t n : {2u, 4u})
    for (const std::string transport : {"tcp", "shm", "inproc"}) {
      const kinds which = wanted(report, transport, n);
      if (!which.empty() && transport == "inproc")
        measure_threads(report, n, which);
      else if (!which.empty())
        measure_processes(report, transport, n, which);
    }
  return report.finish();
} catch (const std::exception& e) {
  std::fprintf(stderr, "collectives: %s\n", e.what());
  return 1;
}
