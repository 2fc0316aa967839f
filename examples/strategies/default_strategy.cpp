// A function that asks for the ambient strategy works with any, and without one: then the default
// strategy, which spreads nothing, is there.
#include <troupe/troupe.hpp>

#include <cstdio>

namespace tr = troupe;

/// The mean of the replicas' numbers, 1, 2, ...
double mean_of_numbers() {
  const auto strategy = tr::get_strategy();
  auto numbers = strategy.run([](tr::replica_context& ctx) {
    return tr::tensor::scalar(ctx.replica_id_in_sync_group() + 1.0);
  });
  const double mean = strategy.reduce(tr::reduce_op::mean, numbers).item<double>();
  std::printf("%s: %u replicas, mean %g\n", strategy.to_string().c_str(),
              strategy.num_replicas_in_sync(), mean);
  return mean;
}

int main() {
  const bool before = tr::has_strategy();
  const double alone = mean_of_numbers();
  tr::runtime_options options;
  options.cpu_devices = 4;
  tr::runtime rt{options};
  tr::mirrored_strategy four{rt, std::vector<std::string>{"cpu:0", "cpu:1", "cpu:2", "cpu:3"}};
  const double spread = four.scope(mean_of_numbers);
  return !before && alone == 1 && spread == 2.5 && !tr::has_strategy() ? 0 : 1;
}
