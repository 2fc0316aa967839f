// Each CUDA kernel against the CPU's, over sizes, alignments and special values.

#include "conformance.hpp"
#include "gpu_support.hpp"

namespace {

using namespace gpu_test;

void run(std::initializer_list<const char*> names) {
  auto d = open_gpu();
  {
    conformance::rig r{d};
    for (const char* name : names)
      for (const auto& each : conformance::families)
        if (std::string{each.name}.starts_with(name)) {
          INFO(each.name);
          each.check(r);
        }
  }
  closes_well(d);
}

GPU_TEST("gpu: element-wise kernels give the CPU's bits") { run({"element-wise", "relu"}); }
GPU_TEST("gpu: casts give the CPU's bits") { run({"casts"}); }
GPU_TEST("gpu: reductions give the CPU's bits") { run({"reductions"}); }
GPU_TEST("gpu: update rules give the CPU's numbers") { run({"updates"}); }
GPU_TEST("gpu: dense layers agree with the CPU's") { run({"dense"}); }
GPU_TEST("gpu: softmax and accuracy agree with the CPU's") { run({"softmax", "accuracy"}); }
GPU_TEST("gpu: rows are gathered and added in order") { run({"rows"}); }
GPU_TEST("gpu: buckets of hundreds of parts") { run({"buckets"}); }

} // namespace
