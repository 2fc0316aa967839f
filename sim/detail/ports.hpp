#pragma once

#include <memory>
#include <string>
#include <vector>

#include <troupe/core/environment.hpp>
#include <troupe/device/fake_table.hpp>
#include <troupe/sim/detail/life.hpp>

/// Implementations of the ports of a simulated process.
namespace troupe::sim {

class sim_clock_port final : public clock_port {
public:
  explicit sim_clock_port(life& l) : life_{l} {}
  time_point now() const override { return life_.local_now(); }
  std::int64_t unix_ms() const override;

private:
  life& life_;
};

class sim_random_port final : public random_port {
public:
  explicit sim_random_port(life& l) : life_{l} {}
  std::uint64_t draw(std::string_view purpose) override { return life_.draw(purpose); }

private:
  life& life_;
};

/// A point where lanes wait; a notification makes the longest waiting one ready.
class sim_point final : public wait_point {
public:
  explicit sim_point(life& l) : life_{l} {}
  bool wait_until(std::unique_lock<std::mutex>& lock, time_point deadline) override;
  /// `wait_until` without a lock: all lanes run on one thread.
  bool wait(time_point deadline);
  void notify_one() override;
  void notify_all() override;

private:
  life& life_;
  std::vector<lane_fiber*> waiting_{};
};

class sim_wait_port final : public wait_port {
public:
  explicit sim_wait_port(life& l) : life_{l} {}
  std::unique_ptr<wait_point> make_point() override { return std::make_unique<sim_point>(life_); }

private:
  life& life_;
};

class sim_lane_port final : public lane_port {
public:
  explicit sim_lane_port(life& l) : life_{l} {}
  std::unique_ptr<lane> start(std::string name, std::function<void()> body) override;
  [[noreturn]] void leave_now(int code) override { life_.leave(code); }
  void yield() override;
  void spend(duration d) override;

private:
  life& life_;
};

class sim_tracer final : public tracer {
public:
  explicit sim_tracer(life& l) : life_{l} {}
  void event(std::string_view id, std::span<const trace_field> fields) override;
  void mark(std::string_view id) override;

private:
  life& life_;
};

/// The devices of a simulated machine: CPU lanes, which are fibers, and GPUs that are made up and
/// run by virtual time. Made when a program first asks.
class sim_device_port final : public device_port {
public:
  explicit sim_device_port(life& l) : life_{l} {}
  std::vector<std::shared_ptr<device_table>> tables() override;
  /// The made-up GPUs; null before the program asked for devices.
  fake_table* gpus() const { return gpus_.get(); }

private:
  life& life_;
  std::shared_ptr<device_table> cpus_{};
  std::shared_ptr<fake_table> gpus_{};
};

std::unique_ptr<data_transport> make_sim_transport(life& l);

struct life::all_ports {
  explicit all_ports(life& l);
  sim_clock_port clock;
  sim_random_port random;
  std::unique_ptr<storage_port> storage;
  sim_lane_port lanes;
  sim_wait_port waits;
  std::unique_ptr<data_transport> transport;
  sim_tracer trace;
  sim_device_port devices;
};

} // namespace troupe::sim
