#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <troupe/core/result.hpp>
#include <troupe/strategies/cluster/cluster_spec.hpp>
#include <troupe/strategies/cluster/device_name.hpp>

/// Roles in a cluster where every worker runs the same program. Pure functions of the
/// specification; any thread. Source: TensorFlow's multi_worker_util.
///
/// The jobs are `chief`, `worker`, `ps` and `evaluator`. Every function gives `invalid_argument`,
/// naming the field and the value, for a task that `validate_task` refuses. Where the indices of a
/// job have gaps, its first task is the one with the lowest index and ids count tasks.
namespace troupe {

/// A process's place: job and index in it.
struct cluster_task {
  std::string_view job{};
  std::uint32_t index = 0;
};

/// Whether `own` is a task of `spec`: its job is one of the four and in the cluster, its index is
/// there, and there is at most one chief and one evaluator.
result<void> validate_task(const cluster_spec& spec, const cluster_task& own);

/// Whether `own` does what one process does for all, as writing checkpoints: the chief, worker 0
/// where there is none, and the evaluator for itself.
result<bool> is_chief(const cluster_spec& spec, const cluster_task& own);

/// Processes that compute together with one of `job`: chief and workers; for an evaluator, the
/// evaluators. `invalid_argument` for `ps`.
result<std::uint32_t> worker_count(const cluster_spec& spec, std::string_view job);

/// Number of `own` among those, from 0, the chief first. `invalid_argument` for `ps`.
result<std::uint32_t> id_in_cluster(const cluster_spec& spec, const cluster_task& own);

/// The task that leads collectives of `own`'s group, as "/job:chief/replica:0/task:0": the chief,
/// else worker 0. None for an evaluator and in an empty cluster. `invalid_argument` when there is
/// neither chief nor worker.
result<std::optional<device_name>> collective_leader(const cluster_spec& spec,
                                                     const cluster_task& own);

/// The task that hosts the coordination of the whole cluster: server 0, else the chief, else worker
/// 0; none in an empty cluster. `invalid_argument` when there is none of the three.
result<std::optional<device_name>> coordination_leader(const cluster_spec& spec);

} // namespace troupe
