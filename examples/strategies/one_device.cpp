// Everything on one device that is named. What `run` gives is not wrapped: there is one replica.
#include <troupe/troupe.hpp>

#include <cstdio>

namespace tr = troupe;

int main() {
  tr::runtime rt;
  tr::one_device_strategy strategy{rt, "cpu:1"};
  auto total = strategy.scope([] { return tr::make_variable({.name = "total", .shape = {}}); });
  std::string device;
  for (auto& batch : tr::distribute_dataset(strategy, tr::dataset::range(10).batch(4))) {
    std::int64_t rows = strategy.run(
      [&](tr::replica_context& ctx, const tr::element& all) {
        device = ctx.devices()[0];
        for (auto each : all.only().as<std::int64_t>())
          total.assign_add(static_cast<float>(each));
        return all.only().rows();
      },
      batch);
    std::printf("%lld rows on %s\n", static_cast<long long>(rows), device.c_str());
  }
  std::printf("0 + 1 + ... + 9 = %g\n", total.item<float>());
  return total.item<float>() == 45 && device == "cpu:1" ? 0 : 1;
}
