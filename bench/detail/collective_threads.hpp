#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <troupe/troupe.hpp>

#include "detail/bench.hpp"
#include "detail/collective_cells.hpp"
#include "detail/collective_jobs.hpp"
#include "detail/collective_limits.hpp"

/// Members that are threads of one process.
namespace bench {

/// n members in one process, and the same pass over their vectors without anything around it.
class thread_run {
public:
  explicit thread_run(std::uint32_t n)
    : n_{n},
      ports_{tr::make_production_ports()},
      transport_{tr::make_asio_transport(ports_->clock())},
      env_{ports_->clock(),   ports_->random(), ports_->storage(),
           ports_->threads(), ports_->waits(),  *transport_},
      bound_(n, std::vector<float>(bytes_max / sizeof(float), 1.0f)),
      bound_out_(n, std::vector<float>(16 * mib / sizeof(float), 1.0f)) {
    tr::group_options options;
    options.locality = tr::this_locality();
    std::vector<tr::collective_member> members;
    for (std::uint32_t i = 0; i < n; ++i) {
      groups_.push_back(tr::collective_group::make(env_, i + 1, options).value_or_throw());
      members.push_back({i + 1, groups_.back()->address()});
      xs_.push_back(zeros(bytes_max));
      ys_.push_back(zeros(16 * mib));
    }
    each([&](std::uint32_t i) {
      groups_[i]->form(tr::group_epoch{1}, members, std::chrono::seconds{10}).value_or_throw();
    });
  }

  /// Microseconds a call of the slowest member; `bound`: the pass alone, each thread its share. Its
  /// vector is written before each call, and the time for that taken off. The root is another one
  /// in every call.
  double sample_us(tr::collective_kind kind, std::size_t bytes, int times, bool bound) {
    std::vector<double> took(n_);
    meeting meet{n_};
    each([&](std::uint32_t i) {
      pin(i);
      member m = member_of(i, kind, count_for(bytes));
      const auto call = [&](int t) {
        if (!bound)
          do_job(*groups_[i], m.what.with_root(static_cast<std::uint32_t>(t) % n_), {}, m.in,
                 m.out);
        else if (kind == tr::collective_kind::barrier)
          meet.wait();
        else
          memory_pass(m.what, bound_, bound_out_[i], m.what.count * i / n_,
                      m.what.count * (i + 1) / n_);
      };
      float* const written = bound ? bound_[i].data() : m.what.in;
      const auto touch = [&] {
        if (bytes > 0)
          std::fill(written, written + m.what.in_count(), 0.5f);
        asm volatile("" ::"r"(written) : "memory");
      };
      groups_[i]->barrier().value_or_throw();
      call(0);
      groups_[i]->barrier().value_or_throw();
      auto start = steady::now();
      for (int t = 0; t < times; ++t) {
        touch();
        call(t);
      }
      const double whole = seconds_since(start);
      groups_[i]->barrier().value_or_throw();
      start = steady::now();
      for (int t = 0; t < times; ++t)
        touch();
      took[i] = 1e6 * std::max(0.0, whole - seconds_since(start)) / times;
    });
    return *std::max_element(took.begin(), took.end());
  }

  /// Empty, or what is wrong with a member's result.
  std::string check(tr::collective_kind kind, std::size_t bytes) {
    std::vector<std::string> notes(n_);
    std::atomic<std::uint32_t> entered{0};
    const std::uint32_t turns = has_root(kind) || kind == tr::collective_kind::barrier ? n_ : 1;
    each([&](std::uint32_t i) {
      for (std::uint32_t turn = 0; turn < turns; ++turn) {
        member m = member_of(i, kind, count_for(bytes));
        const job now = m.what.with_root(turn);
        fill(now);
        ++entered;
        do_job(*groups_[i], now, {}, m.in, m.out);
        if (entered.load() < (turn + 1) * n_)
          notes[i] += "member " + std::to_string(i) + " left too early; ";
        if (kind != tr::collective_kind::barrier)
          notes[i] += check_result("troupe", now, 0);
        groups_[i]->barrier().value_or_throw();
      }
    });
    std::string out;
    for (const std::string& note : notes)
      out += note;
    return out;
  }

private:
  /// A barrier of bare atomics, with nothing else to it.
  class meeting {
  public:
    explicit meeting(std::uint32_t n) : n_{n} {}
    void wait() {
      const std::uint32_t before = generation_.load();
      if (arrived_.fetch_add(1) + 1 == n_) {
        arrived_.store(0);
        generation_.store(before + 1);
        return;
      }
      while (generation_.load() == before)
        ::sched_yield();
    }

  private:
    std::uint32_t n_;
    std::atomic<std::uint32_t> arrived_{0};
    std::atomic<std::uint32_t> generation_{0};
  };

  struct member {
    job what{};
    tr::tensor in{};
    tr::tensor out{};
  };

  static tr::tensor zeros(std::size_t bytes) {
    return tr::tensor::zeros(tr::dtype::f32, {static_cast<std::int64_t>(bytes / sizeof(float))});
  }
  std::size_t count_for(std::size_t bytes) const {
    return std::max<std::size_t>(n_, bytes / sizeof(float));
  }
  member member_of(std::uint32_t i, tr::collective_kind kind, std::size_t count) {
    member m;
    m.what = {kind, n_, i, count};
    const bool in_place = !m.what.collects() && kind != tr::collective_kind::reduce_scatter;
    m.in = xs_[i].rows(0, static_cast<std::int64_t>(m.what.in_count()));
    // At the root of a gather there is more of it than elsewhere.
    const std::size_t len = m.what.collects() ? count : m.what.part();
    m.out = in_place ? m.in : ys_[i].rows(0, static_cast<std::int64_t>(len));
    m.what.in = m.in.mutable_as<float>().data();
    m.what.out = m.out.mutable_as<float>().data();
    return m;
  }

  void pin(std::uint32_t i) const {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(i % static_cast<std::uint32_t>(::sysconf(_SC_NPROCESSORS_ONLN)), &cores);
    ::sched_setaffinity(0, sizeof cores, &cores);
  }
  void each(const std::function<void(std::uint32_t)>& f) {
    std::vector<std::thread> threads;
    for (std::uint32_t i = 0; i < n_; ++i)
      threads.emplace_back([&f, i] { f(i); });
    for (auto& t : threads)
      t.join();
  }

  std::uint32_t n_;
  std::unique_ptr<tr::production_ports> ports_;
  std::unique_ptr<tr::data_transport> transport_;
  tr::environment env_;
  std::vector<std::vector<float>> bound_;
  std::vector<std::vector<float>> bound_out_;
  std::vector<std::unique_ptr<tr::collective_group>> groups_{};
  std::vector<tr::tensor> xs_{};
  std::vector<tr::tensor> ys_{};
};

} // namespace bench
