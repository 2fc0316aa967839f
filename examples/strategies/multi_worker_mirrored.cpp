// clang-format off
// The same program in every process, which TF_CONFIG tells of each other; alone it is the only one:
//   C='{"cluster": {"worker": ["127.0.0.1:7101", "127.0.0.1:7102"]}, "task": {"type": "worker", "index": '
//   TF_CONFIG="$C 0}}" ./multi_worker_mirrored &
//   TF_CONFIG="$C 1}}" ./multi_worker_mirrored
// clang-format on
#include <troupe/troupe.hpp>

#include <cstdio>

namespace tr = troupe;

int main(int argc, char** argv) {
  auto rt = tr::runtime::synchronous_from_args(argc, argv);
  tr::multi_worker_mirrored_strategy strategy{rt}; // waits for all workers
  auto total = strategy.scope([] {
    return tr::make_variable({.name = "total",
                              .initial = tr::tensor::scalar(0.0f),
                              .aggregation = tr::variable_aggregation::sum});
  });
  for (auto step : strategy.steps(5)) {
    auto ids = strategy.run([&](tr::replica_context& ctx) {
      total.assign_add(tr::tensor::scalar(1.0f)); // once for each replica of each worker
      return ctx.all_reduce(tr::reduce_op::sum,
                            static_cast<std::int64_t>(ctx.replica_id_in_sync_group()));
    });
    if (strategy.is_chief())
      std::printf("step %lld: ids add up to %lld, total %g\n", static_cast<long long>(step),
                  static_cast<long long>(ids[0]), total.item<float>());
  }
  const auto n = static_cast<float>(strategy.num_replicas_in_sync());
  return total.item<float>() == 5 * n ? 0 : 1;
}
