#include <troupe/strategies/runtime/detail/chief_role.hpp>

#include <utility>

#include <troupe/strategies/runtime/detail/address_rules.hpp>

namespace troupe::detail {

chief_role::chief_role(const process_context& context)
  : context_{context}, dialer_{context.host.env(), context.options}, seat_{context} {}

step_needs chief_role::needs() const {
  return {.threads = context_.options.threads_per_worker, .runs_steps_here = false};
}

namespace {

/// How long a worker that was given up may still speak, in vain but heard.
constexpr duration last_words_max = std::chrono::seconds{30};

} // namespace

membership_actor_options chief_role::published_membership() {
  const auto& options = context_.options;
  auto out = seat_.membership_settings();
  const auto at =
    parse_host_port(options.coordinator_address, options.names.coordinator).value_or_throw();
  out.network = context_.host.network();
  out.listen_host = at.host;
  out.listen_port = at.port;
  out.published = std::make_shared<promise_slot<std::uint16_t>>(context_.host.env());
  // links come where the data plane listens, at another port
  control_ = std::make_shared<control_plane>(
    context_.host.env(), context_.host.system(),
    control_event_loop_options{.address = with_free_port(options.data_listen_address),
                               .cluster = options.cluster_name,
                               .token = options.token});
  out.link_address = control_->open().value_or_throw();
  return out;
}

coordinator_seat::ways chief_role::ways_to_servers() {
  return {.connect =
            [this](std::uint32_t server, term_no term) {
              return dialer_.connect(seat_.server_member(server), server, program_origin(), term);
            },
          .open_snapshot_reader =
            [this](std::uint32_t server, term_no term) {
              return dialer_.open_snapshot_reader(seat_.server_member(server), server, term);
            },
          .others_join = true};
}

void chief_role::start(process_devices&, runtime_services&) {
  const auto& options = context_.options;
  address_ = seat_.start_membership(published_membership());
  auto settings = seat_.coordinator_settings();
  data_ = data_server::start(context_.host.env(),
                             {.address = options.data_listen_address,
                              .cluster = options.cluster_name,
                              .token = options.token,
                              .blobs = seat_.shared().blobs},
                             "data.0")
            .value_or_throw();
  settings.data_address = data_->address();
  settings.end_link = [control = control_](const task_id& task, const incarnation& inc) {
    control->end({task, inc}, last_words_max);
  };
  control_->start(job_kind::chief, seat_.start_coordinator(std::move(settings), ways_to_servers()));
  if (options.on_listening)
    options.on_listening(address_);
  seat_.wait_started();
}

bool chief_role::end(time_point deadline, const cluster_end& how) {
  seat_.end(deadline, how);
  return true; // it has no threads of steps
}

void chief_role::close() {
  if (control_)
    control_->stop();
  if (data_)
    data_->stop();
}

} // namespace troupe::detail
