#include <troupe/sim/fault_plan.hpp>

#include <algorithm>
#include <array>

#include <troupe/sim/draws.hpp>
#include <troupe/sim/fault_guard.hpp>

namespace troupe::sim {

std::string_view to_string(fault_kind kind) {
  constexpr std::array<std::string_view, fault_kinds> names{
    "worker_crash", "crash_loop",        "server_crash", "chief_crash", "pause",    "slow",
    "partition",    "partition_one_way", "isolate",      "swizzle",     "reset",    "stall",
    "delay",        "clock_offset",      "clock_drift",  "torn_write",  "io_error", "no_space",
    "bit_flip",     "slow_io",           "mark_crash"};
  auto i = static_cast<std::size_t>(kind);
  return i < names.size() ? names[i] : "fault(?)";
}

namespace {

using namespace std::chrono_literals;

/// Draws of one fault. Each has a counter of its own, so that none shifts another.
enum class draw_no : std::uint64_t { at, target, other, length, size, flags, back, amount, order };

class fault_maker {
public:
  fault_maker(draw_stream draws, const fault_profile& profile, const cluster_shape& shape,
              duration safety, std::vector<fault>& to)
    : draws_{draws}, profile_{profile}, shape_{shape}, safety_{safety}, to_{to} {}

  void make(fault_kind kind) {
    switch (kind) {
      case fault_kind::worker_crash: return worker_crash();
      case fault_kind::crash_loop: return crash_loop();
      case fault_kind::server_crash: return crash_and_restart(any_server(), 2s);
      case fault_kind::chief_crash: return crash_and_restart(chief, 4s);
      case fault_kind::swizzle: return swizzle();
      case fault_kind::pause: return add(action_kind::pause, any_machine());
      case fault_kind::slow: return slow();
      case fault_kind::isolate: return add(action_kind::isolate, any_worker());
      case fault_kind::reset: return link(action_kind::reset, {});
      case fault_kind::partition: return link(action_kind::partition, length());
      case fault_kind::partition_one_way: return link(action_kind::partition_one_way, length());
      case fault_kind::stall: return link(action_kind::stall, short_length());
      case fault_kind::delay: return delay();
      case fault_kind::clock_offset: return clock(action_kind::clock_offset, 10'000);
      case fault_kind::clock_drift: return clock(action_kind::clock_drift, 200);
      case fault_kind::mark_crash: return mark_crash();
      default: return storage(kind);
    }
  }

private:
  std::uint64_t below(draw_no what, std::uint64_t n, std::uint64_t round = 0) const {
    return draw_stream::scaled(draws_.value(static_cast<std::uint64_t>(what) + 64 * round), n);
  }
  duration within(draw_no what, duration from, duration to, std::uint64_t round = 0) const {
    return from
           + duration{static_cast<std::int64_t>(below(
             what, static_cast<std::uint64_t>(std::max(duration{1}, to - from).count()), round))};
  }
  duration when() const { return within(draw_no::at, 300ms, safety_); }
  /// Mostly short: half are too short to be suspected, a fifth is long.
  duration length(std::uint64_t round = 0) const {
    auto kind = below(draw_no::size, 10, round);
    if (kind < 5)
      return within(draw_no::length, 10ms, 600ms, round);
    return kind < 8
             ? within(draw_no::length, 600ms, 3s, round)
             : within(draw_no::length, 3s, std::max<duration>(profile_.length_max, 4s), round);
  }
  duration short_length() const { return within(draw_no::length, 1ms, 400ms); }
  node_name any_worker() const {
    return worker{static_cast<std::uint32_t>(below(draw_no::target, shape_.workers))};
  }
  node_name any_server() const {
    return server{static_cast<std::uint32_t>(below(draw_no::target, shape_.servers))};
  }
  node_name machine(std::uint64_t i) const {
    if (i < shape_.workers)
      return worker{static_cast<std::uint32_t>(i)};
    i -= shape_.workers;
    return i < shape_.servers ? node_name{server{static_cast<std::uint32_t>(i)}} : chief;
  }
  std::uint64_t machines() const { return shape_.workers + shape_.servers + 1; }
  node_name any_machine() const { return machine(below(draw_no::target, machines())); }

  void put(duration at, action what) { to_.push_back({at, what}); }
  void add(action_kind kind, node_name target) {
    put(when(), {.kind = kind, .target = target, .length = length()});
  }
  std::int64_t crash_flags(std::uint64_t round = 0) const {
    auto x = below(draw_no::flags, 8, round);
    std::int64_t out = crash_plain;
    if (x & 1)
      out |= crash_loses_sent;
    if (x & 2)
      out |= crash_keeps_unsynced;
    if (x == 4)
      out |= crash_silent;
    return out;
  }
  void worker_crash() {
    auto who = any_worker();
    auto at = when();
    put(at, {.kind = action_kind::crash, .target = who, .flags = crash_flags()});
    if (below(draw_no::back, 10) > 0)
      put(at + within(draw_no::length, 5ms, 3s), {.kind = action_kind::restart, .target = who});
  }
  /// In the middle of a save, where the program takes another term.
  void save_crash() {
    constexpr std::string_view marks[] = {"checkpoint.data_synced", "checkpoint.manifest_synced",
                                          "checkpoint.renamed", "checkpoint.committed"};
    fault out{.what = {.kind = action_kind::crash,
                       .target = chief,
                       .flags = crash_flags() & ~crash_silent}};
    out.mark = marks[below(draw_no::order, std::size(marks))];
    out.nth = 1 + below(draw_no::amount, 8);
    to_.push_back(std::move(out));
  }
  void mark_crash() {
    if (profile_.chief_may_crash && below(draw_no::other, 3) > 0)
      return save_crash();
    constexpr std::string_view marks[] = {"client.pushed_k_of_n", "client.pushed_k_of_n",
                                          "client.after_read", "client.all_acked",
                                          "worker.result_sent"};
    fault out{.what = {.kind = action_kind::crash, .target = any_worker(), .flags = crash_flags()}};
    out.mark = marks[below(draw_no::order, std::size(marks))];
    out.nth = 1 + below(draw_no::amount, 120);
    to_.push_back(std::move(out));
  }
  void crash_loop() {
    auto who = any_worker();
    auto at = when();
    auto rounds = 2 + below(draw_no::amount, 4);
    for (std::uint64_t i = 0; i < rounds; ++i) {
      put(at, {.kind = action_kind::crash, .target = who, .flags = crash_flags(i)});
      at += within(draw_no::length, 1ms, 300ms, i);
      put(at, {.kind = action_kind::restart, .target = who});
      at += within(draw_no::back, 1ms, 400ms, i);
    }
  }
  void crash_and_restart(node_name who, duration longest) {
    auto at = when();
    put(at, {.kind = action_kind::crash, .target = who, .flags = crash_flags() & ~crash_silent});
    put(at + within(draw_no::length, 5ms, longest), {.kind = action_kind::restart, .target = who});
  }
  void slow() {
    put(when(), {.kind = action_kind::slow,
                 .target = any_machine(),
                 .length = length(),
                 .amount = static_cast<std::int64_t>(2 + below(draw_no::amount, 200))});
  }
  /// Two machines, at least one of which is a worker in most.
  void link(action_kind kind, duration how_long, std::int64_t amount = 0) {
    auto a = below(draw_no::target, machines());
    auto b = below(draw_no::other, machines() - 1);
    put(when(), {.kind = kind,
                 .target = machine(a),
                 .other = machine(b < a ? b : b + 1),
                 .length = how_long,
                 .amount = amount});
  }
  void delay() {
    auto extra = within(draw_no::amount, 1ms, below(draw_no::order, 4) == 0 ? 400ms : 60ms);
    link(action_kind::delay, length(), extra.count());
  }
  void clock(action_kind kind, std::uint64_t most) {
    auto amount = static_cast<std::int64_t>(below(draw_no::amount, 2 * most + 1))
                  - static_cast<std::int64_t>(most);
    put(when(), {.kind = kind, .target = any_machine(), .amount = amount});
  }
  void storage(fault_kind kind) {
    auto offset = static_cast<int>(kind) - static_cast<int>(fault_kind::torn_write);
    auto what = static_cast<action_kind>(static_cast<int>(action_kind::torn_write) + offset);
    put(when(),
        {.kind = what,
         .target = chief,
         .length = what == action_kind::slow_io ? within(draw_no::length, 1ms, 200ms) : duration{},
         .amount = static_cast<std::int64_t>(1 + below(draw_no::amount, 3))});
  }
  /// The links of one worker are clogged one by one, and healed in another order.
  void swizzle() {
    auto who = any_worker();
    std::vector<node_name> peers;
    for (std::uint64_t i = 0; i < machines(); ++i)
      if (machine(i) != who)
        peers.push_back(machine(i));
    auto shuffle = [&](std::uint64_t round) {
      for (std::size_t i = peers.size(); i > 1; --i)
        std::swap(peers[i - 1], peers[below(draw_no::order, i, round + i)]);
    };
    auto step = within(draw_no::length, 5ms, 300ms);
    auto at = when();
    shuffle(0);
    for (const auto& p : peers)
      put(at += step, {.kind = action_kind::partition, .target = who, .other = p});
    shuffle(1000);
    for (const auto& p : peers)
      put(at += step, {.kind = action_kind::heal, .target = who, .other = p});
  }

  draw_stream draws_;
  const fault_profile& profile_;
  const cluster_shape& shape_;
  duration safety_;
  std::vector<fault>& to_;
};

step_trouble draw_steps(draw_stream draws, const step_trouble& most) {
  std::uint64_t counter = 0;
  auto one = [&](std::uint32_t highest) {
    auto on = draw_stream::scaled(draws.value(counter++), 2) == 1;
    auto share = draw_stream::scaled(draws.value(counter++), highest + 1);
    return on ? static_cast<std::uint32_t>(share) : 0u;
  };
  step_trouble out;
  out.throws = one(most.throws);
  out.hangs = one(most.hangs);
  out.kills = one(most.kills);
  out.slows = one(most.slows);
  return out;
}

/// The chief, all servers, and some workers, one at least.
core_plan draw_core(draw_stream draws, const cluster_shape& shape, duration at) {
  core_plan out{.at = at, .members = {chief}};
  for (std::uint32_t i = 0; i < shape.servers; ++i)
    out.members.push_back(server{i});
  auto sure = draw_stream::scaled(draws.value(0), shape.workers);
  for (std::uint32_t i = 0; i < shape.workers; ++i)
    if (i == sure || draw_stream::scaled(draws.value(2 + i), 2) == 0)
      out.members.push_back(worker{i});
  out.others = draw_stream::scaled(draws.value(1), 2) == 0 ? core_plan::dead : core_plan::cut;
  return out;
}

} // namespace

fault_plan draw_plan(std::uint64_t seed, const fault_profile& profile, const cluster_shape& shape) {
  const draw_stream all{seed, "faults"};
  fault_plan out;
  auto span = std::max<duration>(profile.safety_max - profile.safety_min, duration{1});
  auto safety = profile.safety_min
                + duration{static_cast<std::int64_t>(
                  draw_stream::scaled(all.value(0), static_cast<std::uint64_t>(span.count())))};
  for (const auto& rate : profile.rates) {
    auto of_kind = all.at(1 + static_cast<std::uint64_t>(rate.kind));
    if (draw_stream::scaled(of_kind.value(0), 1000) >= rate.chance_per_mille)
      continue;
    auto count = 1 + draw_stream::scaled(of_kind.value(1), std::max(rate.count_max, 1u));
    for (std::uint64_t i = 0; i < count; ++i)
      fault_maker{of_kind.at(2 + i), profile, shape, safety, out.faults}.make(rate.kind);
  }
  out.steps = draw_steps(all.at(1001), profile.steps);
  if (profile.liveness)
    out.core = draw_core(all.at(1002), shape, safety);
  return fault_guard{profile, shape}.keep(std::move(out));
}

} // namespace troupe::sim
