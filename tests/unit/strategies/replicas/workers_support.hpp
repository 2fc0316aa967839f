#pragma once

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <troupe/transport/asio_transport.hpp>

#include "../../../support/addresses.hpp"
#include "support.hpp"

/// Workers of one program as threads of one process, each with a runtime of its own, over loopback.
namespace replicas_test {

inline runtime_options worker_options(const std::vector<std::string>& peers, std::uint32_t self,
                                      std::uint32_t devices = 1) {
  runtime_options out;
  out.peers = peers;
  out.peer = self;
  out.cpu_devices = devices;
  return out;
}

using worker_program = std::function<void(std::uint32_t worker, runtime& rt)>;

/// What each worker threw, or nothing.
inline std::vector<failure> outcomes_of(std::uint32_t workers, const worker_program& program,
                                        std::uint32_t devices = 1, const std::string& token = {}) {
  const auto peers = free_addresses(workers);
  std::vector<failure> out(workers);
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < workers; ++i)
    threads.emplace_back([&, i] {
      try {
        auto options = worker_options(peers, i, devices);
        options.token = token;
        runtime rt{std::move(options)};
        program(i, rt);
      } catch (const error& e) {
        out[i] = e.details();
      } catch (const std::exception& e) {
        out[i] = make_failure(errc::user_code, e.what());
      } catch (...) { // of the test framework
        out[i] = make_failure(errc::user_code, "a requirement of the test");
      }
    });
  for (auto& t : threads)
    t.join();
  return out;
}

/// Runs the program on all workers, which must all end well.
inline void on_workers(std::uint32_t workers, const worker_program& program,
                       std::uint32_t devices = 1, const std::string& token = {}) {
  for (const auto& why : outcomes_of(workers, program, devices, token))
    CHECK_MESSAGE(why.code == errc::none, to_string(why));
}

inline multi_worker_mirrored_strategy strategy_over(runtime& rt, std::uint32_t devices = 1,
                                                    duration timeout = 20s) {
  return multi_worker_mirrored_strategy{
    rt, {.devices = cpus(devices), .collective_timeout = timeout, .start_timeout = 20s}};
}

/// The sum of all ids.
inline tensor ids(const multi_worker_mirrored_strategy& s) {
  return s.reduce(reduce_op::sum, s.run([](replica_context& ctx) { return id_of(ctx); }));
}

} // namespace replicas_test
