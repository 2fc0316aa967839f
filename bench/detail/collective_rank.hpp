#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <ostream>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <troupe/troupe.hpp>

#include "detail/bench.hpp"
#include "detail/collective_cells.hpp"
#include "detail/collective_jobs.hpp"
#include "detail/collective_limits.hpp"
#include "detail/collective_peers.hpp"
#include "detail/ranks.hpp"

/// One of the processes that do collective operations, with everybody it is compared with.
namespace bench {

/// What a rank process is told.
struct rank_task {
  std::string page;
  std::string transport; // tcp, shm
  std::uint32_t n = 2;
  std::vector<tr::collective_kind> kinds{};
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
      env_{ports_->clock(),   ports_->random(), ports_->storage(),
           ports_->threads(), ports_->waits(),  *transport_},
      x_{tr::dtype::f32, {static_cast<std::int64_t>(bytes_max / sizeof(float))}},
      y_{tr::tensor::zeros(tr::dtype::f32, {static_cast<std::int64_t>(16 * mib / sizeof(float))})} {
    tr::group_options options;
    if (task.transport == "shm")
      options.locality = tr::this_locality();
    options.arena_bytes = bytes_max;
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
    for (const tr::collective_kind kind : task_.kinds)
      for (const std::size_t bytes : sizes_of(kind))
        measure(kind, bytes, out);
  }

private:
  bool is_tcp() const { return task_.transport == "tcp"; }

  void add_peers() {
#if defined(TROUPE_BENCH_GLOO)
    if (is_tcp())
      gloo_ = std::make_unique<gloo_peer>(at_, task_.page + ".gloo");
#endif
#if defined(TROUPE_BENCH_MPI)
    if (task_.mpi)
      mpi_ = std::make_unique<mpi_peer>();
#endif
    if (is_tcp() && at_.size() == 2)
      sockets_ = std::make_unique<raw_sockets>(at_);
    if (!is_tcp()) {
      memory_.assign(at_.size(), std::vector<float>(bytes_max / sizeof(float) / at_.size(), 1.0f));
      memory_out_.assign(16 * mib / sizeof(float), 1.0f);
    }
  }

  /// Those that do the operation, and behind them those that only move as many bytes.
  std::vector<contender> peers_for(tr::collective_kind kind) {
    std::vector<contender> out;
#if defined(TROUPE_BENCH_GLOO)
    const bool is_sum = kind == tr::collective_kind::all_reduce;
    if (gloo_)
      out.push_back({is_sum                                        ? "gloo_ring"
                     : kind == tr::collective_kind::reduce_scatter ? "gloo_hd"
                                                                   : "gloo",
                     [this](const job& j) { gloo_->run(j); }});
    if (gloo_ && is_sum)
      out.push_back({"gloo_hd", [this](const job& j) { gloo_->halving_doubling(j); }});
#endif
#if defined(TROUPE_BENCH_MPI)
    if (mpi_)
      out.push_back(
        {is_tcp() ? "openmpi_tcp" : "openmpi_shm", [this](const job& j) { mpi_->run(j); }});
#endif
    doers_ = out.size();
    if (sockets_)
      out.push_back({"limit_raw_tcp", [this](const job& j) { sockets_->run(j); }});
    if (!memory_.empty() && kind == tr::collective_kind::barrier)
      out.push_back({"limit_spin", [this](const job&) { at_.barrier(); }});
    else if (!memory_.empty())
      out.push_back({"limit_memory",
                     [this](const job& j) { memory_pass(j, memory_, memory_out_, 0, j.part()); }});
    return out;
  }

  std::vector<variant> variants(tr::collective_kind kind, std::size_t bytes) const {
    std::vector<variant> out(1);
    out[0].options.deadline = std::chrono::seconds{20};
    if (kind != tr::collective_kind::all_reduce)
      return out;
    if (task_.sweep && is_tcp()) {
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
    if (is_tcp() && bytes >= mib) {
      variant bf16;
      bf16.wire = "bf16";
      bf16.options.wire = tr::kernels::encoding::bf16;
      out.push_back(bf16);
    }
    if (is_tcp() && at_.size() > 2) {
      variant fixed;
      fixed.order = "fixed";
      fixed.options.order = tr::reduction_order::fixed;
      out.push_back(fixed);
    }
    if (!is_tcp() && bytes > 16 * kib) {
      variant zero_copy;
      zero_copy.in_arena = true;
      out.push_back(zero_copy);
    }
    for (variant& v : out)
      v.options.deadline = std::chrono::seconds{20};
    return out;
  }

  job job_for(tr::collective_kind kind, std::size_t count, const contender& who) const {
    return {kind, at_.size(), at_.index(), count, who.in, who.out};
  }

  /// The operation as one of our variants does it.
  contender ours(const job& like, const variant& v) {
    const auto len = [](std::size_t count) { return static_cast<std::int64_t>(count); };
    const bool in_place = like.in == like.out;
    tr::tensor in = (v.in_arena ? arena_ : x_).rows(0, len(like.in_count()));
    tr::tensor out = in_place ? in : y_.rows(0, len(std::max<std::size_t>(1, like.out_count())));
    // At the root there is more of it than elsewhere.
    if (like.kind == tr::collective_kind::gather)
      out = y_.rows(0, len(like.count));
    contender made{"troupe", {}, in.mutable_as<float>().data(), out.mutable_as<float>().data()};
    made.run = [this, v, in, out](const job& j) mutable { do_job(*group_, j, v.options, in, out); };
    return made;
  }

  /// Where everybody but our variants works, for an operation of `count` elements.
  job plain_job(tr::collective_kind kind, std::size_t count) {
    float* const x = x_.mutable_as<float>().data();
    job out{kind, at_.size(), at_.index(), count, x, x};
    if (out.collects() || kind == tr::collective_kind::reduce_scatter)
      out.out = y_.mutable_as<float>().data();
    return out;
  }

  void measure(tr::collective_kind kind, std::size_t bytes, std::ostream& out) {
    const job plain = plain_job(kind, std::max<std::size_t>(at_.size(), bytes / sizeof(float)));
    const std::vector<variant> own = variants(kind, bytes);
    std::vector<contender> all;
    for (const variant& v : own)
      all.push_back(ours(plain, v));
    for (contender& peer : alone_bytes() ? std::vector<contender>{} : peers_for(kind)) {
      peer.in = plain.in;
      peer.out = plain.out;
      // In place in its way.
      if (peer.name == "gloo_hd" && kind == tr::collective_kind::reduce_scatter)
        peer.out = plain.in;
      all.push_back(peer);
    }
    std::vector<std::string> notes(all.size());
    for (std::size_t i = 0; i < own.size() + doers_; ++i)
      notes[i] = check(all[i], job_for(kind, plain.count, all[i]),
                       i < own.size() && own[i].wire != "f32" ? 4.0 : 0.0);
    std::vector<std::vector<double>> samples(all.size());
    // A round that does not count first; a quick run has to do without.
    for (int round = task_.quick ? 0 : -1; round < task_.rounds; ++round)
      for (const std::size_t i : order_of(round, all.size())) {
        const double us = sample_us(all[i], job_for(kind, plain.count, all[i]), bytes);
        if (round >= 0)
          samples[i].push_back(us);
      }
    if (at_.index() != 0)
      return;
    for (std::size_t v = 0; v < own.size() && own.size() == all.size(); ++v)
      write(out, cell_of(plain, bytes, own[v], samples[v], "", {}, notes[v]));
    for (std::size_t v = 0; v < own.size(); ++v)
      for (std::size_t p = own.size(); p < all.size(); ++p)
        write(out, cell_of(plain, bytes, own[v], samples[v], all[p].name, samples[p],
                           notes[v] + notes[p]));
    for (std::size_t v = 1; v < own.size(); ++v)
      if (own[v].wire != "f32")
        write(out, cell_of(plain, bytes, own[v], samples[v], "troupe_f32", samples[0], notes[v]));
  }

  /// The root is another one in every call, so that nobody runs ahead of the others.
  double sample_us(const contender& who, const job& j, std::size_t bytes) {
    const auto touch = [&] {
      if (bytes > 0)
        std::fill(j.in, j.in + j.in_count(), 0.5f);
      asm volatile("" ::"r"(j.in) : "memory");
    };
    return at_.sample_us([&](std::uint32_t i) { who.run(j.with_root(i % at_.size())); }, touch,
                         times_for(j.kind, bytes, task_.quick));
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

  /// Right on every rank with every root, and the same bits where all get the same. What is wrong
  /// with this rank's result, or that another's is not right.
  std::string check(const contender& who, const job& j, double error_max) {
    if (j.kind == tr::collective_kind::barrier)
      return check_barrier(who, j);
    std::string note;
    for (std::uint32_t root = 0; root < (has_root(j.kind) ? at_.size() : 1); ++root) {
      const job now = j.with_root(root);
      fill(now);
      at_.barrier();
      who.run(now);
      note += check_result(who.name, now, error_max);
      const auto hashes = at_.all(hash_result(now));
      if (is_shared(j.kind) && std::count(hashes.begin(), hashes.end(), hashes[0]) != at_.size())
        note += who.name + ": members differ; ";
    }
    const auto wrong = at_.all(note.empty() ? 0 : 1);
    if (note.empty() && std::count(wrong.begin(), wrong.end(), 0) != at_.size())
      note = who.name + ": wrong on another member; ";
    return note;
  }

  /// Nobody may leave before all have entered, whoever comes last.
  std::string check_barrier(const contender& who, const job& j) {
    constexpr std::uint64_t times = 200;
    std::uint64_t early = 0;
    const std::uint64_t before = at_.all(at_.page().entered.load())[0];
    for (std::uint64_t i = 1; i <= times; ++i) {
      for (std::uint64_t late = 0; i % at_.size() == at_.index() && late < 50; ++late)
        ::sched_yield();
      ++at_.page().entered;
      who.run(j);
      early += at_.page().entered.load() < before + i * at_.size() ? 1 : 0;
    }
    std::uint64_t sum = 0;
    for (const std::uint64_t n : at_.all(early))
      sum += n;
    return sum == 0 ? "" : who.name + ": left " + std::to_string(sum) + " times too early; ";
  }

  std::string algorithm_of(const job& j, std::size_t bytes, const variant& v) const {
    if (!is_tcp())
      return v.in_arena ? "zero_copy" : bytes <= 16 * kib ? "publish" : "staged";
    return std::string{
      to_string(tr::collective_table{}.pick(j.kind, v.options.order, at_.size(), bytes))};
  }

  cell cell_of(const job& j, std::size_t bytes, const variant& v, const std::vector<double>& own,
               const std::string& peer, const std::vector<double>& peers,
               const std::string& note) const {
    return {std::string{to_string(j.kind)},
            task_.transport,
            at_.size(),
            bytes,
            v.wire,
            v.order,
            algorithm_of(j, bytes, v),
            peer,
            note,
            own,
            peers};
  }

  const rank_task& task_;
  rank& at_;
  std::unique_ptr<tr::production_ports> ports_;
  std::unique_ptr<tr::data_transport> transport_;
  tr::environment env_;
  std::unique_ptr<tr::collective_group> group_{};
  tr::tensor x_; ///< what this member gives
  tr::tensor y_; ///< what it gets where that is not in place
  tr::tensor arena_{};
#if defined(TROUPE_BENCH_GLOO)
  std::unique_ptr<gloo_peer> gloo_{};
#endif
#if defined(TROUPE_BENCH_MPI)
  std::unique_ptr<mpi_peer> mpi_{};
#endif
  std::unique_ptr<raw_sockets> sockets_{};
  std::vector<std::vector<float>> memory_{};
  std::vector<float> memory_out_{};
  std::size_t doers_ = 0; ///< of the peers, those that do the operation
};

} // namespace bench
