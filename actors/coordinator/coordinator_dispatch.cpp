// Closures on their way out: which worker gets them, in what message, and which it is to give back.
#include <troupe/actors/coordinator/coordinator.hpp>

#include <troupe/messages/closures.hpp>
#include <troupe/messages/tick.hpp>

#include <algorithm>
#include <new>
#include <utility>

namespace troupe {

namespace {
/// Of the 64 KiB of a message, for orders; the rest is header and a margin.
constexpr std::size_t batch_bytes_max = message_bytes_max - 8 * 1024;
} // namespace

void coordinator_state::dispatch() {
  if (!queue() || ending_)
    return;
  ask_to_confirm();
  if (barrier_.holds_back())
    return;
  bool more = true;
  while (more) { // rounds of the least loaded first, so that a short queue is spread and a long one
                 // fills everybody
    more = false;
    for (auto index : core_.by_load()) {
      auto room = core_.room(index, last_function_, times_);
      if (room == 0)
        continue;
      auto queued = queue()->levels().queued;
      auto share =
        std::max<std::size_t>(1, std::min(room, queued / std::max<std::size_t>(core_.live(), 1)));
      if (!core_.worth_sending(index, share, room))
        continue;
      auto batch = queue()->take(index, share, core_.workers().at(index).flights.empty());
      if (batch.empty())
        continue;
      more |= batch.size() < room;
      last_function_ = batch.back()->function;
      send_to(index, std::move(batch));
    }
  }
  recall_low();
  maybe_recall();
}

void coordinator_state::send_to(std::uint32_t index, std::vector<closure_ptr> batch) {
  auto& link = links_.at(index);
  auto now = env_.clock.now();
  run_closures msg{.header = header_for(core_.workers().at(index).inc), .orders = {}};
  std::size_t bytes = 0;
  for (auto& c : batch) {
    closure_order order;
    try {
      order = order_of(*c, link.local);
    } catch (const std::bad_alloc&) {
      mark(env_, "coordinator.out_of_memory");
      queue()->mark_failed(c, make_failure(errc::out_of_memory,
                                           "the coordinator is out of memory for the arguments of "
                                           "closure "
                                             + std::to_string(c->id.seq)));
      shared_->board.publish();
      continue;
    }
    order.announce = // within one process nobody dies alone
      !link.local && announces(*c, times_.median_ns(c->function), queue()->failed_attempts_max(*c));
    core_.sent(index, {.what = c, .attempt = c->attempt, .sent = now, .announced = order.announce});
    bytes += order.arguments.size() + 64;
    if (bytes > batch_bytes_max && !msg.orders.empty()) {
      auto header = header_for(core_.workers().at(index).inc);
      tell(self_, link.handle, std::exchange(msg, run_closures{.header = header, .orders = {}}));
      bytes = order.arguments.size() + 64;
    }
    msg.orders.push_back(std::move(order));
  }
  if (!msg.orders.empty())
    tell(self_, link.handle, std::move(msg));
}

closure_order coordinator_state::order_of(const closure& c, bool local) {
  closure_order order{.id = c.id,
                      .attempt = c.attempt,
                      .function = c.function,
                      .wants_result = c.result.use_count() > 1,
                      .deadline_ms = static_cast<std::uint64_t>(to_ms(c.options.deadline))};
  payload bound;
  const payload* arguments = c.arguments.get();
  if (!c.inputs.empty()) { // remote values that have arrived stand behind the closure's own
                           // arguments, one by one
    bound = bind_inputs(c);
    arguments = &bound;
  }
  if (local) {
    order.handed.value =
      c.inputs.empty() ? c.arguments : std::make_shared<const payload>(std::move(bound));
    return order;
  }
  auto flat = flatten(*arguments);
  if (flat.size() <= inline_bytes_max) {
    order.arguments = std::move(flat);
    return order;
  }
  order.blob_bytes = flat.size();
  blob_key key{.closure = c.id, .attempt = {}, .role = blob_role::argument};
  if (auto ok = shared_->blobs->put(key, std::move(flat)); !ok)
    trace(env_, "coordinator.blob_refused",
          {{"closure", c.id.seq}, {"why", ok.error().text}}); // the worker will say so
  return order;
}

/// Makes way for a higher priority, and takes work away from threads that are stuck.
void coordinator_state::recall_low() {
  for (const auto& [index, w] : core_.workers())
    if (auto plan = core_.plan_recall_for(index, queue()->top_priority(index)))
      send_recall(*plan);
}

void coordinator_state::maybe_recall() {
  if (!queue() || core_.live() < 2 || core_.in_flight() == 0)
    return;
  if (queue()->levels().queued > 0)
    return;
  auto wait = std::chrono::milliseconds{options_.recall_ms};
  if (auto plan = core_.plan_recall(env_.clock.now(), wait)) {
    send_recall(*plan);
  }
  if (!recall_timer_set_) {
    recall_timer_set_ = true;
    tell_after(self_, self_handle<coordinator_actor>(self_),
               std::chrono::milliseconds{options_.recall_ms * 5}, tick{.what = recall_timer});
  }
}

void coordinator_state::send_recall(const dispatch_core::recall& plan) {
  core_.recall_sent(plan.worker, plan.count);
  mark(env_, "coordinator.recalled");
  tell(self_, links_.at(plan.worker).handle,
       recall_closures{.header = header_for(core_.workers().at(plan.worker).inc),
                       .count = plan.count});
}

} // namespace troupe
