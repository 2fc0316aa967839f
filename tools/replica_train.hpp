#pragma once

#include <atomic>

#include "fashion_mnist.hpp"

/// The training of `fashion_mnist.hpp` on replicas of a synchronous strategy.
namespace tool {

/// Trains and evaluates with the strategy that `options.strategy` names. The program of every
/// process of the strategy. Throws `troupe::error`.
training_report train_on_replicas(troupe::runtime& rt, const training_options& options,
                                  training_listener& listener, const std::atomic<bool>& stop);

/// The values of `--strategy`, the parameter servers' first: "mirrored", ...
const std::vector<std::string>& strategy_names();

} // namespace tool
