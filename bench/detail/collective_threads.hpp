#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include <troupe/troupe.hpp>

#include "detail/bench.hpp"
#include "detail/collective_peers.hpp"
#include "detail/collective_rank.hpp"

/// Members that are threads of one process.
namespace bench {

/// n members in one process, and the same pass over their vectors without anything around it.
class thread_run {
public:
  explicit thread_run(std::uint32_t n)
    : n_{n},
      ports_{tr::make_production_ports()},
      transport_{tr::make_asio_transport(ports_->clock())},
      env_{ports_->clock(), ports_->random(), ports_->storage(),
           ports_->lanes(), ports_->waits(),  *transport_},
      bound_(n, std::vector<float>(64 * mib / sizeof(float), 1.0f)) {
    tr::group_options options;
    options.locality = tr::this_locality();
    std::vector<tr::collective_member> members;
    for (std::uint32_t i = 0; i < n; ++i) {
      groups_.push_back(tr::collective_group::make(env_, i + 1, options).value_or_throw());
      members.push_back({i + 1, groups_.back()->address()});
      xs_.push_back(
        tr::tensor::zeros(tr::dtype::f32, {static_cast<std::int64_t>(64 * mib / sizeof(float))}));
    }
    each([&](std::uint32_t i) {
      groups_[i]->form(tr::group_epoch{1}, members, std::chrono::seconds{10}).value_or_throw();
    });
  }

  /// Microseconds a call; `bound`: the pass alone, each thread its share.
  double sample_us(std::size_t bytes, int times, bool bound) {
    std::vector<double> took(n_);
    const auto count = bytes / sizeof(float);
    each([&](std::uint32_t i) {
      pin(i);
      tr::tensor x = xs_[i].rows(0, static_cast<std::int64_t>(count));
      const std::size_t begin = count * i / n_;
      const std::size_t end = count * (i + 1) / n_;
      const auto call = [&] {
        if (bound)
          memory_pass(bound_, begin, end);
        else
          groups_[i]->all_reduce(x, tr::reduce_op::sum).value_or_throw();
      };
      groups_[i]->barrier().value_or_throw();
      call();
      groups_[i]->barrier().value_or_throw();
      const auto start = steady::now();
      for (int t = 0; t < times; ++t)
        call();
      took[i] = 1e6 * seconds_since(start) / times;
    });
    return *std::max_element(took.begin(), took.end());
  }

private:
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
  std::vector<std::unique_ptr<tr::collective_group>> groups_{};
  std::vector<tr::tensor> xs_{};
};

} // namespace bench
