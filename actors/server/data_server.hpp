#pragma once

#include <memory>
#include <string>

#include <troupe/actors/server/server_event_loop.hpp>
#include <troupe/core/environment.hpp>
#include <troupe/core/result.hpp>

namespace troupe {

/// The data plane of a process: a `server_event_loop` that listens, and the thread that it serves
/// on. Of a parameter server for its shards, of the coordinator for its blobs. Made and ended by
/// the process's own thread; `set_incarnation` and `fence` are for any thread.
class data_server {
public:
  /// Listens, then starts the thread, whose name is `thread_name`. Errors: those of
  /// `server_event_loop::open`; nothing is left behind then.
  static result<std::unique_ptr<data_server>> start(const environment& env,
                                                    server_event_loop_options options,
                                                    const std::string& thread_name);
  /// As `stop`.
  ~data_server();
  data_server(const data_server&) = delete;
  data_server& operator=(const data_server&) = delete;

  /// "host:port" that peers dial, with the port that the system chose.
  const std::string& address() const { return address_; }
  /// See server_event_loop.
  void set_incarnation(const incarnation& self) { server_->set_incarnation(self); }
  void fence(const task_id& task, std::uint32_t counter) { server_->fence(task, counter); }
  /// Closes all channels and waits for the thread. Idempotent.
  void stop();

private:
  data_server(std::shared_ptr<server_event_loop> server, std::string address);

  std::shared_ptr<server_event_loop> server_;
  std::unique_ptr<thread_handle> thread_{};
  std::string address_;
};

} // namespace troupe
