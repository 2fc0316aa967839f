#include <troupe/sim/detail/ports.hpp>

#include <algorithm>

#include <troupe/device/cpu_table.hpp>
#include <troupe/sim/detail/core.hpp>

namespace troupe::sim {

life::all_ports::all_ports(life& l)
  : clock{l},
    random{l},
    storage{l.home().disk.open_port([&l] { return l.is_up(); },
                                    [&l](duration d) {
                                      if (l.on_lane()) // a handler must not wait
                                        sim_lane_port{l}.spend(d);
                                    })},
    lanes{l},
    waits{l},
    transport{make_sim_transport(l)},
    trace{l},
    devices{l} {}

std::vector<std::shared_ptr<device_table>> sim_device_port::tables() {
  if (!cpus_) {
    cpus_ = make_cpu_table(life_.env(), {.devices = 8});
    gpus_ = std::make_shared<fake_table>(life_.env(),
                                         fake_options{.devices = life_.owner().options.gpus});
  }
  return {cpus_, gpus_};
}

std::int64_t sim_clock_port::unix_ms() const {
  constexpr std::int64_t epoch_ms = 1'700'000'000'000;
  return epoch_ms + to_ms(life_.local_now().time_since_epoch()) + life_.home().clock.offset_ms;
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
  auto& f = life_.running();
  waiting_.push_back(&f);
  struct gone {
    std::vector<lane_fiber*>& from;
    lane_fiber* who;
    ~gone() { std::erase(from, who); }
  } at_end{waiting_, &f};
  return life_.block(f, deadline);
}

void sim_point::notify_one() {
  if (waiting_.empty())
    return;
  auto* f = waiting_.front();
  waiting_.erase(waiting_.begin());
  life_.wake(*f, true);
}

void sim_point::notify_all() {
  auto all = std::exchange(waiting_, {});
  for (auto* f : all)
    life_.wake(*f, true);
}

// --- lanes
// --------------------------------------------------------------------------------------------------------

namespace {

class sim_lane final : public lane {
public:
  sim_lane(life& l, lane_fiber& f) : life_{l}, fiber_{f} {}
  bool ended() const override { return fiber_.stack.ended(); }
  void join() override {
    while (!fiber_.stack.ended()) {
      if (life_.is_ending())
        return life_.end_lane_now(fiber_);
      if (!life_.on_lane()) // an actor joins what has sent its last message: it only has to return
        return life_.finish_lane(fiber_);
      fiber_.joiners.push_back(&life_.running());
      life_.block(life_.running(), never);
    }
  }
  void abandon() override {}

private:
  life& life_;
  lane_fiber& fiber_;
};

constexpr duration yield_min = std::chrono::microseconds{20};
constexpr duration yield_max = std::chrono::milliseconds{1};

} // namespace

std::unique_ptr<lane> sim_lane_port::start(std::string name, std::function<void()> body) {
  return std::make_unique<sim_lane>(life_, life_.start_lane(std::move(name), std::move(body)));
}

/// Gives others their time, longer and longer while the lane does nothing else.
void sim_lane_port::yield() {
  auto& f = life_.running();
  auto pause = std::max(f.next_yield, yield_min);
  life_.block(f, after(life_.local_now(), pause));
  f.next_yield = std::min(2 * pause, yield_max);
}

void sim_lane_port::spend(duration d) {
  if (d == duration{})
    d = life_.owner().options.closure_cost;
  if (d > duration{})
    life_.block(life_.running(), after(life_.local_now(), d * life_.home().slow));
}

// --- tracing
// ------------------------------------------------------------------------------------------------------

void sim_tracer::event(std::string_view id, std::span<const trace_field> fields) {
  if (life_.is_up())
    life_.owner().trace(&life_, life_.name(), life_.start(), id, fields);
}

void sim_tracer::mark(std::string_view id) {
  if (life_.is_up())
    life_.owner().mark(life_, id);
}

} // namespace troupe::sim
