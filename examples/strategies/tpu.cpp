// A slice of four cores as two replicas of two: a variable on each core of a replica. f(5) = w (v
// 5) with v = 2 on the first and w = 3 on the second is 30 on each replica.
#include <troupe/troupe.hpp>

#include <cstdio>

namespace tr = troupe;

int main() {
  tr::runtime_options options;
  options.cpu_devices = 4;
  tr::runtime rt{options};
  auto slice = tr::topology::of_one_task({2, 1, 1, 2}).value_or_throw(); // two chips of two cores
  auto assignment =
    tr::device_assignment::build(slice, {.computation_shape = {1, 1, 1, 2}, .num_replicas = 2})
      .value_or_throw();
  tr::tpu_strategy strategy{rt, assignment};
  auto on_core = [&](std::uint32_t core, const char* name, float value) {
    return strategy.scope([&] {
      auto here = strategy.extended().experimental_logical_device(core);
      return tr::make_variable({.name = name, .initial = tr::tensor::scalar(value)});
    });
  };
  auto v = on_core(0, "v", 2), w = on_core(1, "w", 3);
  auto out = strategy.run([&](float x) { return w.item<float>() * (v.item<float>() * x); }, 5.0f);
  const float sum = strategy.reduce(tr::reduce_op::sum, out).item<float>();
  std::printf("v on %s, w on %s; %g on each replica, %g in all\n", v.device().c_str(),
              w.device().c_str(), out[0], sum);
  return out.as_single() == 30 && sum == 60 ? 0 : 1;
}
