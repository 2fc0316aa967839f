#include <doctest/doctest.h>

#include <troupe/strategies/cluster/device_name.hpp>

#include <string>
#include <vector>

using namespace troupe;

namespace {

device_name parsed(std::string_view text) { return parse_device_name(text).value_or_throw(); }

std::string full(std::string_view name, std::string_view fallback = "",
                 const process_place& place = {}) {
  return canonicalize(name, fallback, place).value_or_throw();
}

// The text of the refusal; it must quote the name and the part.
void check_refused(const std::string& name, const std::string& part, const std::string& why) {
  CAPTURE(name);
  auto got = parse_device_name(name);
  REQUIRE_FALSE(got);
  CHECK(got.error().code == errc::invalid_argument);
  CHECK(got.error().text == "device name \"" + name + "\": part \"" + part + "\" " + why);
}

} // namespace

TEST_CASE("SYNC-DEV-1 a bare CPU is this process's, in the job localhost") {
  CHECK(full("/cpu:0") == "/job:localhost/replica:0/task:0/device:CPU:0");
  CHECK(full("cpu:0") == full("/cpu:0"));
  CHECK(full("/device:CPU:0") == full("/cpu:0"));
  CHECK(full("") == full("/cpu:0"));
  CHECK(full("/gpu:3") == "/job:localhost/replica:0/task:0/device:GPU:3");
}

TEST_CASE("SYNC-DEV-2 a job and a task that are given stay") {
  CHECK(full("/job:worker/cpu:0") == "/job:worker/replica:0/task:0/device:CPU:0");
  CHECK(full("/job:worker/task:1/cpu:0") == "/job:worker/replica:0/task:1/device:CPU:0");
}

TEST_CASE("SYNC-DEV-3 a default fills what is open and yields to what is given") {
  CHECK(full("/job:worker/task:1", "/gpu:0") == "/job:worker/replica:0/task:1/device:GPU:0");
  CHECK(full("/job:worker/task:1/cpu:0", "/gpu:0") == "/job:worker/replica:0/task:1/device:CPU:0");
}

TEST_CASE("SYNC-DEV-4 a default may be a job alone; a full name ignores any default") {
  CHECK(full("/cpu:0", "/job:worker") == "/job:worker/replica:0/task:0/device:CPU:0");
  const std::string whole = "/job:worker/replica:2/task:3/device:TPU:4";
  CHECK(full(whole, "/job:ps/replica:9/task:8/gpu:7", {"chief", 6}) == whole);
}

TEST_CASE("SYNC-DEV-5 in a cluster a bare name is the own task's") {
  CHECK(full("/cpu:0", "", {"worker", 0}) == "/job:worker/replica:0/task:0/device:CPU:0");
  CHECK(full("/cpu:0", "", {"worker", 5}) == "/job:worker/replica:0/task:5/device:CPU:0");
  CHECK(full("/cpu:0", "/task:2", {"worker", 5}) == "/job:worker/replica:0/task:2/device:CPU:0");
}

TEST_CASE("SYNC-DEV-6 resolving takes the innermost device scope as the default") {
  const std::vector<device_name> scopes{parsed("/job:worker"), parsed("/task:1/gpu:1")};
  CHECK(to_string(resolve({}, scopes)) == "/job:worker/replica:0/task:1/device:GPU:1");
  CHECK(to_string(resolve(parsed("/cpu:0"), scopes))
        == "/job:worker/replica:0/task:1/device:CPU:0");
  CHECK(to_string(resolve(parsed("/cpu:0"), {}, {"worker", 2}))
        == full("/cpu:0", "", {"worker", 2}));
}

TEST_CASE("SYNC-DEV-7 nested scopes merge, the inner over the outer") {
  CHECK(to_string(merge(parsed("/cpu:0"), parsed("/job:worker"))) == "/job:worker/device:CPU:0");
  CHECK(to_string(merge(parsed("/gpu:0"), parsed("/cpu:0"))) == "/device:GPU:0");
  const std::vector<device_name> scopes{parsed("/job:worker/cpu:0"), parsed("/gpu:0"),
                                        parsed("/gpu:1")};
  CHECK(to_string(resolve({}, scopes)) == "/job:worker/replica:0/task:0/device:GPU:1");
}

TEST_CASE("device name: every spelling of a part is read") {
  CHECK(parsed("/device:GPU:0") == device_name{{}, {}, {}, "GPU", 0});
  CHECK(parsed("gpu:0") == parsed("/device:GPU:0"));
  CHECK(parsed("GPU:0") == parsed("/gpu:0"));
  CHECK(parsed("device:gpu:0") == parsed("/gpu:0"));
  CHECK(parsed("/tpu") == device_name{{}, {}, {}, "TPU", {}});
  CHECK(parsed("/device:TPU:*") == parsed("/tpu"));
  CHECK(parsed("/job:*/replica:*/task:*/cpu:4294967295")
        == device_name{{}, {}, {}, "CPU", 4294967295u});
  CHECK(parsed("/cpu:1/task:3/job:ps_2") == device_name{"ps_2", {}, 3, "CPU", 1});
  CHECK(parsed("/job:worker/replica:0/task:0/device:CPU:0")
        == device_name{"worker", 0, 0, "CPU", 0});
}

TEST_CASE("device name: each of the 32 names with open parts survives its text") {
  for (unsigned open = 0; open < 32; ++open) {
    device_name x{"w", 1, 2, "GPU", 3};
    if ((open & 1u) != 0)
      x.job.reset();
    if ((open & 2u) != 0)
      x.replica.reset();
    if ((open & 4u) != 0)
      x.task.reset();
    if ((open & 8u) != 0)
      x.kind.reset();
    if ((open & 16u) != 0)
      x.index.reset();
    CAPTURE(to_string(x));
    CHECK(parsed(to_string(x)) == x);
    // Whatever is open, the default fills exactly that.
    const device_name other{"d", 7, 8, "TPU", 9};
    const auto merged = merge(x, other);
    CHECK(merged.job == ((open & 1u) != 0 ? other.job : x.job));
    CHECK(merged.replica == ((open & 2u) != 0 ? other.replica : x.replica));
    CHECK(merged.task == ((open & 4u) != 0 ? other.task : x.task));
    CHECK(merged.kind == ((open & 8u) != 0 ? other.kind : x.kind));
    CHECK(merged.index == ((open & 16u) != 0 ? other.index : x.index));
  }
}

TEST_CASE("device name: a bad text is refused, quoting it and the part") {
  const std::string forms =
    "is not one of job:NAME, replica:NUMBER, task:NUMBER, device:KIND:NUMBER, "
    "KIND:NUMBER";
  check_refused("/job:worker/cpu:x", "cpu:x", "has \"x\", expected a number");
  check_refused("/cpu:", "cpu:", "has \"\", expected a number");
  check_refused("/cpu:-1", "cpu:-1", "has \"-1\", expected a number");
  check_refused("/cpu:01", "cpu:01", "has \"01\", expected a number");
  check_refused("/gpu:4294967296", "gpu:4294967296", "has \"4294967296\", expected a number");
  check_refused("/task:a", "task:a", "has \"a\", expected a number");
  check_refused("/replica:1 ", "replica:1 ", "has \"1 \", expected a number");
  check_refused("/job:1w/cpu:0", "job:1w", "has \"1w\", expected a job name");
  check_refused("/job:", "job:", "has \"\", expected a job name");
  check_refused("/job:a-b", "job:a-b", "has \"a-b\", expected a job name");
  check_refused("/device:FPGA:0", "device:FPGA:0", "has \"FPGA\", expected CPU, GPU or TPU");
  check_refused("/fpga:0", "fpga:0", forms);
  check_refused("/job", "job", forms);
  check_refused("/task:1:2", "task:1:2", forms);
  check_refused("/cpu:0:0", "cpu:0:0", forms);
  check_refused("/device:CPU:0:0", "device:CPU:0:0", forms);
  check_refused("/", "", forms);
  check_refused("/cpu:0/", "", forms);
  check_refused("//cpu:0", "", forms);
  check_refused("/job:a/job:b", "job:b", "repeats the job");
  check_refused("/task:1/task:1", "task:1", "repeats the task");
  check_refused("/replica:1/replica:*", "replica:*", "repeats the replica");
  check_refused("/cpu:0/device:GPU:0", "device:GPU:0", "repeats the device");
  check_refused("job:worker", "job:worker", "does not start with '/'");
  check_refused("cpu:0/task:1", "cpu:0", "does not start with '/'");
  auto bad_default = canonicalize("/cpu:0", "/gpu:y");
  REQUIRE_FALSE(bad_default);
  CHECK(bad_default.error().text.find("\"/gpu:y\"") != std::string::npos);
  CHECK_FALSE(canonicalize("/cpu:z", "/gpu:0"));
}
