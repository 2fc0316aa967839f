#include <troupe/strategies/runtime/detail/runtime_process.hpp>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include <troupe/core/execution_context.hpp>
#include <troupe/core/exit_code.hpp>
#include <troupe/strategies/runtime/detail/make_role.hpp>
#include <troupe/strategies/runtime/detail/validate.hpp>

namespace troupe::detail {

namespace {

runtime_options checked(runtime_options options) {
  validate(options).value_or_throw();
  return options;
}

runtime_options checked_on_host(runtime_options options, tracer* trace) {
  options.trace = trace;
  validate_on_host(options).value_or_throw();
  return options;
}

} // namespace

runtime_process::runtime_process(runtime_options options, caf::actor_system* system)
  : options_{checked(std::move(options))},
    host_{options_, system},
    role_{make_role({options_, host_, ends_})} {
  start_or_end();
}

runtime_process::runtime_process(runtime_options options, const runtime_host& host)
  : options_{checked_on_host(std::move(options), host.env.trace)},
    host_{options_, host},
    role_{make_role({options_, host_, ends_})} {
  start_or_end();
}

void runtime_process::start_or_end() {
  // what was started must end, or the system would wait for it for ever
  const auto end = [this](const std::string& why) {
    shutdown(std::chrono::seconds{2},
             {.why = make_failure(errc::unavailable, "the coordinator failed to start: " + why)});
    let_go();
  };
  try {
    start();
  } catch (const std::exception& e) {
    end(e.what());
    throw;
  } catch (...) {
    end("an exception of the program");
    throw;
  }
}

void runtime_process::start() {
  devices_ = std::make_unique<process_devices>(host_, options_, role_->needs());
  services_ = std::make_shared<runtime_services>(env(), host_.system(), devices_->plane());
  if (host_.has_own_ports())
    services_->say = [](const std::string& line) {
      std::fprintf(stderr, "troupe: %s\n", line.c_str());
    };
  devices_->open_named();
  role_->start(*devices_, *services_);
}

runtime_process::~runtime_process() {
  destructor_waits here;
  cluster_end how{.meant = false};
  if (std::uncaught_exceptions() > exceptions_)
    how.why = make_failure(errc::unavailable, "an exception ended the coordinator's program");
  shutdown(std::chrono::seconds{10}, how);
  let_go();
}

/// Waits for the actors; what may still come back keeps the ports.
void runtime_process::let_go() {
  role_->release();
  left_behind_ |= !ends_.wait(after(env().clock.now(), std::chrono::seconds{2}), "shutdown");
  if (left_behind_)
    host_.keep_ports();
}

int runtime_process::serve() {
  const auto how = role_->serve();
  shutdown(std::chrono::seconds{5}, {});
  if (how)
    return static_cast<int>(exit_code::ended);
  const auto text = to_string(*options_.task) + ": " + to_string(how.error());
  trace(env(), "runtime.ended_early", {{"why", text}});
  if (host_.has_own_ports()) // else the host says what it wants to
    std::fprintf(stderr, "troupe: %s\n", text.c_str());
  return static_cast<int>(exit_code_of(how.error()));
}

void runtime_process::shutdown(duration timeout, const cluster_end& how) {
  if (std::exchange(ended_, true))
    return;
  const auto deadline = after(env().clock.now(), timeout);
  if (services_)
    left_behind_ |= !services_->close(deadline);
  left_behind_ |= !role_->end(deadline, how);
  if (devices_) // after the threads that use them
    left_behind_ |= !devices_->plane()->close(
      std::max(deadline, after(env().clock.now(), std::chrono::seconds{1})));
  role_->close();
}

} // namespace troupe::detail
