#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

/// Processes that measure the same thing at the same time: a page that they share, a barrier on it,
/// and the slowest one's time.
namespace bench {

inline constexpr std::uint32_t ranks_max = 8;

struct rank_page {
  std::atomic<std::uint32_t> arrived{0};
  std::atomic<std::uint32_t> generation{0};
  std::atomic<std::uint64_t> value[ranks_max]{};
  std::atomic<std::uint64_t> entered{0}; ///< times that anybody called a barrier under test
  char address[ranks_max][64]{};
};

/// One of them. Spins with a yield, so that more ranks than cores work as well.
class rank {
public:
  rank(const std::string& path, std::uint32_t index, std::uint32_t size)
    : index_{index}, size_{size} {
    const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    void* const at = ::mmap(nullptr, sizeof(rank_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd < 0 || at == MAP_FAILED)
      throw std::runtime_error("cannot map " + path);
    ::close(fd);
    page_ = static_cast<rank_page*>(at);
  }
  static void create(const std::string& path) {
    std::FILE* const file = std::fopen(path.c_str(), "w");
    const std::string zeros(sizeof(rank_page), '\0');
    if (file == nullptr || std::fwrite(zeros.data(), zeros.size(), 1, file) != 1)
      throw std::runtime_error("cannot write " + path);
    std::fclose(file);
  }

  std::uint32_t index() const { return index_; }
  std::uint32_t size() const { return size_; }
  rank_page& page() { return *page_; }

  void barrier() {
    const std::uint32_t before = page_->generation.load();
    if (page_->arrived.fetch_add(1) + 1 == size_) {
      page_->arrived.store(0);
      page_->generation.store(before + 1);
      return;
    }
    while (page_->generation.load() == before)
      ::sched_yield();
  }

  /// Everybody's numbers.
  std::vector<std::uint64_t> all(std::uint64_t mine) {
    page_->value[index_].store(mine);
    barrier();
    std::vector<std::uint64_t> out;
    for (std::uint32_t i = 0; i < size_; ++i)
      out.push_back(page_->value[i].load());
    barrier();
    return out;
  }

  /// Microseconds of one call, of the slowest rank. The buffer is written before each call, as a
  /// step would write its gradient; the time for that is taken off.
  /// @param call is given the number of the call: 0, 1, ...
  double sample_us(const std::function<void(std::uint32_t)>& call,
                   const std::function<void()>& touch, int times) {
    barrier();
    call(0);
    barrier();
    auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < times; ++i) {
      touch();
      call(static_cast<std::uint32_t>(i));
    }
    const double whole = since_us(begin);
    barrier();
    begin = std::chrono::steady_clock::now();
    for (int i = 0; i < times; ++i)
      touch();
    const double touching = since_us(begin);
    const double one = std::max(0.0, whole - touching) / times;
    const auto ns = all(static_cast<std::uint64_t>(one * 1000));
    return static_cast<double>(*std::max_element(ns.begin(), ns.end())) / 1000;
  }

  /// The calling thread stays on the core that its rank takes.
  void pin() const {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(index_ % static_cast<std::uint32_t>(::sysconf(_SC_NPROCESSORS_ONLN)), &cores);
    ::sched_setaffinity(0, sizeof cores, &cores);
  }

private:
  static double since_us(std::chrono::steady_clock::time_point t) {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - t).count();
  }

  std::uint32_t index_;
  std::uint32_t size_;
  rank_page* page_ = nullptr;
};

} // namespace bench
