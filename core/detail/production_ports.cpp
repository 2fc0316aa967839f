#include <troupe/core/production_ports.hpp>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <thread>
#include <vector>

#include <pthread.h>
#include <sched.h>
#include <sys/random.h>
#include <unistd.h>

#include <troupe/core/detail/production_storage.hpp>

namespace troupe {

namespace {

using std::chrono::steady_clock;

class machine_clock final : public clock_port {
public:
  time_point now() const override {
    return time_point{std::chrono::duration_cast<duration>(steady_clock::now().time_since_epoch())};
  }
  std::int64_t unix_ms() const override {
    const auto since = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::milliseconds>(since).count();
  }
};

class kernel_random final : public random_port {
public:
  std::uint64_t draw(std::string_view) override {
    std::uint64_t bits = 0;
    ssize_t n = -1;
    do { // 8 bytes come whole: short answers exist only above 256 bytes
      n = ::getrandom(&bits, sizeof bits, 0);
    } while (n < 0 && errno == EINTR);
    TROUPE_ASSERT(n == sizeof bits, "the kernel gives random bits");
    return bits;
  }
};

class condition_point final : public wait_point {
public:
  bool wait_until(std::unique_lock<std::mutex>& lock, time_point deadline) override {
    if (deadline == never) { // added to the system's clock it would overflow
      condition_.wait(lock);
      return true;
    }
    const steady_clock::time_point at{
      std::chrono::duration_cast<steady_clock::duration>(deadline.time_since_epoch())};
    return condition_.wait_until(lock, at) == std::cv_status::no_timeout;
  }
  void notify_one() override { condition_.notify_one(); }
  void notify_all() override { condition_.notify_all(); }

private:
  std::condition_variable condition_{};
};

class condition_waits final : public wait_port {
public:
  std::unique_ptr<wait_point> make_point() override { return std::make_unique<condition_point>(); }
};

class os_thread final : public thread_handle {
public:
  os_thread(std::string name, std::function<void()> body)
    : thread_{[ended = ended_, name = std::move(name), body = std::move(body)]() mutable {
        ::pthread_setname_np(::pthread_self(), name.substr(0, 15).c_str());
        body();
        body = nullptr; // what it captured is released before anybody sees the end
        ended->store(true, std::memory_order_release);
      }} {}
  ~os_thread() override {
    TROUPE_ASSERT(!thread_.joinable(), "a thread is joined or abandoned before its handle goes");
  }
  bool ended() const override { return ended_->load(std::memory_order_acquire); }
  void join() override { thread_.join(); }
  void abandon() override { thread_.detach(); }

private:
  std::shared_ptr<std::atomic<bool>> ended_ = std::make_shared<std::atomic<bool>>(false);
  std::thread thread_;
};

/// A hint: where the system refuses it, the thread runs wherever it runs.
void keep_this_thread_to(const std::vector<int>& cores) {
  cpu_set_t own;
  CPU_ZERO(&own);
  for (int core : cores)
    CPU_SET(core, &own);
  (void)::pthread_setaffinity_np(::pthread_self(), sizeof own, &own);
}

/// The cores that this thread may use, or none where the system doesn't say.
std::vector<int> cores_here() {
  cpu_set_t all;
  CPU_ZERO(&all);
  std::vector<int> out;
  if (::sched_getaffinity(0, sizeof all, &all) == 0)
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &all))
        out.push_back(core);
  return out;
}

class os_thread_port final : public thread_port {
public:
  std::unique_ptr<thread_handle> start(std::string name, std::function<void()> body) override {
    // A thread that keeps to a part of the cores would hand it on.
    if (cores_here().size() >= cores_.size())
      return std::make_unique<os_thread>(std::move(name), std::move(body));
    return std::make_unique<os_thread>(std::move(name), [cores = cores_, body = std::move(body)] {
      keep_this_thread_to(cores);
      body();
    });
  }
  [[noreturn]] void leave_now(int code) override { ::_exit(code); }
  void yield() override { ::sched_yield(); }
  void keep_to_part(std::uint32_t part, std::uint32_t parts) override {
    TROUPE_ASSERT(part < parts, "a part is one of all parts");
    const std::size_t n = cores_.size();
    if (parts < 2 || n < parts)
      return;
    const auto first = cores_.begin();
    keep_this_thread_to({first + static_cast<std::ptrdiff_t>(part * n / parts),
                         first + static_cast<std::ptrdiff_t>((part + 1) * n / parts)});
  }

private:
  const std::vector<int> cores_ = cores_here(); // before any thread keeps to a part
};

class machine_ports final : public production_ports {
public:
  clock_port& clock() override { return clock_; }
  random_port& random() override { return random_; }
  storage_port& storage() override { return *storage_; }
  thread_port& threads() override { return threads_; }
  wait_port& waits() override { return waits_; }

private:
  machine_clock clock_{};
  kernel_random random_{};
  std::unique_ptr<storage_port> storage_ = detail::make_posix_storage();
  os_thread_port threads_{};
  condition_waits waits_{};
};

} // namespace

std::unique_ptr<production_ports> make_production_ports() {
  return std::make_unique<machine_ports>();
}

} // namespace troupe
