#pragma once

#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include <troupe/actors/membership/membership_core.hpp>

/// What the membership tests share: a judge with a clock of the test's own.
namespace troupe::test {

constexpr duration ms(std::int64_t n) { return std::chrono::milliseconds{n}; }
constexpr task_id worker(std::uint32_t i) { return {job_kind::worker, i}; }

/// Throws, which fails the test, when there is none.
template <class Action>
const Action* first_of(const membership_actions& to) {
  for (const auto& one : to)
    if (const auto* found = std::get_if<Action>(&one))
      return found;
  throw std::logic_error{"no such action"};
}

template <class Action>
std::size_t count_of(const membership_actions& to) {
  std::size_t n = 0;
  for (const auto& one : to)
    n += std::holds_alternative<Action>(one);
  return n;
}

/// Three workers, two servers.
struct judge {
  static membership_options options() {
    membership_options o;
    o.cluster = "c";
    o.term = term_no{4};
    o.workers = 3;
    o.servers = 2;
    o.functions_hash = 42;
    o.functions = {{"alpha", "f(int)"}, {"beta", "g(float)"}};
    return o;
  }
  static hello hello_of(task_id task, std::uint64_t nonce) {
    return {.cluster = "c",
            .task = task,
            .nonce = nonce,
            .functions_hash = 42,
            .data_address = "data-" + std::to_string(nonce),
            .control_address = "control-" + std::to_string(nonce)};
  }
  explicit judge(membership_options o = options()) : core{std::move(o), time_point{ms(1000)}} {}
  membership_actions say_hello(task_id task, std::uint64_t nonce) {
    return core.on_hello(hello_of(task, nonce), hello_no{++requests}, now);
  }
  hello_no last_request() const { return hello_no{requests}; }
  membership_actions beat(task_id task, incarnation inc) {
    return core.on_heartbeat(task, inc, now);
  }
  /// Lets `d` pass, with a tick every 100 ms.
  membership_actions run(duration d) {
    membership_actions all;
    for (const time_point end = now + d; now < end;) {
      now += ms(100);
      auto to = core.on_tick(now);
      all.insert(all.end(), to.begin(), to.end());
    }
    return all;
  }
  time_point now{ms(1000)};
  std::uint64_t requests = 0;
  membership_core core;
};

} // namespace troupe::test
