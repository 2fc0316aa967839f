// Scenarios around the audit of effect once, each with faults of another family.
#include <troupe/sim/scenarios/program.hpp>
#include <troupe/sim/scenarios/table.hpp>

namespace troupe::sim {

namespace {

using enum fault_kind;

} // namespace

const scenario witness_calm{.name = "witness_calm",
                            .text = "audited closures without faults",
                            .fault_free = true,
                            .shape_min = small_cluster,
                            .shape_max = large_cluster,
                            .build = build_audit_with<plain_work>};

const scenario clocks_only{.name = "clocks_only",
                           .text = "audited closures while clocks jump and drift",
                           .shape_min = small_cluster,
                           .shape_max = large_cluster,
                           .faults = {.rates = {{clock_offset, 1000, 6}, {clock_drift, 1000, 6}}},
                           .build = build_audit_with<plain_work>};

const scenario worker_storm{.name = "worker_storm",
                            .text = "audited closures while workers crash and come back",
                            .shape_min = small_cluster,
                            .shape_max = large_cluster,
                            .faults = {.rates = {{worker_crash, 900, 10},
                                                 {crash_loop, 400, 2},
                                                 {mark_crash, 500, 4},
                                                 {slow, 200, 2},
                                                 {pause, 200, 2}}},
                            .build = build_audit_with<storm_work>};

const scenario partitions{.name = "partitions",
                          .text = "audited closures while links between machines are cut",
                          .shape_min = small_cluster,
                          .shape_max = large_cluster,
                          .faults = {.rates = {{partition, 800, 6},
                                               {partition_one_way, 800, 6},
                                               {isolate, 500, 3},
                                               {swizzle, 400, 2}}},
                          .build = build_audit_with<storm_work>};

const scenario pauses{.name = "pauses",
                      .text = "audited closures while processes are stopped and go on",
                      .shape_min = small_cluster,
                      .shape_max = large_cluster,
                      .faults = {.rates = {{pause, 1000, 12}, {clock_drift, 200, 2}}},
                      .build = build_audit_with<storm_work>};

const scenario bad_links{
  .name = "bad_links",
  .text = "audited closures over links that stall, delay and reset",
  .shape_min = small_cluster,
  .shape_max = large_cluster,
  .faults = {.rates = {{reset, 800, 10}, {stall, 800, 10}, {delay, 800, 6}, {mark_crash, 300, 2}}},
  .build = build_audit_with<storm_work>};

const scenario slow_machines{.name = "slow_machines",
                             .text = "audited closures on machines that become very slow",
                             .shape_min = small_cluster,
                             .shape_max = large_cluster,
                             .faults = {.rates = {{slow, 1000, 10}, {worker_crash, 300, 3}}},
                             .build = build_audit_with<storm_work>};

const scenario everything{.name = "everything",
                          .text = "audited closures under all faults of workers and links",
                          .shape_min = small_cluster,
                          .shape_max = large_cluster,
                          .faults = {.rates = {{worker_crash, 500, 6},
                                               {crash_loop, 250, 1},
                                               {mark_crash, 400, 3},
                                               {pause, 400, 4},
                                               {slow, 400, 3},
                                               {partition, 400, 3},
                                               {partition_one_way, 400, 3},
                                               {isolate, 300, 2},
                                               {swizzle, 250, 1},
                                               {reset, 400, 4},
                                               {stall, 400, 4},
                                               {delay, 400, 3},
                                               {clock_offset, 300, 2},
                                               {clock_drift, 300, 2}},
                                     .steps = {.throws = 10, .hangs = 3, .kills = 20, .slows = 30}},
                          .build = build_audit_with<storm_work>};

} // namespace troupe::sim
