#include <troupe/device/context.hpp>

#include <utility>

namespace troupe {

result<std::shared_ptr<device_context>> device_context::make(std::shared_ptr<device> on,
                                                             const std::string& name) {
  auto stream = on->make_stream(name);
  if (!stream)
    return stream.error();
  return std::shared_ptr<device_context>{new device_context{std::move(on), std::move(*stream)}};
}

device_context::device_context(std::shared_ptr<device> on, device_stream main)
  : on_{std::move(on)}, main_{std::move(main)}, ops_{on_, main_} {}

device_context::~device_context() {
  on_->retire(main_);
  for (const auto& [name, stream] : streams_)
    on_->retire(stream);
}

/// A device that failed takes its worker along, which then is the origin: others get the work. What
/// only says no (memory, arguments) is the step's own affair.
template <class T>
T device_context::own(result<T> got) {
  if (!got && on_->why_failed())
    got.error().where = self_;
  return std::move(got).value_or_throw();
}

void device_context::check(const result<void>& done) { own(result<void>{done}); }

const device_stream& device_context::stream(const std::string& name) {
  if (name == main_.name())
    return main_;
  auto at = streams_.find(name);
  if (at == streams_.end())
    at = streams_.emplace(name, own(on_->make_stream(name))).first;
  return at->second;
}

stream_event device_context::submit(const device_stream& stream, device_op op) {
  return own(on_->submit(stream, std::move(op)));
}

void device_context::enqueue(const device_stream& stream, const device_op& op) {
  own(on_->enqueue(stream, op));
}

void device_context::wait_event(const device_stream& stream, const stream_event& event) {
  own(on_->wait_event(stream, event));
}

stream_event device_context::record_event(const device_stream& stream) {
  return own(on_->record_event(stream));
}

void device_context::wait(const stream_event& event, duration timeout) {
  own(on_->wait(event, timeout));
}

device_tensor device_context::empty(dtype type, shape_t shape) {
  return own(device_tensor::make(on_, main_, type, std::move(shape)));
}

device_tensor device_context::put(const tensor& x) {
  return own(device_tensor::from_host(on_, main_, x));
}

host_copy device_context::start_get(const device_tensor& x, const device_stream& stream) {
  return own(x.start_to_host(stream));
}

void device_context::finish_get(host_copy& coming, tensor& out) { check(coming.finish(out)); }

tensor device_context::get(const device_tensor& x) { return own(x.to_host(main_)); }

} // namespace troupe
