#include <troupe/strategies/runtime/runtime.hpp>

#include <utility>

#include <troupe/strategies/runtime/detail/coordinator_client.hpp>
#include <troupe/strategies/runtime/detail/runtime_process.hpp>

// The handle. What it does stands in runtime_process and in the roles of processes.
namespace troupe {

runtime::runtime() : runtime{runtime_options{}} {}
runtime::runtime(runtime_options options)
  : process_{std::make_unique<detail::runtime_process>(std::move(options), nullptr)} {}
runtime::runtime(runtime_options options, caf::actor_system& host)
  : process_{std::make_unique<detail::runtime_process>(std::move(options), &host)} {}
runtime::runtime(runtime_options options, const runtime_host& host)
  : process_{std::make_unique<detail::runtime_process>(std::move(options), host)} {}
runtime::runtime(runtime&&) noexcept = default;
runtime& runtime::operator=(runtime&&) noexcept = default;
runtime::~runtime() = default;

runtime runtime::from_args(int argc, char** argv) { return runtime{options_from_args(argc, argv)}; }
runtime runtime::synchronous_from_args(int argc, char** argv) {
  return runtime{synchronous_options_from_args(argc, argv)};
}

bool runtime::is_coordinator() const { return process_->role().runs_program(); }

int runtime::serve() { return process_->serve(); }

void runtime::shutdown(duration timeout) { process_->shutdown(timeout, {}); }

void runtime::fail(const failure& why, duration timeout) {
  constexpr std::size_t text_bytes_max = 4'000; // it goes into messages
  cluster_end how{.why = why};
  if (how.why.text.size() > text_bytes_max)
    how.why.text.resize(text_bytes_max);
  if (how.why.code == errc::none)
    how.why = make_failure(errc::unavailable, "the program failed");
  process_->shutdown(timeout, how);
}

void runtime::step_down(duration timeout) {
  process_->shutdown(timeout, {.members_stay = process_->role().members_can_stay()});
}

const std::string& runtime::address() const { return process_->role().address(); }

const runtime_options& runtime::options() const { return process_->options(); }

std::vector<device_info> runtime::devices() const { return process_->devices().list(); }

std::shared_ptr<device_context> runtime::device(const std::string& name) const {
  auto id = parse_device(name).value_or_throw();
  auto made = process_->devices().open(id).value_or_throw();
  return device_context::make(std::move(made), "program").value_or_throw();
}

const environment& runtime::env() const { return process_->env(); }

const std::shared_ptr<detail::runtime_services>& runtime::services() const {
  return process_->services();
}

std::shared_ptr<coordinator_client> runtime::owner() const { return process_->role().owner(); }

} // namespace troupe
