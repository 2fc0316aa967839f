#include <troupe/strategies/variables/strategy_extended.hpp>

#include <algorithm>

#include <troupe/strategies/replicas/detail/context_stack.hpp>
#include <troupe/strategies/topology/logical_devices.hpp>
#include <troupe/strategies/variables/detail/variable_core.hpp>

namespace troupe {

using detail::context_frame;
using detail::context_kind;
using detail::frame_here;
using detail::replica_engine;

strategy_extended strategy::extended() const { return strategy_extended{state_}; }

reduction_input::reduction_input(const placed_tensor& x) : value_{x.value()} {
  if (x.is_mirrored())
    value_ = x.mirrored();
}

std::optional<std::uint32_t> get_update_replica_id() {
  auto* mode = detail::innermost_mode();
  if (!mode || mode->kind != context_kind::update)
    return std::nullopt;
  return mode->update_index;
}

// --- placement

namespace {

/// Throws `invalid_argument` for a variable of another strategy.
void require_own(const replica_engine& state, const char* what, const distributed_variable& v) {
  if (v.core()->of().get() != &state)
    throw_failure(errc::invalid_argument, std::string{what} + ": variable '" + v.name()
                                            + "' must come from the scope of " + state.text()
                                            + ", it belongs to " + v.core()->of()->text());
}

context_frame placing(std::uint32_t logical) {
  return {.kind = context_kind::device, .logical = logical};
}

context_frame colocated(const replica_engine& in, const distributed_variable& with) {
  in.require_scope("colocate_vars_with");
  require_own(in, "colocate_vars_with", with);
  return placing(with.core()->logical_device());
}

context_frame on_logical(const replica_engine& in, std::uint32_t index) {
  check_logical_device(index, in.logical_count()).value_or_throw();
  return placing(index);
}

/// Every name that a replica's device or a variable's copy has.
bool is_own_device(const replica_engine& state, const std::string& name) {
  const auto& o = state.options();
  if (std::count(o.devices.begin(), o.devices.end(), name) > 0 || o.parameter_device == name)
    return true;
  for (const auto& each : o.logical_devices)
    if (std::count(each.begin(), each.end(), name) > 0)
      return true;
  return false;
}

/// A device of this process by its text, "cpu:0".
std::string local_device(const replica_engine& state, const std::string& text) {
  const auto at = resolve_device(text);
  const auto name = short_name(at);
  if (*at.job != "localhost" && *at.task != state.options().worker)
    throw_failure(errc::device_unavailable,
                  "device '" + text + "' belongs to another process, " + to_string(at));
  if (state.is_standard() || is_own_device(state, name))
    return name;
  std::string there;
  for (const auto& each : state.services()->devices->list()) {
    if (to_string(each.id) == name)
      return name;
    there += (there.empty() ? "" : ", ") + to_string(each.id);
  }
  throw_failure(errc::device_unavailable,
                "device '" + text + "' is not a device of this process, which has " + there);
}

std::vector<std::string> devices_at(const replica_engine& state, const char* what,
                                    const destinations& to) {
  if (auto* text = std::get_if<std::string>(&to.where()))
    return {local_device(state, *text)};
  if (auto* names = std::get_if<std::vector<std::string>>(&to.where()))
    return *names;
  const auto count = std::get<std::size_t>(to.where());
  if (count != state.local_count())
    throw_failure(errc::invalid_argument, std::string{what} + ": the destination has "
                                            + std::to_string(count) + " components, " + state.text()
                                            + " has " + std::to_string(state.local_count())
                                            + " replicas here");
  return state.options().devices;
}

} // namespace

colocate_scope::colocate_scope(const replica_engine& in, const distributed_variable& with)
  : context_scope{colocated(in, with)} {}

logical_device_scope::logical_device_scope(const replica_engine& in, std::uint32_t index)
  : context_scope{on_logical(in, index)} {}

// --- reductions

placed_tensor strategy_extended::reduce_to(const reduction& op, const reduction_input& value,
                                           const destinations& to) const {
  state_->require_cross_replica("reduce_to");
  auto devices = devices_at(*state_, "reduce_to", to);
  const strategy s{state_};
  return {std::visit([&](const auto& x) { return s.reduce(op, x); }, value.value()),
          std::move(devices)};
}

std::vector<placed_tensor> strategy_extended::batch_reduce_to(
  const reduction& op, const std::vector<std::pair<reduction_input, destinations>>& pairs) const {
  state_->require_cross_replica("batch_reduce_to");
  for (const auto& each : pairs)
    (void)devices_at(*state_, "batch_reduce_to", each.second);
  std::vector<placed_tensor> out;
  for (const auto& each : pairs)
    out.push_back(reduce_to(op, each.first, each.second));
  return out;
}

placed_tensor strategy_extended::broadcast_to(const tensor& x, const destinations& to) const {
  state_->require_cross_replica("broadcast_to");
  if (state_->is_standard())
    throw_failure(errc::invalid_argument, "broadcast_to: the default strategy has no devices");
  return {x, devices_at(*state_, "broadcast_to", to)};
}

// --- updates

namespace detail {

namespace {

void update_at(const std::shared_ptr<replica_engine>& in, std::size_t i, const std::string& device,
               const std::function<void(std::size_t)>& body) {
  frame_here frame{{.kind = context_kind::update,
                    .strategy = in,
                    .update_index = static_cast<std::uint32_t>(i),
                    .text = device}};
  body(i);
}

} // namespace

void update_each(const std::shared_ptr<replica_engine>& in, const distributed_variable& v,
                 bool unmirrored, const std::function<void(std::size_t)>& body) {
  in->require_cross_replica("update");
  require_own(*in, "update", v);
  if (unmirrored && in->policy().updates_with_mirrored_values_only && in->count() > 1
      && v.aggregation() != variable_aggregation::none
      && v.synchronization() != variable_synchronization::on_read)
    throw_failure(errc::invalid_argument, "update: variable '" + v.name() + "' has aggregation "
                                            + std::string{to_string(v.aggregation())}
                                            + ": values must be mirrored, got a per-replica value");
  for (std::size_t i = 0; i < v.components(); ++i)
    update_at(in, i, v.devices()[i], body);
}

void update_each_device(const std::shared_ptr<replica_engine>& in,
                        const std::vector<std::string>& devices,
                        const std::function<void(std::size_t)>& body) {
  in->require_cross_replica("update_non_slot");
  for (std::size_t i = 0; i < devices.size(); ++i)
    update_at(in, i, devices[i], body);
}

} // namespace detail

std::vector<std::string> strategy_extended::non_slot_devices(
  const distributed_variables& of) const {
  for (const auto& each : of)
    require_own(*state_, "non_slot_devices", each);
  if (state_->is_standard())
    return {short_name(resolve_device(""))};
  return parameter_devices();
}

// --- facts

namespace {

const replica_engine& with_devices(const replica_engine& state, const char* what) {
  if (state.is_standard())
    throw_failure(errc::wrong_state, std::string{what} + ": not supported by the default strategy");
  return state;
}

} // namespace

std::vector<std::string> strategy_extended::worker_devices() const {
  return with_devices(*state_, "worker_devices").options().devices;
}

std::vector<std::string> strategy_extended::parameter_devices() const {
  const auto& o = with_devices(*state_, "parameter_devices").options();
  if (!o.server_devices.empty())
    return o.server_devices;
  return o.parameter_device.empty() ? o.devices : std::vector<std::string>{o.parameter_device};
}

bool strategy_extended::variable_created_in_scope(const distributed_variable& v) const {
  return v.core()->of() == state_;
}

tensor strategy_extended::read_var(const distributed_variable& v) const {
  state_->require_cross_replica("read_var");
  require_own(*state_, "read_var", v);
  detail::cross_replica_here here{state_};
  return v.read();
}

bool strategy_extended::experimental_require_static_shapes() const {
  return state_->policy().requires_equal_shapes;
}

bool strategy_extended::experimental_between_graph() const {
  return state_->policy().is_between_graph;
}

bool strategy_extended::should_checkpoint() const { return state_->options().worker == 0; }
std::uint32_t strategy_extended::num_hosts() const { return state_->options().workers; }
std::uint32_t strategy_extended::num_replicas_per_host() const { return state_->local_count(); }

} // namespace troupe
