// A kernel of one's own on the device of a step: copied there, run, summed, and back. Its stream,
// memory and errors are Troupe's to keep.
#include <cstdio>

#include <troupe/troupe.hpp>

namespace tr = troupe;

int launch_wave(float* x, int n, float phase, void* stream); // wave.cu

float wave_sum(tr::worker_context& ctx, float phase) {
  auto& d = ctx.device();
  auto x = d.put(tr::tensor::zeros(tr::dtype::f32, {1'000'000}));
  ctx.submit(d.stream(), {.name = "wave", .run = [=](const tr::launch_site& at) {
                            return tr::cuda_answer(launch_wave(
                              x.as<float>(), static_cast<int>(x.size()), phase, at.stream));
                          }});
  auto sum = d.empty(tr::dtype::f32, {});
  d.check(d.ops().sum(x, sum));
  return d.get(sum).item<float>();
}
TROUPE_FUNCTION(wave_sum);

int main() try {
  tr::runtime_options options;
  options.devices = {"gpu:0"};
  tr::runtime rt{options};
  tr::parameter_server_strategy strategy{rt};
  tr::cluster_coordinator coordinator{strategy};
  std::printf("%.1f\n", coordinator.schedule(wave_sum, 1.5f).fetch()); // a million times sin(1.5)
} catch (const tr::error& e) {
  std::fprintf(stderr, "custom_kernel: %s\n", e.what());
  return 1;
}
