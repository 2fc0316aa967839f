// What ends a GPU for its process: a program of its own. First a kernel that is slow, then one that
// writes where it must not; after that nothing on the device can be used, and all of it says so.

#include <string>

#include "gpu_support.hpp"

namespace gpu_test {
int launch_bad_write(void* stream);
int launch_spin(long long cycles, void* stream);
} // namespace gpu_test

namespace {

using namespace gpu_test;

GPU_TEST("gpu: a slow kernel outlasts a caller's patience, and is not taken for dead") {
  auto d = open_gpu();
  auto s = d->make_stream("slow").value_or_throw();
  auto e = d->submit(s, {.name = "spin",
                         .run =
                           [](const launch_site& at) {
                             return cuda_answer(launch_spin(400'000'000, at.stream));
                           }})
             .value_or_throw();
  auto late = d->wait(e, 5ms);
  REQUIRE(!late);
  CHECK(late.error().code == errc::device_timeout);
  CHECK(late.error().text.find("'spin'") != std::string::npos);
  CHECK(d->wait(e, 30s));
  closes_well(d);
}

GPU_TEST("gpu: a kernel that writes where it must not ends the device, by name") {
  auto d = open_gpu();
  auto s = d->make_stream("compute").value_or_throw();
  auto e =
    d->submit(
       s, {.name = "bad_write",
           .run = [](const launch_site& at) { return cuda_answer(launch_bad_write(at.stream)); }})
      .value_or_throw();
  auto broken = d->wait(e, 30s);
  REQUIRE(!broken);
  MESSAGE(to_string(broken.error()));
  CHECK(broken.error().code == errc::launch_failed);
  CHECK(broken.error().text.find("gpu:0") != std::string::npos);
  auto again = d->allocate(16, s);
  REQUIRE(!again);
  CHECK(again.error().code == errc::launch_failed);
  auto closed = d->close(5s);
  REQUIRE(!closed);
  CHECK(closed.error().code == errc::launch_failed);
}

} // namespace
