#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <troupe/data/dataset.hpp>
#include <troupe/data/distributed_input.hpp>
#include <troupe/strategies/input/distribute_options.hpp>
#include <troupe/strategies/replicas/detail/replica_engine.hpp>

namespace troupe::detail {

/// Input pipelines: one for all local replicas, or one for each.
using piece_pipelines = std::vector<pipeline_pieces>;

/// The contents of a distributed dataset, shared by its handles and iterators. The program's
/// threads.
class distributed_source {
public:
  distributed_source(std::shared_ptr<replica_engine> of, distribute_options options)
    : of_{std::move(of)}, options_{std::move(options)} {}

  /// Pipelines at the begin of pass 0. Throws what opening the dataset throws; `wrong_state` when
  /// there is nothing to read with: the runtime has ended, or it is the default strategy's input in
  /// a simulated process.
  piece_pipelines open() const;
  /// Steps that a thread makes ahead of `next`; 0: there is no thread.
  std::uint32_t steps_ahead() const;
  /// Whether pieces are put on the replicas' devices before a replica asks.
  bool puts_on_devices() const;

  const std::shared_ptr<replica_engine>& of() const { return of_; }
  const distribute_options& options() const { return options_; }
  dataset global{};
  std::function<dataset(const input_context&)> function{};

private:
  pipeline_pieces open_one(std::int64_t pipelines, std::int64_t pipeline,
                           std::int64_t replicas) const;
  std::vector<std::uint32_t> weights_in_order() const;
  const std::shared_ptr<replica_engine> of_;
  const distribute_options options_;
};

} // namespace troupe::detail
