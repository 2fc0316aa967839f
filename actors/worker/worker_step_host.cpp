#include <algorithm>
#include <new>
#include <string_view>

#include <troupe/actors/worker/detail/worker_step_host.hpp>
#include <troupe/core/thrown.hpp>

namespace troupe {

std::optional<failure> guarded(const environment& env, const std::function<void()>& body) {
  try {
    body();
    return {};
  } catch (const error& e) {
    return e.details();
  } catch (const std::bad_alloc&) {
    return current_failure();
  } catch (const std::exception& e) {
    trace(env, "worker.step_threw",
          {{"type", current_exception_name()}, {"what", std::string_view{e.what()}}});
    return current_failure();
  } catch (...) {
    if (ends_the_thread())
      throw;
    return current_failure();
  }
}

namespace {

/// What waits for a resource looks for its own cancellation that often, should it miss the call.
constexpr auto look_again = std::chrono::milliseconds{500};

/// Counts the time of a wait for others as such, however it ends.
template <class Step>
class wait_counted {
public:
  wait_counted(Step& step, const clock_port& clock) : step_{step}, clock_{clock} {
    step_.waits_since_ns = now_ns();
  }
  ~wait_counted() {
    step_.waited_ns += now_ns() - step_.waits_since_ns;
    step_.waits_since_ns = 0;
  }
  wait_counted(const wait_counted&) = delete;

private:
  std::int64_t now_ns() const { return clock_.now().time_since_epoch().count(); }
  Step& step_;
  const clock_port& clock_;
};

} // namespace

/// All steps take resources in the order of their ids: none waits for one that waits for it.
std::shared_ptr<void> worker_step_host::hold(std::vector<resource_id> ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  const auto release = [of = step_.of, me = &step_](std::vector<resource_id>* taken) {
    {
      std::lock_guard lock{of->mutex};
      for (auto id : *taken)
        if (auto at = of->held.find(id); at != of->held.end() && at->second == me)
          of->held.erase(at);
    }
    of->freed->notify_all();
    delete taken;
  };
  std::shared_ptr<std::vector<resource_id>> mine{new std::vector<resource_id>, release};
  const wait_counted counted{step_, env_.clock};
  for (auto id : ids) {
    std::unique_lock lock{session_.mutex};
    while (auto* holder = session_.holder_of(id)) {
      if (holder->abandoned)
        throw_failure(session_.failure_here(
          errc::input_failed, "resource " + std::to_string(value_of(id)) + " of " + to_string(task_)
                                + " is in use by closure " + std::to_string(holder->closure.seq)
                                + ", whose step hangs and was abandoned"));
      session_.freed->wait_until(lock, after(env_.clock.now(), look_again));
      lock.unlock();
      enter(); // waiting is no silence, and ends with the step
      lock.lock();
    }
    mine->push_back(id);
    session_.held[id] = &step_;
  }
  return mine;
}

} // namespace troupe
