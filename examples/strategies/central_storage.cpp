// Two replicas and one copy of each variable, on the parameter device: for models that do not fit
// beside every replica's work. What replicas assign is brought together first.
#include <troupe/troupe.hpp>

#include <cstdio>

namespace tr = troupe;

int main() {
  tr::runtime_options options;
  options.cpu_devices = 3;
  tr::runtime rt{options};
  tr::central_storage_strategy strategy{rt, std::vector<std::string>{"cpu:1", "cpu:2"}, "cpu:0"};
  auto sums = strategy.scope([] {
    return tr::make_variable(
      {.name = "sums", .shape = {2}, .aggregation = tr::variable_aggregation::sum});
  });
  auto seen = strategy.run([&](tr::replica_context& ctx) {
    const auto id = static_cast<float>(ctx.replica_id_in_sync_group());
    sums.assign_add(tr::tensor::vector({1 + id, 10 + id})); // [1, 10] and [2, 11]
    return sums.read();                                     // each sees the one copy
  });
  std::printf("%zu copy, %s\n", sums.components(), tr::to_string(sums.read()).c_str());
  const auto expected = tr::tensor::vector<float>({3, 21});
  return sums.components() == 1 && seen[0] == expected && seen[1] == expected ? 0 : 1;
}
