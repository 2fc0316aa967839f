#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include <troupe/troupe.hpp>

#include "options.hpp"

/// The program that the command trains: a perceptron 784-128-10 on Fashion-MNIST, on parameter
/// servers.
namespace tool {

/// Hears of a training run while it goes on. Called on the program's thread.
class training_listener {
public:
  virtual ~training_listener() = default;
  /// `fraction`: of the whole run, in [0, 1]. `loss`: mean over the steps since the last call.
  virtual void progress(std::uint64_t steps, double fraction, double loss) = 0;
  /// All steps are done and nothing but the end is to come.
  virtual void trained() = 0;
  /// A line for people.
  virtual void say(const std::string& line) = 0;
};

/// The results of a training run. All numbers are counted, none assumed.
struct training_report {
  troupe::coordinator_statistics statistics{};
  std::uint64_t steps = 0; ///< closures of this run whose result arrived
  double seconds = 0;      ///< of training alone
  std::uint64_t lost = 0;
  std::uint64_t doubled = 0;
  std::uint64_t reruns = 0; ///< steps whose accepted attempt was not their first
  /// The times at which attempts after the first began, on the machine's steady clock.
  std::vector<std::int64_t> rerun_begin_ns{};
  std::uint32_t replicas = 0;  ///< of a synchronous strategy; 0: parameter servers
  std::uint64_t differing = 0; ///< copies of variables that are not as the first one is
  std::uint64_t correct = 0;   ///< of the test images
  std::uint64_t images = 0;
  double accuracy() const { return images == 0 ? 0.0 : double(correct) / double(images); }
};

/// Sets the options that the datasets of this process are made with. Before the process's runtime
/// starts.
void set_data_options(const training_options& options);

/// Trains, evaluates, compares the audit. Waits until all workers are there before it returns, so
/// that each can be told of the end. `stop`: set by a signal; throws `cancelled` soon after. Throws
/// `troupe::error`.
training_report train_fashion_mnist(troupe::runtime& rt, const training_options& options,
                                    training_listener& listener, const std::atomic<bool>& stop);

} // namespace tool
