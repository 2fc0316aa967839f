#include <troupe/sim/detail/ports.hpp>

#include <algorithm>

#include <troupe/device/cpu_backend.hpp>
#include <troupe/sim/detail/core.hpp>

namespace troupe::sim {

process_instance::all_ports::all_ports(process_instance& l)
  : clock{l},
    random{l},
    storage{l.home().disk.open_port([&l] { return l.is_up(); },
                                    [&l](duration d) {
                                      if (l.on_thread()) // a handler must not wait
                                        sim_thread_port{l}.spend(d);
                                    })},
    threads{l},
    waits{l},
    transport{make_sim_transport(l)},
    trace{l},
    devices{l} {}

std::vector<std::shared_ptr<device_backend>> sim_device_port::backends() {
  if (!cpus_) {
    cpus_ = make_cpu_backend(instance_.env(), {.devices = 8});
    gpus_ = std::make_shared<fake_backend>(instance_.env(),
                                           fake_options{.devices = instance_.owner().options.gpus});
  }
  return {cpus_, gpus_};
}

std::int64_t sim_clock_port::unix_ms() const {
  constexpr std::int64_t epoch_ms = 1'700'000'000'000;
  return epoch_ms + to_ms(instance_.local_now().time_since_epoch())
         + instance_.home().clock.offset_ms;
}

// --- waits
// --------------------------------------------------------------------------------------------------------

bool sim_point::wait_until(std::unique_lock<std::mutex>& lock, time_point deadline) {
  lock.unlock();
  auto notified = wait(deadline); // when it throws, the lock's owner finds it unlocked
  lock.lock();
  return notified;
}

bool sim_point::wait(time_point deadline) {
  auto& f = instance_.running();
  waiting_.push_back(&f);
  struct gone {
    std::vector<thread_fiber*>& from;
    thread_fiber* who;
    ~gone() { std::erase(from, who); }
  } at_end{waiting_, &f};
  return instance_.block(f, deadline);
}

void sim_point::notify_one() {
  if (waiting_.empty())
    return;
  auto* f = waiting_.front();
  waiting_.erase(waiting_.begin());
  instance_.wake(*f, true);
}

void sim_point::notify_all() {
  auto all = std::exchange(waiting_, {});
  for (auto* f : all)
    instance_.wake(*f, true);
}

// --- threads
// --------------------------------------------------------------------------------------------------------

namespace {

class sim_thread final : public thread_handle {
public:
  sim_thread(process_instance& l, thread_fiber& f) : instance_{l}, fiber_{f} {}
  bool ended() const override { return fiber_.stack.ended(); }
  void join() override {
    while (!fiber_.stack.ended()) {
      if (instance_.is_ending())
        return instance_.end_thread_now(fiber_);
      // An actor joins what has sent its last message: it only has to return.
      if (!instance_.on_thread())
        return instance_.finish_thread(fiber_);
      fiber_.joiners.push_back(&instance_.running());
      instance_.block(instance_.running(), never);
    }
  }
  void abandon() override {}

private:
  process_instance& instance_;
  thread_fiber& fiber_;
};

constexpr duration yield_min = std::chrono::microseconds{20};
constexpr duration yield_max = std::chrono::milliseconds{1};

} // namespace

std::unique_ptr<thread_handle> sim_thread_port::start(std::string name,
                                                      std::function<void()> body) {
  return std::make_unique<sim_thread>(instance_,
                                      instance_.start_thread(std::move(name), std::move(body)));
}

/// Gives others their time, longer and longer while the thread does nothing else.
void sim_thread_port::yield() {
  auto& f = instance_.running();
  auto pause = std::max(f.next_yield, yield_min);
  instance_.block(f, after(instance_.local_now(), pause));
  f.next_yield = std::min(2 * pause, yield_max);
}

void sim_thread_port::spend(duration d) {
  if (d == duration{})
    d = instance_.owner().options.closure_cost;
  if (d > duration{})
    instance_.block(instance_.running(), after(instance_.local_now(), d * instance_.home().slow));
}

// --- tracing
// ------------------------------------------------------------------------------------------------------

void sim_tracer::event(std::string_view id, std::span<const trace_field> fields) {
  if (instance_.is_up())
    instance_.owner().trace(&instance_, instance_.name(), instance_.start(), id, fields);
}

void sim_tracer::mark(std::string_view id) {
  if (instance_.is_up())
    instance_.owner().mark(instance_, id);
}

} // namespace troupe::sim
