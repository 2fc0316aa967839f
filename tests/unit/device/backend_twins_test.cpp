// Goal: the CPU backend refuses what the CUDA backend refuses. Method: each function that takes a
// device or a rank, with one that there is not; operations that throw what is no std::exception.

#include "support.hpp"

namespace {

using namespace device_test;

device_op throwing(const char* name) {
  return {.name = name, .run = [](const launch_site&) -> device_answer { throw 5; }};
}

} // namespace

TEST_CASE("backends: a CPU device that there is not is refused by every function, as a GPU is") {
  fixture f;
  const auto backend = make_cpu_backend(f.env(), {.devices = 2});
  constexpr std::uint32_t none = 2;
  const auto facts = backend->describe(none);
  REQUIRE(!facts);
  CHECK(facts.error().code == errc::device_unavailable);
  CHECK(facts.error().text.find("cpu:2") != std::string::npos);
  void* memory = nullptr;
  native_stream stream;
  native_event event;
  CHECK(backend->bind(none).status == device_status::unavailable);
  CHECK(backend->allocate(none, 8, memory).status == device_status::unavailable);
  CHECK(backend->make_stream(none, "none", stream).status == device_status::unavailable);
  CHECK(backend->make_event(none, event).status == device_status::unavailable);
  CHECK(stream.handle == nullptr);
  CHECK(event.handle == nullptr);
  REQUIRE(backend->allocate(0, 8, memory).ok());
  CHECK(backend->release(none, memory).status == device_status::unavailable);
  CHECK(backend->release(0, memory).ok());
}

TEST_CASE("backends: a rank that is not in the group opens no communicator") {
  fixture f;
  const auto backend = make_cpu_backend(f.env(), {.devices = 1});
  auto* collectives = backend->collectives();
  REQUIRE(collectives != nullptr);
  unique_id key;
  REQUIRE(collectives->get_unique_id(key).ok());
  native_comm comm;
  CHECK(collectives->open(0, key, 2, 2, comm).status == device_status::invalid);
  CHECK(comm.handle == nullptr);
}

TEST_CASE("backends: an operation that throws what is no std::exception fails, and nothing else") {
  fixture f;
  auto cpu = device::open(f.env(), make_cpu_backend(f.env()), 0, quick()).value_or_throw();
  auto stream = cpu->make_stream("compute").value_or_throw();
  const auto done = cpu->submit(stream, throwing("odd")); // it may have broken already
  const auto why = done ? failure_of(cpu->wait(*done, long_enough)) : done.error();
  CHECK(why.code == errc::launch_failed);
  CHECK(why.text.find("odd") != std::string::npos);
  (void)cpu->close(5s);
}
