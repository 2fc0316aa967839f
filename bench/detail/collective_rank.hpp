#pragma once

#include <cmath>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <troupe/troupe.hpp>

#include "detail/bench.hpp"
#include "detail/collective_peers.hpp"
#include "detail/ranks.hpp"

/// One of the processes that sum vectors, with everybody it is compared with.
namespace bench {

namespace tr = troupe;

inline constexpr std::size_t kib = 1024;
inline constexpr std::size_t mib = 1024 * kib;
inline constexpr std::size_t sizes[] = {kib, 64 * kib, mib, 4 * mib, 64 * mib};

inline int times_for(std::size_t bytes, bool quick) {
  const int full = bytes <= 4 * kib    ? 500
                   : bytes <= 64 * kib ? 150
                   : bytes <= mib      ? 25
                   : bytes <= 4 * mib  ? 8
                                       : 1;
  return quick ? std::max(1, full / 10) : full;
}

/// What a rank process is told.
struct rank_task {
  std::string page;
  std::string transport; // tcp, shm
  std::uint32_t n = 2;
  int rounds = 9;
  bool quick = false;
  bool sweep = false; ///< our algorithms, instead of peers
  bool mpi = false;
};

struct variant {
  tr::collective_options options{};
  std::string wire = "f32";
  std::string order = "rank";
  bool in_arena = false;
};

class rank_run {
public:
  rank_run(const rank_task& task, rank& at)
    : task_{task},
      at_{at},
      ports_{tr::make_production_ports()},
      transport_{tr::make_asio_transport(ports_->clock())},
      env_{ports_->clock(), ports_->random(), ports_->storage(),
           ports_->lanes(), ports_->waits(),  *transport_},
      x_{tr::dtype::f32, {static_cast<std::int64_t>(64 * mib / sizeof(float))}} {
    tr::group_options options;
    if (task.transport == "shm")
      options.locality = tr::this_locality();
    options.arena_bytes = 64 * mib;
    // "share KiB x slots" instead of the table's.
    if (const char* const slots = std::getenv("TROUPE_BENCH_SLOTS")) {
      tr::slot_row row;
      char* end = nullptr;
      row.share_bytes = std::strtoul(slots, &end, 10) * kib;
      row.slots = static_cast<std::uint32_t>(std::strtoul(end + 1, nullptr, 10));
      options.table = tr::collective_table{tr::collective_table{}.rows(), {row}};
    }
    group_ = tr::collective_group::make(env_, at.index() + 1, options).value_or_throw();
    std::snprintf(at.page().address[at.index()], 64, "%s", group_->address().c_str());
    at.barrier();
    std::vector<tr::collective_member> members;
    for (std::uint32_t i = 0; i < at.size(); ++i)
      members.push_back({i + 1, at.page().address[i]});
    group_->form(tr::group_epoch{1}, members, std::chrono::seconds{10}).value_or_throw();
    const auto expected =
      task.transport == "shm" ? tr::group_class::host : tr::group_class::network;
    if (group_->carried_by() != expected)
      throw std::runtime_error("the group is carried by something else");
    if (task.transport == "shm")
      arena_ = group_->allocate(tr::dtype::f32, x_.shape());
    add_peers();
    at.pin();
  }

  void run(std::ostream& out) {
    for (const std::size_t bytes : sizes)
      measure(bytes, out);
  }

private:
  void add_peers() {
    const bool tcp = task_.transport == "tcp";
#if defined(TROUPE_BENCH_GLOO)
    if (tcp) {
      gloo_ = std::make_unique<gloo_peer>(at_, task_.page + ".gloo");
      peers_.push_back({"gloo_ring", [this](float* x, std::size_t n) { gloo_->ring(x, n); }});
      peers_.push_back(
        {"gloo_hd", [this](float* x, std::size_t n) { gloo_->halving_doubling(x, n); }});
    }
#endif
#if defined(TROUPE_BENCH_MPI)
    if (task_.mpi) {
      mpi_ = std::make_unique<mpi_peer>();
      peers_.push_back({tcp ? "openmpi_tcp" : "openmpi_shm",
                        [this](float* x, std::size_t n) { mpi_->all_reduce(x, n); }});
    }
#endif
    sums_ = peers_.size();
    if (tcp && at_.size() == 2) {
      sockets_ = std::make_unique<raw_sockets>(at_);
      peers_.push_back(
        {"limit_raw_tcp", [this](float* x, std::size_t n) { sockets_->exchange(x, n); }});
    }
    if (!tcp) {
      memory_.assign(at_.size(), std::vector<float>(64 * mib / sizeof(float) / at_.size(), 1.0f));
      peers_.push_back({"limit_memory", [this](float*, std::size_t n) {
                          memory_pass(memory_, 0, n / at_.size());
                        }});
    }
  }

  std::vector<variant> variants(std::size_t bytes) const {
    std::vector<variant> out(1);
    if (task_.sweep && task_.transport == "tcp") {
      using a = tr::collective_algorithm;
      for (const a algorithm :
           {a::exchange, a::direct, a::ring, a::recursive_doubling, a::halving_doubling}) {
        const bool halves = algorithm == a::recursive_doubling || algorithm == a::halving_doubling;
        if ((halves && (at_.size() & (at_.size() - 1)) != 0)
            || (bytes > 4 * mib
                && (algorithm == a::exchange || algorithm == a::recursive_doubling)))
          continue;
        variant one;
        one.options.algorithm = algorithm;
        one.order = to_string(algorithm);
        out.push_back(one);
      }
    }
    if (task_.transport == "tcp" && bytes >= mib) {
      variant bf16;
      bf16.wire = "bf16";
      bf16.options.wire = tr::kernels::encoding::bf16;
      out.push_back(bf16);
    }
    if (task_.transport == "tcp" && at_.size() > 2) {
      variant fixed;
      fixed.order = "fixed";
      fixed.options.order = tr::reduction_order::fixed;
      out.push_back(fixed);
    }
    if (task_.transport == "shm" && bytes > 16 * kib) {
      variant zero_copy;
      zero_copy.in_arena = true;
      out.push_back(zero_copy);
    }
    for (variant& v : out)
      v.options.deadline = std::chrono::seconds{20};
    return out;
  }

  void measure(std::size_t bytes, std::ostream& out) {
    const std::size_t count = bytes / sizeof(float);
    tr::tensor x = x_.rows(0, static_cast<std::int64_t>(count));
    float* const data = x.mutable_as<float>().data();
    std::vector<contender> all;
    const std::vector<variant> ours = variants(bytes);
    for (const variant& v : ours) {
      tr::tensor on = v.in_arena ? arena_.rows(0, static_cast<std::int64_t>(count)) : x;
      float* const at = on.mutable_as<float>().data();
      all.push_back({"troupe",
                     [this, v, on](float*, std::size_t) mutable {
                       group_->all_reduce(on, tr::reduce_op::sum, v.options).value_or_throw();
                     },
                     at});
    }
    for (contender& peer : peers_) {
      peer.data = data;
      all.push_back(peer);
    }
    std::vector<std::string> notes(all.size());
    for (std::size_t i = 0; i < ours.size() + sums_; ++i)
      notes[i] = check(all[i], count, i < ours.size() && ours[i].wire != "f32");
    std::vector<std::vector<double>> samples(all.size());
    for (int round = -1; round < task_.rounds; ++round)
      for (const std::size_t i : order_of(round, all.size())) {
        float* const at = all[i].data;
        const auto touch = [&] {
          std::fill(at, at + count, 0.5f);
          asm volatile("" ::"r"(at) : "memory");
        };
        const double us =
          at_.sample_us([&] { all[i].run(at, count); }, touch, times_for(bytes, task_.quick));
        if (round >= 0)
          samples[i].push_back(us);
      }
    if (at_.index() == 0)
      for (std::size_t v = 0; v < ours.size(); ++v)
        for (std::size_t p = ours.size(); p < all.size(); ++p)
          write(out, bytes, ours[v], samples[v], all[p].name, samples[p], notes[v] + notes[p]);
  }

  /// Another order in every round, the same on all ranks: who follows whom matters.
  static std::vector<std::size_t> order_of(int round, std::size_t size) {
    std::vector<std::size_t> out(size);
    for (std::size_t i = 0; i < size; ++i)
      out[i] = i;
    std::mt19937 random{static_cast<unsigned>(round + 1)};
    std::shuffle(out.begin(), out.end(), random);
    return out;
  }

  /// Right on every rank, and the same bits.
  std::string check(contender& who, std::size_t count, bool rounded) {
    float* const data = who.data;
    const auto value = [](std::size_t i, std::uint32_t r) {
      return static_cast<float>((i * 2654435761u + r * 40503u) % 1000) / 8;
    };
    for (std::size_t i = 0; i < count; ++i)
      data[i] = value(i, at_.index());
    at_.barrier();
    who.run(data, count);
    double error = 0;
    std::uint64_t hash = 1469598103934665603ull;
    for (std::size_t i = 0; i < count; ++i) {
      double sum = 0;
      for (std::uint32_t r = 0; r < at_.size(); ++r)
        sum += value(i, r);
      error = std::max(error, std::abs(sum - data[i]));
      std::uint32_t bits = 0;
      std::memcpy(&bits, data + i, sizeof bits);
      hash = (hash ^ bits) * 1099511628211ull;
    }
    std::string note;
    for (const std::uint64_t other : at_.all(hash))
      if (other != hash)
        note = who.name + ": ranks differ; ";
    if (error > (rounded ? 4.0 : 1e-2))
      note += who.name + ": wrong by " + number(error) + "; ";
    return note;
  }

  void write(std::ostream& out, std::size_t bytes, const variant& v,
             const std::vector<double>& ours, const std::string& peer,
             const std::vector<double>& peers, const std::string& note) {
    const auto order = v.options.order;
    const std::string algorithm{task_.transport == "shm"
                                  ? (v.in_arena          ? "zero_copy"
                                     : bytes <= 16 * kib ? "publish"
                                                         : "staged")
                                  : to_string(tr::collective_table{}.pick(
                                    tr::collective_kind::all_reduce, order, at_.size(), bytes))};
    out << task_.transport << '\t' << at_.size() << '\t' << bytes << '\t' << v.wire << '\t'
        << v.order << '\t' << algorithm << '\t' << peer << '\t' << note << '\t';
    for (const double us : ours)
      out << us << ' ';
    out << '\t';
    for (const double us : peers)
      out << us << ' ';
    out << std::endl;
  }

  const rank_task& task_;
  rank& at_;
  std::unique_ptr<tr::production_ports> ports_;
  std::unique_ptr<tr::data_transport> transport_;
  tr::environment env_;
  std::unique_ptr<tr::collective_group> group_{};
  tr::tensor x_;
  tr::tensor arena_{};
#if defined(TROUPE_BENCH_GLOO)
  std::unique_ptr<gloo_peer> gloo_{};
#endif
#if defined(TROUPE_BENCH_MPI)
  std::unique_ptr<mpi_peer> mpi_{};
#endif
  std::unique_ptr<raw_sockets> sockets_{};
  std::vector<std::vector<float>> memory_{};
  std::vector<contender> peers_{};
  std::size_t sums_ = 0; ///< of the peers, those that sum
};

} // namespace bench
