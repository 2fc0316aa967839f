#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#if defined(TROUPE_BENCH_MPI)
#include <mpi.h>
#endif
#if defined(TROUPE_BENCH_GLOO)
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/reduce.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#endif

#include "detail/collective_jobs.hpp"
#include "detail/ranks.hpp"

/// Whom the collective operations are measured against, where they are installed.
namespace bench {

#if defined(TROUPE_BENCH_GLOO)
/// Gloo over TCP, as its users run it. Of its two sums `run` does the ring.
class gloo_peer {
public:
  gloo_peer(rank& at, const std::string& folder) {
    gloo::transport::tcp::attr where;
    where.hostname = "127.0.0.1";
    device_ = gloo::transport::tcp::CreateDevice(where);
    if (at.index() == 0)
      std::filesystem::create_directories(folder);
    at.barrier();
    store_ = std::make_unique<gloo::rendezvous::FileStore>(folder);
    context_ = std::make_shared<gloo::rendezvous::Context>(static_cast<int>(at.index()),
                                                           static_cast<int>(at.size()));
    context_->connectFullMesh(*store_, device_);
    at.barrier();
    if (at.index() == 0)
      std::filesystem::remove_all(folder);
  }

  void run(const job& j) {
    switch (j.kind) {
      case tr::collective_kind::all_reduce: ring(j); break;
      case tr::collective_kind::reduce_scatter: reduce_scatter(j); break;
      case tr::collective_kind::all_gather: all_gather(j); break;
      case tr::collective_kind::broadcast: broadcast(j); break;
      case tr::collective_kind::reduce: reduce(j); break;
      case tr::collective_kind::gather: gather(j); break;
      case tr::collective_kind::barrier: barrier(); break;
    }
  }

  /// Its other sum.
  void halving_doubling(const job& j) {
    auto& made = sums_[{j.out, j.count}];
    if (!made)
      made = std::make_unique<gloo::AllreduceHalvingDoubling<float>>(
        context_, std::vector<float*>{j.out}, static_cast<int>(j.count));
    made->run();
  }

private:
  static void add(void* out, const void* a, const void* b, std::size_t n) {
    auto* to = static_cast<float*>(out);
    const auto* l = static_cast<const float*>(a);
    const auto* r = static_cast<const float*>(b);
    for (std::size_t i = 0; i < n; ++i)
      to[i] = l[i] + r[i];
  }

  void ring(const job& j) {
    gloo::AllreduceOptions options(context_);
    options.setOutput(j.out, j.count);
    options.setReduceFunction(add);
    gloo::allreduce(options);
  }
  // In place in its way: the member's part of the sum stands at the front.
  void reduce_scatter(const job& j) {
    auto& made = scatters_[{j.in, j.count}];
    if (!made)
      made = std::make_unique<gloo::ReduceScatterHalvingDoubling<float>>(
        context_, std::vector<float*>{j.in}, static_cast<int>(j.count),
        std::vector<int>(j.n, static_cast<int>(j.part())));
    made->run();
  }
  void all_gather(const job& j) {
    gloo::AllgatherOptions options(context_);
    options.setInput(j.in, j.part());
    options.setOutput(j.out, j.count);
    gloo::allgather(options);
  }
  void broadcast(const job& j) {
    gloo::BroadcastOptions options(context_);
    options.setOutput(j.out, j.count);
    options.setRoot(static_cast<int>(j.root));
    gloo::broadcast(options);
  }
  void reduce(const job& j) {
    gloo::ReduceOptions options(context_);
    options.setOutput(j.out, j.count);
    options.setReduceFunction(add);
    options.setRoot(static_cast<int>(j.root));
    gloo::reduce(options);
  }
  void gather(const job& j) {
    gloo::GatherOptions options(context_);
    options.setInput(j.in, j.part());
    if (j.is_root())
      options.setOutput(j.out, j.count);
    options.setRoot(static_cast<int>(j.root));
    gloo::gather(options);
  }
  void barrier() {
    gloo::BarrierOptions options(context_);
    gloo::barrier(options);
  }

  using place = std::pair<float*, std::size_t>;
  std::shared_ptr<gloo::transport::Device> device_;
  std::unique_ptr<gloo::rendezvous::FileStore> store_;
  std::shared_ptr<gloo::rendezvous::Context> context_;
  std::map<place, std::unique_ptr<gloo::AllreduceHalvingDoubling<float>>> sums_;
  std::map<place, std::unique_ptr<gloo::ReduceScatterHalvingDoubling<float>>> scatters_;
};
#endif

#if defined(TROUPE_BENCH_MPI)
/// The MPI that this process was started by.
class mpi_peer {
public:
  mpi_peer() { MPI_Init(nullptr, nullptr); }
  ~mpi_peer() { MPI_Finalize(); }
  mpi_peer(const mpi_peer&) = delete;
  mpi_peer& operator=(const mpi_peer&) = delete;

  void run(const job& j) {
    const int count = static_cast<int>(j.count);
    const int part = static_cast<int>(j.part());
    const int root = static_cast<int>(j.root);
    const auto all = MPI_COMM_WORLD;
    switch (j.kind) {
      case tr::collective_kind::all_reduce:
        MPI_Allreduce(MPI_IN_PLACE, j.out, count, MPI_FLOAT, MPI_SUM, all);
        break;
      case tr::collective_kind::reduce_scatter:
        MPI_Reduce_scatter_block(j.in, j.out, part, MPI_FLOAT, MPI_SUM, all);
        break;
      case tr::collective_kind::all_gather:
        MPI_Allgather(j.in, part, MPI_FLOAT, j.out, part, MPI_FLOAT, all);
        break;
      case tr::collective_kind::broadcast: MPI_Bcast(j.out, count, MPI_FLOAT, root, all); break;
      case tr::collective_kind::reduce:
        MPI_Reduce(j.is_root() ? MPI_IN_PLACE : j.in, j.out, count, MPI_FLOAT, MPI_SUM, root, all);
        break;
      case tr::collective_kind::gather:
        MPI_Gather(j.in, part, MPI_FLOAT, j.out, part, MPI_FLOAT, root, all);
        break;
      case tr::collective_kind::barrier: MPI_Barrier(all); break;
    }
  }
};
#endif

} // namespace bench
