// Collective operations between machines that come and go, without actors: members of a group step
// together, lose each other, and form the next epoch.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include <troupe/sim/scenarios/group_operation.hpp>
#include <troupe/sim/scenarios/group_registry.hpp>
#include <troupe/sim/scenarios/program.hpp>
#include <troupe/sim/scenarios/table.hpp>
#include <troupe/transport/collective_group.hpp>

namespace troupe::sim {

namespace {

using enum fault_kind;

constexpr duration forming_max = 3s;

/// What the members share beside their group.
struct group_world {
  explicit group_world(std::size_t machines) : registry{machines} {}
  group_registry registry;
  std::int64_t target = 0;
  std::int64_t furthest = 0; ///< the last step that some member completed
  std::uint32_t members_done = 0;
};

/// One session of a member.
class member_program {
public:
  member_program(scenario_run& run, group_world& shared, process& p)
    : run_{run},
      shared_{shared},
      process_{p},
      env_{p.env()},
      id_{std::uint64_t{p.name().task.index} * 1'000 + p.start()} {
    auto made = collective_group::make(env_, id_,
                                       {.name = "sim",
                                        .listen = to_string(p.name()) + ":0",
                                        .network_is_private = true,
                                        .spin = {}});
    run_.expect(bool{made}, "INV-A1", "a group could not be made");
    group_ = std::move(*made);
  }

  void steps() {
    while (step_ < shared_.target)
      if (form())
        epoch();
    shared_.registry.leave(now(), id_);
    ++shared_.members_done;
  }

private:
  /// Between two operations; all steps take the safety phase and more.
  duration compute() const {
    auto lasts = run_.spec().plan.core.at > duration{} ? run_.spec().plan.core.at * 5 / 4 : 2s;
    auto draws = run_.draws("compute").at(id_).at(static_cast<std::uint64_t>(step_));
    auto mean = std::min<duration>(lasts / std::max<std::int64_t>(shared_.target, 1), 500ms);
    return mean / 2
           + duration{
             static_cast<std::int64_t>(draws.below(static_cast<std::uint64_t>(mean.count())))};
  }
  duration now() { return run_.cluster().now(); }

  /// Waits for the next plan, and forms its epoch.
  bool form() {
    run_.phase(process_, "plan");
    shared_.registry.arrive(now(), {process_.name(), id_, group_->address(), group_->missing()});
    std::optional<group_registry::epoch_plan> plan;
    while (!(plan = shared_.registry.plan_for(
               now(), id_, [&](const node_name& n) { return run_.cluster().is_up(n); })))
      env_.threads.spend(20ms);
    run_.phase(process_, "form");
    began("form", forming_max);
    auto ok = enter(*plan);
    if (!ok)
      failed("form", ok.error());
    return bool{ok};
  }

  /// `shrink` and `grow` where they lead to the plan's list; after an error it is told in full.
  result<void> enter(const group_registry::epoch_plan& plan) {
    auto before = std::exchange(last_, {});
    auto in = [](const auto& list, const collective_member& m) {
      return std::any_of(list.begin(), list.end(), [&](const auto& x) { return x.id == m.id; });
    };
    std::vector<std::uint64_t> stay;
    std::vector<collective_member> come;
    for (const auto& m : before)
      if (in(plan.members, m))
        stay.push_back(m.id);
    for (const auto& m : plan.members)
      if (!in(before, m))
        come.push_back(m);
    bool in_order = std::equal(stay.begin(), stay.end(), plan.members.begin(),
                               plan.members.begin() + static_cast<std::ptrdiff_t>(stay.size()),
                               [](std::uint64_t id, const auto& m) { return id == m.id; });
    bool shrinks = in_order && come.empty() && !stay.empty();
    bool grows = in_order && !come.empty() && !stay.empty() && stay.size() == before.size();
    auto ok = shrinks ? group_->shrink(plan.epoch, stay, forming_max)
              : grows ? group_->grow(plan.epoch, come, forming_max)
                      : group_->form(plan.epoch, plan.members, forming_max);
    if (ok)
      last_ = plan.members;
    return ok;
  }

  void epoch() {
    number_ = 0;
    if (!catch_up())
      return;
    bool leave = false;
    while (step_ < shared_.target && !leave) {
      env_.threads.spend(compute());
      if (!operate() || !agree_to_leave(leave))
        return;
      shared_.furthest = std::max(shared_.furthest, ++step_);
    }
  }

  /// All go on from the step of whoever is furthest.
  bool catch_up() {
    began("catch_up", operation_max);
    auto furthest = tensor::scalar<std::int64_t>(step_);
    auto ok = group_->all_reduce(furthest, reduce_op::max, {.deadline = operation_max});
    if (!ok)
      return failed("catch_up", ok.error());
    run_.expect(furthest.item<std::int64_t>() >= step_, "INV-A1", "a maximum is too small");
    step_ = furthest.item<std::int64_t>();
    return true;
  }

  bool agree_to_leave(bool& leave) {
    began("agree_to_leave", operation_max);
    auto flag = tensor::scalar<std::int64_t>(shared_.registry.someone_waits(now()) ? 1 : 0);
    auto ok = group_->all_reduce(flag, reduce_op::max, {.deadline = operation_max});
    if (!ok)
      return failed("agree_to_leave", ok.error());
    leave = flag.item<std::int64_t>() != 0;
    return true;
  }

  bool operate() {
    run_.phase(process_, "operation");
    auto plan = draw_operation(run_.draws("operations"), *group_, ++number_);
    began(to_string(plan.kind), plan.options.deadline);
    auto out = run_operation(*group_, plan);
    if (!out)
      return failed(to_string(plan.kind), out.error());
    trace(env_, "group.result",
          {{"epoch", group_->epoch()},
           {"number", number_},
           {"kind", to_string(plan.kind)},
           {"rank", group_->rank()},
           {"digest", out->got},
           {"expected", out->wanted}});
    return true;
  }

  void began(std::string_view what, duration deadline) {
    trace(env_, "group.begun", {{"what", what}, {"deadline", deadline.count()}});
  }
  bool failed(std::string_view what, const failure& why) {
    trace(env_, "group.failed",
          {{"epoch", group_->epoch()},
           {"what", what},
           {"code", why.code},
           {"missing", group_->missing().size()},
           {"why", why.text}});
    return false;
  }

  scenario_run& run_;
  group_world& shared_;
  process& process_;
  environment env_;
  std::uint64_t id_;
  std::unique_ptr<collective_group> group_{};
  std::vector<collective_member> last_{};
  std::int64_t step_ = 0;
  std::uint64_t number_ = 0;
};

void build_groups(scenario_run& run) {
  const auto& shape = run.shape();
  auto shared = std::make_shared<group_world>(shape.workers);
  shared->target = shape.closures;
  run.keep(shared);
  auto& w = run.cluster();
  w.coordinator([&run, shared](process& p) {
    run.phase(p, "members");
    while (shared->furthest < shared->target)
      p.env().threads.spend(50ms);
  });
  w.workers(shape.workers, [&run, shared](process& p) {
    member_program all{run, *shared, p};
    all.steps();
  });
}

} // namespace

const scenario groups{.name = "groups",
                      .text = "collective operations of members that crash, stop and come back",
                      .shape_min = {.workers = 2, .servers = 0, .closures = 60},
                      .shape_max = {.workers = 5, .servers = 0, .closures = 200},
                      .faults = {.rates = {{worker_crash, 600, 4},
                                           {crash_loop, 150, 1},
                                           {pause, 400, 3},
                                           {slow, 200, 2},
                                           {partition, 300, 2},
                                           {partition_one_way, 200, 2},
                                           {isolate, 200, 2},
                                           {reset, 500, 5},
                                           {stall, 300, 3},
                                           {delay, 300, 2},
                                           {clock_drift, 200, 1}}},
                      .build = build_groups};

const scenario groups_calm{.name = "groups_calm",
                           .text = "collective operations without faults",
                           .fault_free = true,
                           .shape_min = {.workers = 1, .servers = 0, .closures = 60},
                           .shape_max = {.workers = 6, .servers = 0, .closures = 200},
                           .build = build_groups};

} // namespace troupe::sim
