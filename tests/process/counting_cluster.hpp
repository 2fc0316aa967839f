#pragma once

#include "cluster_processes.hpp"

#include <sched.h>

/// Steps and a small cluster that the process tests share. One file of a program includes it.

namespace tr = troupe;
using namespace troupe::testing;

namespace {

// Not every program uses every step.

void count_step(tr::worker_context& ctx, const tr::variable& counter) {
  (void)ctx;
  counter.assign_add(tr::tensor::scalar(1.0f));
}
TROUPE_FUNCTION(count_step);

/// Runs until the test lets go.
void held_step(tr::worker_context& ctx, const tr::variable& counter) {
  auto& page = shared_page::get();
  ++page.entered;
  while (page.hold && !ctx.cancelled())
    sched_yield();
  if (ctx.cancelled())
    return;
  counter.assign_add(tr::tensor::scalar(1.0f));
}
TROUPE_FUNCTION(held_step);

std::pair<float, float> pair_step(tr::worker_context&, float x) { return {x, -x}; }
TROUPE_FUNCTION(pair_step);

tr::tensor large_step(tr::worker_context&, const tr::tensor& x) {
  auto out = x.clone();
  for (auto& v : out.mutable_as<float>())
    v += 1.0f;
  return out;
}
TROUPE_FUNCTION(large_step);

std::int64_t next_step(tr::worker_context&, tr::dataset_iterator& it) {
  return it.next().item<std::int64_t>();
}
TROUPE_FUNCTION(next_step);

void next_and_count_step(tr::worker_context&, tr::dataset_iterator& it,
                         const tr::variable& counter) {
  it.next();
  counter.assign_add(tr::tensor::scalar(1.0f));
}
TROUPE_FUNCTION(next_and_count_step);

void failing_step(tr::worker_context&) { throw std::runtime_error{"on purpose"}; }
TROUPE_FUNCTION(failing_step);

std::uint32_t where_step(tr::worker_context& ctx) { return ctx.worker().index; }
TROUPE_FUNCTION(where_step);

#ifdef __GNUC__
/// Registered in one role only, as another version of the program would have it.
[[maybe_unused]] const bool other_table = [] {
  if (std::getenv("TROUPE_TEST_EXTRA_FUNCTION"))
    tr::function_table::global().add(
      {.name = "a_function_of_another_version", .signature = "void ()"}, nullptr);
  return true;
}();
#endif

struct fixture {
  explicit fixture(std::uint32_t workers, std::uint32_t servers = 1,
                   tr::runtime_options options = {})
    : cluster{workers, servers, std::move(options)},
      strategy{cluster.rt()},
      coordinator{strategy},
      counter{strategy.create_variable({.name = "counter", .shape = {}})} {
    shared_page::get().hold = false;
    shared_page::get().entered = 0;
  }
  float count() const { return counter.read().item<float>(); }
  process_cluster cluster;
  tr::parameter_server_strategy strategy;
  tr::cluster_coordinator coordinator;
  tr::variable counter;
};

} // namespace

#ifndef TROUPE_TEST_OWN_ROLES
extern "C" int troupe_test_role(const char* role) { return run_role(role); }
#endif
