#include <troupe/transport/detail/asio_poller.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <troupe/transport/detail/pollable.hpp>

namespace troupe::detail {

namespace {

// A second bound on the spin, should the clock stand still.
constexpr int spin_yields_max = 256;
// The longest single sleep: a deadline of `never` wakes that often, in vain and unnoticed.
constexpr duration sleep_max = std::chrono::hours{1};

timespec to_timespec(duration d) {
  const auto whole = std::chrono::duration_cast<std::chrono::seconds>(d);
  return {static_cast<time_t>(whole.count()), static_cast<long>((d - whole).count())};
}

class asio_poller final : public channel_poller {
public:
  asio_poller(clock_port& clock, duration spin) : clock_{clock}, spin_{spin} {
    wake_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake_fd_ < 0)
      throw_failure(errc::unavailable, std::string{"poller: cannot create the wake-up descriptor: "}
                                         + std::strerror(errno));
  }
  ~asio_poller() override { ::close(wake_fd_); }
  asio_poller(const asio_poller&) = delete;
  asio_poller& operator=(const asio_poller&) = delete;

  void watch(channel& c, bool want_send) override {
    watch(&c, dynamic_cast<const pollable*>(&c), want_send);
  }
  void watch(channel_listener& l) override { watch(&l, dynamic_cast<const pollable*>(&l), false); }
  void forget(channel& c) override { forget(static_cast<const void*>(&c)); }
  void forget(channel_listener& l) override { forget(static_cast<const void*>(&l)); }

  bool wait(time_point deadline) override {
    if (!collect() || poll_now())
      return true;
    const time_point spin_end = after(clock_.now(), spin_);
    for (int i = 0; i < spin_yields_max; ++i) {
      const time_point now = clock_.now();
      if (now >= deadline)
        return false;
      if (now >= spin_end)
        break;
      ::sched_yield();
      if (poll_now())
        return true;
    }
    const duration left = time_left(clock_, deadline);
    if (left <= duration::zero())
      return false;
    for (const entry& e : entries_)
      if (const auto open = e.what.lock(); open && open->ready_or_told(e.want_send))
        return true;
    const timespec at_most = to_timespec(left);
    const int ready = ::ppoll(set_.data(), set_.size(), &at_most, nullptr);
    return ready != 0 ? consume_wake() : clock_.now() < deadline;
  }

  void wake() override {
    const std::uint64_t one = 1;
    // The only possible failure is a full counter, which wakes as well.
    [[maybe_unused]] const auto written = ::write(wake_fd_, &one, sizeof one);
  }

private:
  struct entry {
    const void* key = nullptr;
    std::weak_ptr<descriptor> what{};
    bool want_send = false;
  };

  void watch(const void* key, const pollable* what, bool want_send) {
    TROUPE_ASSERT(what != nullptr, "poller: what it watches was made by the same transport");
    forget(key);
    for (auto& each : what->watched())
      entries_.push_back({key, std::move(each), want_send});
  }

  void forget(const void* key) {
    std::erase_if(entries_, [key](const entry& e) { return e.key == key; });
  }

  // False when something watched is closed already: an operation on it answers at once.
  bool collect() {
    std::erase_if(entries_, [](const entry& e) { return e.what.expired(); });
    set_.clear();
    set_.push_back({wake_fd_, POLLIN, 0});
    bool all_open = true;
    for (const entry& e : entries_) {
      const auto open = e.what.lock();
      all_open = all_open && open->fd >= 0;
      set_.push_back({open->fd, open->events(e.want_send), 0});
    }
    return all_open;
  }

  bool poll_now() {
    for (const entry& e : entries_)
      if (const auto open = e.what.lock(); open && open->is_ready(e.want_send))
        return true;
    return ::poll(set_.data(), set_.size(), 0) != 0 && consume_wake();
  }

  bool consume_wake() {
    if ((set_.front().revents & POLLIN) != 0) {
      std::uint64_t count = 0;
      [[maybe_unused]] const auto got = ::read(wake_fd_, &count, sizeof count);
    }
    return true;
  }

  clock_port& clock_;
  duration spin_;
  int wake_fd_ = -1;
  std::vector<entry> entries_{};
  std::vector<pollfd> set_{};
};

} // namespace

std::unique_ptr<channel_poller> make_asio_poller(clock_port& clock, duration spin) {
  return std::make_unique<asio_poller>(clock, spin);
}

duration time_left(const clock_port& clock, time_point deadline) {
  const time_point now = clock.now();
  return now >= deadline ? duration::zero() : std::min<duration>(deadline - now, sleep_max);
}

bool poll_one(int fd, short events, duration at_most) {
  pollfd one{fd, events, 0};
  const timespec t = to_timespec(at_most);
  return ::ppoll(&one, 1, &t, nullptr) != 0;
}

} // namespace troupe::detail
