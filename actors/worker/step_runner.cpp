#include <troupe/actors/worker/detail/step_runner.hpp>

#include <functional>
#include <new>
#include <utility>

#include <troupe/core/planted.hpp>

namespace troupe {

namespace {

failure not_registered_here(function_index number) {
  auto& table = function_table::global();
  return make_failure(errc::not_registered, "function number " + std::to_string(value_of(number))
                                              + " is not registered in this process, which has "
                                              + std::to_string(table.size())
                                              + ": the builds differ");
}

/// Makes `end` that of a closure that failed with `why`, which says whose fault it is.
void set_failed(attempt_ended& end, const running_step& step, failure why) {
  // without an origin: thrown by the user's own code, which is never a reason to give up a worker
  if (why.where.task.job == job_kind::chief) {
    bool ours = why.code == errc::cancelled && step.interrupted();
    if (!ours && (why.retry != retry_class::no || why.code == errc::fenced))
      why = make_failure(errc::user_code, to_string(why));
    why.where = step.of->self;
  }
  if (why.code != errc::cancelled)
    why.text = step.words() + ": " + why.text;
  end.outcome = attempt_outcome::failed;
  end.why = std::move(why);
}

} // namespace

attempt_ended step_runner::not_begun(const worker_job& what) {
  return {.id = what.order.id,
          .attempt = what.order.attempt,
          .outcome = attempt_outcome::failed,
          .why = what.of->failure_here(errc::cancelled, "cancelled before it started")};
}

attempt_ended step_runner::run(const worker_job& what, parameter_client& client,
                               running_step& step) {
  try {
    return run_with_memory(what, client, step);
  } catch (const std::bad_alloc&) {
    mark(env_, "worker.out_of_memory");
    client.abandon();
    attempt_ended end{.id = what.order.id, .attempt = what.order.attempt};
    end.outcome = attempt_outcome::failed;
    end.acknowledged = false;
    end.why = what.of->failure_here(errc::out_of_memory,
                                    "out of memory for the arguments or the result of closure "
                                      + std::to_string(what.order.id.seq));
    return end;
  }
}

attempt_ended step_runner::run_with_memory(const worker_job& what, parameter_client& client,
                                           running_step& step) {
  const auto& order = what.order;
  attempt_ended end{.id = order.id, .attempt = order.attempt};
  trace(env_, "worker.closure_started",
        {{"term", order.id.term},
         {"closure", order.id.seq},
         {"attempt", order.attempt},
         {"worker", task_.index},
         {"incarnation", what.of->self.inc.counter}});
  client.begin(order.id, order.attempt, what.of->self);
  payload value;
  auto why = call(what, client, step, value);
  auto ok = planted(planted_bug::push_not_awaited) ? result<void>{} : client.finish();
  if (!ok) {
    client.abandon(); // late answers are nobody's, least of all the next closure's
    end.acknowledged = false;
    if (!why)
      why = what.of->from_here(ok.error());
  }
  end.run_ns = static_cast<std::uint64_t>((env_.clock.now() - step.started).count());
  if (!why && step.told) // it ended early because it was asked to: what it gave is no result
    why = what.of->failure_here(errc::cancelled,
                                "closure " + std::to_string(order.id.seq) + " was cancelled");
  if (why)
    set_failed(end, step, std::move(*why));
  else if (auto made = hand_over(what, std::move(value), end); !made)
    set_failed(end, step, what.of->from_here(made.error())); // a result that got lost is the way's
                                                             // fault: the closure runs again
  return end;
}

/// Calls the closure's function; what it threw, or why it could not be called.
std::optional<failure> step_runner::call(const worker_job& what, parameter_client& client,
                                         running_step& step, payload& value) {
  auto* entry = function_table::global().at(what.order.function);
  auto arguments = arguments_of(what);
  if (!arguments)
    return what.of->from_here(arguments.error());
  if (!entry || !entry->invoke)
    return what.of->from_here(not_registered_here(what.order.function));
  auto body = [&] {
    worker_step_host host{env_, task_, client, step, device_of_};
    value = host.run([&] { return entry->invoke(host, *arguments); });
  };
  return guarded(env_,
                 std::ref(body)); // by reference: a std::function of the lambda would allocate
}

result<payload> step_runner::arguments_of(const worker_job& what) {
  const auto& order = what.order;
  if (order.handed.value)
    return *order.handed.value; // copies handles of tensors, not their elements
  if (order.blob_bytes == 0)
    return unflatten(order.arguments);
  if (!what.of->routes.get_blob)
    return what.of->failure_here(errc::unavailable, "no channel to the coordinator's blobs");
  auto bytes = what.of->routes.get_blob(
    {.closure = order.id, .attempt = {}, .role = blob_role::argument}, order.blob_bytes);
  return bytes ? unflatten(*bytes) : result<payload>{bytes.error()};
}

/// Puts the result into `end`, or into a blob, where it is too large for a message.
result<void> step_runner::hand_over(const worker_job& what, payload value, attempt_ended& end) {
  if (!what.order.wants_result)
    return {};
  if (!what.of->routes.put_blob) {
    end.handed.value = std::make_shared<payload>(std::move(value));
    return {};
  }
  auto flat = flatten(value);
  if (flat.size() <= inline_bytes_max) {
    end.result = std::move(flat);
    return {};
  }
  end.blob_bytes = flat.size();
  return what.of->routes.put_blob(
    {.closure = end.id, .attempt = end.attempt, .role = blob_role::result}, std::move(flat));
}

worker_session::built step_runner::build(const worker_job& what, parameter_client& client,
                                         running_step& step) {
  auto* entry = function_table::global().at(what.make.function);
  resource made;
  std::optional<failure> why;
  auto arguments =
    what.make.arguments.empty() ? result<payload>{payload{}} : unflatten(what.make.arguments);
  if (!arguments)
    why = arguments.error();
  else if (!entry || !entry->make)
    why = what.of->from_here(not_registered_here(what.make.function));
  else
    why = guarded(env_, [&] {
      worker_step_host host{env_, task_, client, step, device_of_};
      host.run([&] {
        made = entry->make(host, *arguments);
        return payload{};
      });
    });
  if (why && why->where.inc.counter == 0)
    why->where = what.of->self;
  if (why)
    why->text = step.words() + ": " + why->text;
  return {.made = std::move(made), .why = why.value_or(failure{})};
}

} // namespace troupe
