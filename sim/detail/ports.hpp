#pragma once

#include <memory>
#include <string>
#include <vector>

#include <troupe/core/environment.hpp>
#include <troupe/device/fake_backend.hpp>
#include <troupe/sim/detail/process_instance.hpp>

/// Implementations of the ports of a simulated process.
namespace troupe::sim {

class sim_clock_port final : public clock_port {
public:
  explicit sim_clock_port(process_instance& l) : instance_{l} {}
  time_point now() const override { return instance_.local_now(); }
  std::int64_t unix_ms() const override;

private:
  process_instance& instance_;
};

class sim_random_port final : public random_port {
public:
  explicit sim_random_port(process_instance& l) : instance_{l} {}
  std::uint64_t draw(std::string_view purpose) override { return instance_.draw(purpose); }

private:
  process_instance& instance_;
};

/// A point where threads wait; a notification makes the longest waiting one ready.
class sim_point final : public wait_point {
public:
  explicit sim_point(process_instance& l) : instance_{l} {}
  bool wait_until(std::unique_lock<std::mutex>& lock, time_point deadline) override;
  /// `wait_until` without a lock: all threads of a simulation run on one OS thread.
  bool wait(time_point deadline);
  void notify_one() override;
  void notify_all() override;

private:
  process_instance& instance_;
  std::vector<thread_fiber*> waiting_{};
};

class sim_wait_port final : public wait_port {
public:
  explicit sim_wait_port(process_instance& l) : instance_{l} {}
  std::unique_ptr<wait_point> make_point() override {
    return std::make_unique<sim_point>(instance_);
  }

private:
  process_instance& instance_;
};

class sim_thread_port final : public thread_port {
public:
  explicit sim_thread_port(process_instance& l) : instance_{l} {}
  std::unique_ptr<thread_handle> start(std::string name, std::function<void()> body) override;
  [[noreturn]] void leave_now(int code) override { instance_.leave(code); }
  void yield() override;
  void spend(duration d) override;

private:
  process_instance& instance_;
};

class sim_tracer final : public tracer {
public:
  explicit sim_tracer(process_instance& l) : instance_{l} {}
  void event(std::string_view id, std::span<const trace_field> fields) override;
  void mark(std::string_view id) override;

private:
  process_instance& instance_;
};

/// The devices of a simulated machine: CPU devices, which are fibers, and GPUs that are made up and
/// run by virtual time. Made when a program first asks.
class sim_device_port final : public device_port {
public:
  explicit sim_device_port(process_instance& l) : instance_{l} {}
  std::vector<std::shared_ptr<device_backend>> backends() override;
  /// The made-up GPUs; null before the program asked for devices.
  fake_backend* gpus() const { return gpus_.get(); }

private:
  process_instance& instance_;
  std::shared_ptr<device_backend> cpus_{};
  std::shared_ptr<fake_backend> gpus_{};
};

std::unique_ptr<data_transport> make_sim_transport(process_instance& l);

struct process_instance::all_ports {
  explicit all_ports(process_instance& l);
  sim_clock_port clock;
  sim_random_port random;
  std::unique_ptr<storage_port> storage;
  sim_thread_port threads;
  sim_wait_port waits;
  std::unique_ptr<data_transport> transport;
  sim_tracer trace;
  sim_device_port devices;
};

} // namespace troupe::sim
