#pragma once

#include <cstdint>
#include <string>

/// Options of the command line. Plain values.
namespace tool {

/// Options of a training run. The same in the coordinator and in every worker that it uses.
struct training_options {
  std::uint32_t epochs = 10;
  double seconds = 0; ///< above 0: train that long instead of `epochs`
  std::uint32_t workers = 2;
  std::uint32_t servers = 2;
  std::uint32_t batch_size = 64;
  float learning_rate = 1e-3f;
  std::uint64_t seed = 0;
  std::string data{"/usr/share/datasets/fashion-mnist"}; ///< directory of the four IDX files
  std::string checkpoint{};                              ///< directory; empty: none
  bool resume = false;  ///< there must be a checkpoint to go on from
  bool rejoins = false; ///< started again by a launcher: goes on from a checkpoint if there is one
  std::uint64_t checkpoint_every = 0; ///< steps; 0: at the end only
  bool stats = false;
  /// Device of the workers' steps, or of the one replica of a synchronous strategy: gpu:0, cpu:0.
  /// Empty: plain CPU code.
  std::string device{};
  std::string strategy = "parameter_server";
  std::uint32_t replicas = 2; ///< of a synchronous strategy, in each process
  bool effect_once = true;    ///< off: servers apply a repeated operation again; shows what it does
};

} // namespace tool
