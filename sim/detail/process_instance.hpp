#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <troupe/core/environment.hpp>
#include <troupe/sim/caf017/actor_host.hpp>
#include <troupe/sim/detail/thread_fiber.hpp>
#include <troupe/sim/draws.hpp>
#include <troupe/sim/process.hpp>
#include <troupe/sim/report.hpp>
#include <troupe/sim/world.hpp>

namespace troupe::sim {

struct machine;
class sim_listener;

/// Thrown out of an actor's handler when its process leaves.
struct process_left {};

/// A process instance: its actor system, its threads, its ports.
class process_instance final : public process, public actor_host_owner {
public:
  process_instance(world::core& w, machine& home, process_id id, runtime_options options);
  ~process_instance() override;

  // -- for the world --

  struct ready_task {
    void* what = nullptr; ///< a job of the actor system, or a thread
    std::uint64_t since = 0;
    bool is_thread = false;
  };
  std::vector<ready_task> ready{};
  std::vector<std::uint64_t> routes{};   ///< by machine: the connection; 0: none
  std::vector<std::uint64_t> channels{}; ///< data connections that this process has an end of
  std::set<std::uint16_t> ports{};       ///< bound
  std::map<std::uint16_t, sim_listener*> listeners{};
  exit_record ending{};

  bool is_up() const { return up_; }
  const process_id& id() const { return id_; }
  machine& home() { return home_; }
  actor_host& actors() { return actors_; }
  world::core& owner() { return world_; }
  void start_main();
  /// Lets the task run; its number.
  std::uint64_t run(const ready_task& task);
  /// Freezes the process: nothing of it runs again, nothing leaves.
  void freeze(exit_record::how_t how);
  /// Releases everything that the process holds, with all ports cut.
  void tear_down();

  // -- for its ports --

  /// Waits on the running thread; false once `deadline` (local) passed, or where the thread is
  /// ending.
  bool block(thread_fiber& f, time_point deadline);
  /// Does nothing in a process that is up; in one that has ended its threads go no further.
  void end_here();
  void wake(thread_fiber& f, bool notified);
  /// The thread that runs. @pre a thread of this process runs.
  thread_fiber& running();
  bool on_thread() const { return running_ != nullptr; }
  thread_fiber& start_thread(std::string name, std::function<void()> body);
  void end_thread_now(thread_fiber& f) { f.stack.unwind(); }
  /// From a handler: runs a thread that only has to return. Complains when it waits instead.
  void finish_thread(thread_fiber& f);
  [[noreturn]] void leave(int code);
  bool is_ending() const { return tearing_; }
  std::uint64_t draw(std::string_view purpose);
  /// May let other threads run, as a thread may lose its processor anywhere. On a thread.
  void may_be_preempted();

  // -- process --
  node_name name() const override;
  std::uint32_t start() const override;
  const runtime_options& options() const override { return options_; }
  runtime_host host() override { return {actors_.system(), env_, actors_.network()}; }
  const environment& env() override { return env_; }
  fake_backend* gpus() const;
  void set_exit_code(int code) override { ending.code = code; }

  // -- actor_host_owner --
  time_point local_now() const noexcept override;
  void job_ready(void* job) override;
  void complain(const std::string& what) override;
  std::uint16_t bind(std::uint16_t wanted) override;
  void unbind(std::uint16_t port) override { ports.erase(port); }
  bool find_machine(const std::string& host, std::uint32_t& machine) override;
  std::uint64_t route_to(const process_id& peer) override;
  void send(packet&& p) override;

private:
  void main_body();
  void run_thread(thread_fiber& f);

  world::core& world_;
  machine& home_;
  const process_id id_;
  struct all_ports;
  std::unique_ptr<all_ports> ports_;
  environment env_;
  runtime_options options_;
  std::vector<std::unique_ptr<thread_fiber>> threads_{};
  thread_fiber* running_ = nullptr;
  std::uint64_t thread_numbers_ = 0;
  draw_stream draws_;
  draw_stream preemptions_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> purposes_{}; ///< hash, draws so far
  mutable std::int64_t runaway_s_ = 0;
  bool up_ = true;
  bool tearing_ = false;
  bool closed_ = false;
  actor_host actors_; ///< last: it calls back while it is made
};

} // namespace troupe::sim
