#include <troupe/sim/world.hpp>

#include <troupe/sim/detail/core.hpp>

namespace troupe::sim {

namespace {

world_options with_seed(std::uint64_t seed) {
  world_options out;
  out.seed = seed;
  return out;
}

} // namespace

world::world(std::uint64_t seed) : world{with_seed(seed)} {}

world::world(world_options options)
  : core_{std::make_unique<core>(*this, obey_environment(std::move(options)))} {}

world::~world() = default;

runtime_options& world::settings() { return core_->settings; }

void world::coordinator(program main) { core_->add_machine(chief, std::move(main)); }

void world::workers(std::uint32_t n, program main) {
  for (std::uint32_t i = 0; i < n; ++i)
    core_->add_machine(worker{i}, main);
}

void world::servers(std::uint32_t n, program main) {
  for (std::uint32_t i = 0; i < n; ++i)
    core_->add_machine(server{i}, main);
}

void world::node(node_name name, program main) { core_->add_machine(name, std::move(main)); }

void world::spare(node_name name, program main) {
  core_->add_machine(name, std::move(main)).starts_first = false;
}

void world::watch(observer& who) { core_->observers.push_back(&who); }

void world::plan(duration since_start, const action& what) {
  core_->plan(since_start, [c = core_.get(), what] { c->act(what); });
}

void world::call_at(duration since_start, std::function<void()> f) {
  core_->plan(since_start, std::move(f));
}

void world::at_mark(std::string mark, node_name where, std::uint64_t nth, action what) {
  core_->mark_actions.push_back({std::move(mark), where, nth, what});
}

bool world::act(const action& what) { return core_->act(what); }

report world::run() { return core_->run(); }

void world::fail(std::string rule, std::string text) {
  core_->fail(std::move(rule), std::move(text));
}

duration world::now() const { return core_->since_start(); }

bool world::is_up(node_name n) const {
  auto* m = core_->find(n);
  return m && m->now && m->now->is_up();
}

bool world::is_paused(node_name n) const {
  auto* m = core_->find(n);
  return m && m->paused;
}

bool world::has_machine(node_name n) const { return core_->find(n) != nullptr; }

std::vector<node_name> world::machines() const {
  std::vector<node_name> out;
  for (const auto& m : core_->machines)
    out.push_back(m->name);
  return out;
}

sim_disk& world::disk(node_name n) {
  auto* m = core_->find(n);
  if (!m)
    throw_failure(errc::unknown_name, "sim: unknown machine " + to_string(n));
  return m->disk;
}

fake_backend* world::gpus(node_name n) {
  auto* m = core_->find(n);
  if (!m)
    throw_failure(errc::unknown_name, "sim: unknown machine " + to_string(n));
  return m->now && m->now->is_up() ? m->now->gpus() : nullptr;
}

std::uint64_t world::seed() const { return core_->options.seed; }

const std::vector<std::uint32_t>& world::picks() const { return core_->picks; }

bool world::program_over() const { return core_->program_over; }

// --- moments
// -------------------------------------------------------------------------------------------------------

using moment = world::moment;

moment& moment::act(action what) {
  world_->plan(at_, what);
  return *this;
}

moment& moment::call(std::function<void()> f) {
  world_->call_at(at_, std::move(f));
  return *this;
}

moment& moment::crash(node_name n, std::int64_t flags) {
  return act({.kind = action_kind::crash, .target = n, .flags = flags});
}

moment& moment::restart(node_name n) { return act({.kind = action_kind::restart, .target = n}); }

moment& moment::pause(node_name n, duration length) {
  return act({.kind = action_kind::pause, .target = n, .length = length});
}

moment& moment::resume(node_name n) { return act({.kind = action_kind::resume, .target = n}); }

moment& moment::slow(node_name n, std::int64_t factor, duration length) {
  return act({.kind = action_kind::slow, .target = n, .length = length, .amount = factor});
}

moment& moment::partition(node_name a, node_name b, duration length) {
  return act({.kind = action_kind::partition, .target = a, .other = b, .length = length});
}

moment& moment::partition_one_way(node_name from, node_name to, duration length) {
  return act(
    {.kind = action_kind::partition_one_way, .target = from, .other = to, .length = length});
}

moment& moment::isolate(node_name n, duration length) {
  return act({.kind = action_kind::isolate, .target = n, .length = length});
}

moment& moment::heal(node_name a, node_name b) {
  return act({.kind = action_kind::heal, .target = a, .other = b});
}

moment& moment::heal_all() { return act({.kind = action_kind::heal_all}); }

moment& moment::reset(node_name a, node_name b, std::int64_t flags) {
  return act({.kind = action_kind::reset, .target = a, .other = b, .flags = flags});
}

moment& moment::stall(node_name from, node_name to, duration length) {
  return act({.kind = action_kind::stall, .target = from, .other = to, .length = length});
}

moment& moment::delay(node_name from, node_name to, duration extra, duration length) {
  return act({.kind = action_kind::delay,
              .target = from,
              .other = to,
              .length = length,
              .amount = extra.count()});
}

moment& moment::clock_offset(node_name n, std::int64_t ms) {
  return act({.kind = action_kind::clock_offset, .target = n, .amount = ms});
}

moment& moment::clock_drift(node_name n, std::int64_t ppm) {
  return act({.kind = action_kind::clock_drift, .target = n, .amount = ppm});
}

moment& moment::storage(action_kind kind, node_name n, std::int64_t count, duration each) {
  return act({.kind = kind, .target = n, .length = each, .amount = count});
}

} // namespace troupe::sim
