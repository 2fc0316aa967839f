// Scenarios that save and restore, also over coordinators that crash and disks that fail.
#include <utility>

#include <troupe/sim/scenarios/program.hpp>
#include <troupe/sim/scenarios/table.hpp>

namespace troupe::sim {

namespace {

using enum fault_kind;

constexpr const char* directory = "checkpoints";

/// What the program knew at each save: outlives it.
struct save_log {
  std::vector<audit_board> boards{}; ///< by stamp - 1
  std::int64_t returned = 0;         ///< the last stamp whose save returned
};

/// Errors from which a program can't recover in this session: the values of a server are lost.
bool is_loss_of_a_server(const error& why) {
  return why.code() == errc::unavailable && why.details().where.task.job == job_kind::ps;
}

/// An audited program with a variable that says which save it was restored from.
class saving_program {
public:
  saving_program(scenario_run& run, process& p, save_log& log)
    : all_{run, p, 4},
      log_{log},
      stamp_{all_.strategy().create_variable({.name = "stamp", .shape = {1}, .type = dtype::i64})} {
  }

  audited_program& all() { return all_; }

  /// A batch has ended: saves of this session that were taken in its middle have it whole or not.
  void learn() {
    for (auto i = first_; i < log_.boards.size(); ++i)
      log_.boards[i].learn(all_.board());
  }

  /// In the middle of what runs: the snapshot must hold whole closures only. False when it threw.
  bool save(duration deadline = std::chrono::minutes{10}) {
    all_.run().phase(all_.self(), "save");
    log_.boards.push_back(all_.board());
    auto stamp = static_cast<std::int64_t>(log_.boards.size());
    const auto before = disk_hits();
    try {
      stamp_.assign(tensor::vector<std::int64_t>({stamp}));
      all_.coordinator().save(directory, {.deadline = deadline});
      log_.returned = stamp;
      return true;
    } catch (const error& why) {
      expect_allowed(why, "save", disk_hits() > before);
      return false;
    }
  }

  /// Once some closures are in their middle.
  void save_later(std::uint64_t ms) {
    all_.self().env().threads.spend(std::chrono::milliseconds{ms});
    save();
  }

  /// False when there is no checkpoint that could be read.
  bool restore() {
    all_.run().phase(all_.self(), "restore");
    for (int tries = 0; tries < 16; ++tries) {
      const auto before = disk_hits();
      auto hit = [&] { return disk_hits() > before; };
      try {
        all_.coordinator().restore(directory);
        take_over(hit());
        return true;
      } catch (const error& why) {
        if (why.code() == errc::not_found && !hit())
          return nothing_there(why);
        expect_allowed(why, "restore", hit());
        if (tries >= 4 && is_loss_of_a_server(why)) // while it restored
          throw error{why.details()};
        all_.self().env().threads.spend(200ms);
      }
    }
    all_.run().expect(false, "INV-C1", "no try of many could restore anything");
    return false;
  }

private:
  /// Faults that the disk has shown: nothing else excuses what a save or a restore says.
  std::uint64_t disk_hits() const {
    auto& disk = all_.run().cluster().disk(chief);
    std::uint64_t out = 0;
    for (auto f : {sim_disk::fault::torn_write, sim_disk::fault::io_error,
                   sim_disk::fault::no_space, sim_disk::fault::bit_flip})
      out += disk.hits(f);
    return out;
  }

  void expect_allowed(const error& why, const char* call, bool disk_hit) {
    auto code = why.code();
    bool disk = code == errc::io_failed || code == errc::no_space || code == errc::corrupt
                || code == errc::not_found;
    bool way = code == errc::unavailable || code == errc::deadline || code == errc::connection_lost
               || code == errc::connect_failed;
    all_.run().expect(way || (disk && disk_hit), "named-error",
                      std::string{call} + " threw " + why.what());
  }

  bool nothing_there(const error& why) {
    all_.run().expect(log_.returned == 0, "INV-C1",
                      "save " + std::to_string(log_.returned) + " had returned, but " + why.what());
    return false;
  }

  /// The board becomes that of the save which was restored; the variables must be as it says.
  void take_over(bool disk_hit) {
    auto stamp = all_.read(stamp_).at<std::int64_t>(0);
    auto text = "restored save " + std::to_string(stamp) + " of "
                + std::to_string(log_.boards.size()) + ", the last that returned was "
                + std::to_string(log_.returned);
    bool known = stamp >= 1 && stamp <= static_cast<std::int64_t>(log_.boards.size());
    all_.run().expect(known, "INV-C2", text);
    all_.run().expect(stamp >= log_.returned || disk_hit, "INV-C1", text);
    if (!known)
      return;
    auto board = log_.boards[static_cast<std::size_t>(stamp - 1)];
    board.reopened();
    first_ = log_.boards.size(); // cells that were taken since are taken again
    all_.board() = board;
    all_.check("after restore of save " + std::to_string(stamp));
  }

  audited_program all_;
  save_log& log_;
  variable stamp_;
  std::size_t first_; ///< save of this session
};

work_options saving_work() {
  auto out = storm_work();
  out.batch_max = 24;
  return out;
}

// --- one session

void build_checkpoints(scenario_run& run) {
  auto log = run.share<save_log>();
  make_cluster(run, [&run, log](process& p) {
    run_program(run, p, [&] {
      saving_program program{run, p, *log};
      auto draws = run.draws("saves");
      auto options = saving_work();
      options.between = [&](std::int64_t) {
        program.learn();
        if (draws.below(2) == 0)
          program.save();
        if (log->returned > 0 && draws.below(5) == 0)
          program.restore();
      };
      options.before_join = [&] {
        if (draws.below(4) == 0)
          program.save_later(draws.below(400));
      };
      program.all().work(options);
      program.all().check();
    });
  });
}

// --- saves that are over before all servers have answered

/// Links between the coordinator and its servers that stall again and again, each time for less
/// than is taken for a loss.
void stall_servers(scenario_run& run) {
  auto draws = run.draws("stalls");
  for (auto when = 300ms; when < 6s; when += 200ms + std::chrono::milliseconds{draws.below(500)}) {
    node_name from = chief;
    node_name to = server{static_cast<std::uint32_t>(draws.below(run.shape().servers))};
    if (draws.below(2) == 0)
      std::swap(from, to);
    const auto length = std::chrono::milliseconds{20 + draws.below(400)};
    run.cluster().at(when).stall(from, to, length);
    when += length;
  }
}

/// Saves that wait for less than the servers take, each tried again at once: what the servers say
/// of one is no answer to the next.
void build_late_saves(scenario_run& run) {
  auto log = run.share<save_log>();
  run.cluster().settings().quiesce_ms_max = 50 + run.draws("quiesce").below(250);
  make_cluster(run, [&run, log](process& p) {
    run_program(run, p, [&] {
      saving_program program{run, p, *log};
      auto draws = run.draws("saves");
      auto hasty = [&] { return std::chrono::milliseconds{1 + draws.below(200)}; };
      auto options = saving_work();
      options.batch_max = 12;
      options.between = [&](std::int64_t) {
        program.learn();
        for (int tries = 0; tries < 3 && !program.save(hasty()); ++tries) {
        }
        if (log->returned > 0 && draws.below(4) == 0)
          program.restore();
      };
      options.before_join = [&] {
        p.env().threads.spend(std::chrono::milliseconds{draws.below(60)});
        if (!program.save(hasty()))
          program.save();
      };
      program.all().work(options);
      program.all().check();
    });
  });
  stall_servers(run);
}

// --- a coordinator that comes back

/// `on_loss`: of a server, while the runtime still runs; does not return. Null: none is lost.
void save_between_batches(scenario_run& run, process& p, save_log& log,
                          const std::function<void()>& on_loss = {}) {
  saving_program program{run, p, log};
  if (on_loss)
    program.all().let_out(is_loss_of_a_server);
  auto draws = run.draws("saves").at(p.start());
  auto options = saving_work();
  options.between = [&](std::int64_t) {
    program.learn();
    if (draws.below(2) == 0)
      program.save();
  };
  options.before_join = [&] {
    if (draws.below(4) == 0)
      program.save_later(draws.below(400));
  };
  try {
    if (p.start() > 1)
      program.restore();
    program.all().work(options);
    program.all().check();
  } catch (const error& why) {
    if (on_loss && is_loss_of_a_server(why))
      on_loss();
    throw;
  }
}

void build_coordinator_restart(scenario_run& run) {
  auto log = run.share<save_log>();
  make_cluster(run, [&run, log](process& p) {
    run_program(run, p, [&] { save_between_batches(run, p, *log); });
  });
}

// --- a server that comes back empty

/// What it held is gone: this process ends at once, the next one restores a checkpoint on the
/// servers that are there.
void leave_and_come_back(scenario_run& run, process& p) {
  auto& w = run.cluster();
  w.call_at(w.now() + 1s, [&w] { w.act({.kind = action_kind::restart, .target = chief}); });
  p.env().threads.leave_now(1);
}

void build_server_restart(scenario_run& run) {
  auto log = run.share<save_log>();
  make_cluster(run, [&run, log](process& p) {
    run_program(run, p,
                [&] { save_between_batches(run, p, *log, [&] { leave_and_come_back(run, p); }); });
  });
}

fault_profile disk_trouble() {
  return {.rates = {{worker_crash, 500, 4},
                    {torn_write, 500, 3},
                    {io_error, 400, 2},
                    {no_space, 400, 2},
                    {bit_flip, 300, 2},
                    {slow_io, 400, 3},
                    {pause, 300, 2},
                    {reset, 300, 2}},
          .steps = {.kills = 10, .slows = 20}};
}

fault_profile restarts() {
  auto out = disk_trouble();
  out.rates.push_back({chief_crash, 900, 2});
  out.rates.push_back({mark_crash, 500, 2});
  out.rates.push_back({clock_drift, 200, 2});
  out.rates.push_back({delay, 300, 3});
  out.rates.push_back({stall, 300, 3});
  out.rates.push_back({partition, 300, 2});
  out.rates.push_back({isolate, 200, 2});
  out.chief_may_crash = true;
  return out;
}

fault_profile lost_servers() {
  auto out = disk_trouble();
  out.rates.push_back({server_crash, 950, 2});
  out.servers_may_crash = true;
  return out;
}

} // namespace

const scenario checkpoints{.name = "checkpoints",
                           .text = "saves and restores on a disk that fails now and then",
                           .shape_min = small_cluster,
                           .shape_max = large_cluster,
                           .faults = disk_trouble(),
                           .build = build_checkpoints};

const scenario coordinator_restart{.name = "coordinator_restart",
                                   .text =
                                     "the coordinator crashes and restores a checkpoint in "
                                     "its next term",
                                   .shape_min = small_cluster,
                                   .shape_max = large_cluster,
                                   .faults = restarts(),
                                   .build = build_coordinator_restart};

const scenario late_saves{.name = "late_saves",
                          .text = "saves that are over before all servers have answered",
                          .shape_min = {.workers = 2, .servers = 2, .closures = 120},
                          .shape_max = large_cluster,
                          .faults = {.rates = {{worker_crash, 300, 2}}},
                          .build = build_late_saves};

const scenario server_restart{.name = "server_restart",
                              .text = "servers crash: the next coordinator restores a checkpoint",
                              .shape_min = {.workers = 2, .servers = 2, .closures = 120},
                              .shape_max = large_cluster,
                              .faults = lost_servers(),
                              .build = build_server_restart};

} // namespace troupe::sim
